import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NodeTracker, nodeName, type NodeChange } from '../../../src/node/index.js'
import { nodeAddresses } from '../../../src/node/testing.js'
import type { NodeObject, ObjectEvent } from '../../../src/source/index.js'
import { cidr, ip } from '../../support/routes.js'

const node: NodeObject = {
  kind: 'Node',
  namespace: '',
  name: 'node-a',
  labels: { 'topology.kubernetes.io/zone': 'west' },
  addresses: [{ type: 'InternalIP', address: '192.0.2.1' }],
  podCIDRs: [],
  taintKeys: [],
  deleted: false,
}

function set(changes: Partial<NodeObject>): ObjectEvent {
  return { type: 'set', object: { ...node, ...changes } }
}

describe('nodeName', () => {
  it('is the override, else the host name trimmed and in lower case', () => {
    assert.equal(nodeName({ hostnameOverride: 'a' }, 'B'), 'a')
    assert.equal(nodeName({ hostnameOverride: undefined }, ' Node-B\n'), 'node-b')
  })

  it('refuses a host name without a letter', () => {
    assert.throws(() => nodeName({ hostnameOverride: undefined }, ' '), /empty hostname is invalid/u)
  })
})

describe('nodeAddresses', () => {
  const cases = [
    {
      name: 'prefers InternalIP in any order',
      addresses: ['ExternalIP 203.0.113.1', 'InternalIP 192.0.2.1'],
      expected: { ipv4: '192.0.2.1' },
    },
    {
      name: 'takes the first of each family',
      addresses: ['InternalIP 192.0.2.1', 'InternalIP 192.0.2.2', 'InternalIP 2001:DB8::1'],
      expected: { ipv4: '192.0.2.1', ipv6: '2001:db8::1' },
    },
    {
      name: 'uses ExternalIP for a family without InternalIP',
      addresses: ['InternalIP 192.0.2.1', 'ExternalIP 2001:db8::2'],
      expected: { ipv4: '192.0.2.1', ipv6: '2001:db8::2' },
    },
    {
      name: 'skips entries that are not IP addresses',
      addresses: ['Hostname node-a', 'InternalIP x'],
      expected: {},
    },
  ]
  for (const { name, addresses, expected } of cases) {
    it(name, () => {
      const listed = addresses.map((text) => {
        const [type = '', address = ''] = text.split(' ')
        return { type, address }
      })
      assert.deepEqual(nodeAddresses({ addresses: listed }), expected)
    })
  }
})

describe('NodeTracker', () => {
  it('stores its own Node and reports the kinds of change', () => {
    const tracker = new NodeTracker('node-a')
    assert.deepEqual(tracker.apply(set({ podCIDRs: ['10.244.1.0/24', 'x'] })), {
      routing: true,
      vipBinding: true,
      modeSettings: true,
      places: false,
    })
    const { otherNodes, ...facts } = tracker.facts
    assert.equal(otherNodes.nodeOf(ip('192.0.2.1')), undefined)
    assert.deepEqual(facts, {
      name: 'node-a',
      zone: 'west',
      addresses: { ipv4: '192.0.2.1' },
      podCIDRs: [cidr('10.244.1.0/24')],
      places: { apiServer: [], agent: [] },
    })
  })

  it('uses the bind address as the IP of its family, also without a Node (F-082)', () => {
    const tracker = new NodeTracker('node-a', ip('198.51.100.9'))
    assert.deepEqual(tracker.facts.addresses, { ipv4: '198.51.100.9' })
    const addresses = ['192.0.2.1', 'fd00::1'].map((address) => ({ type: 'InternalIP', address }))
    tracker.apply(set({ addresses }))
    assert.deepEqual(tracker.facts.addresses, { ipv4: '198.51.100.9', ipv6: 'fd00::1' })
  })

  const nothing = { routing: false, vipBinding: false, modeSettings: false, places: false }
  const changes: { name: string; event: ObjectEvent; expected: NodeChange }[] = [
    { name: 'the same Node', event: set({ taintKeys: ['x'] }), expected: nothing },
    { name: 'another zone', event: set({ labels: {} }), expected: { ...nothing, routing: true } },
    {
      name: 'other addresses',
      event: set({ addresses: [] }),
      expected: { ...nothing, vipBinding: true, modeSettings: true },
    },
    {
      name: "other pods' networks",
      event: set({ podCIDRs: ['10.244.1.0/24'] }),
      expected: { ...nothing, modeSettings: true },
    },
    {
      name: 'another Node',
      event: set({ name: 'node-b', labels: {} }),
      expected: { ...nothing, places: true },
    },
    { name: 'synced', event: { type: 'synced' }, expected: nothing },
  ]
  for (const { name, event, expected } of changes) {
    it(`classifies ${name}`, () => {
      const tracker = new NodeTracker('node-a')
      tracker.apply(set({}))
      assert.deepEqual(tracker.apply(event), expected)
    })
  }

  it('remembers zone and addresses of a deleted Node', () => {
    const tracker = new NodeTracker('node-a')
    tracker.apply(set({}))
    const before = tracker.facts
    const deletion: ObjectEvent = { type: 'delete', kind: 'Node', key: { namespace: '', name: 'node-a' } }
    assert.deepEqual(tracker.apply(deletion), nothing)
    assert.deepEqual(tracker.facts, before)
  })
})

describe('a node that load balancers may send traffic to', () => {
  const gone: ObjectEvent = { type: 'delete', kind: 'Node', key: { namespace: '', name: 'node-a' } }
  const cases: readonly { name: string; events: readonly ObjectEvent[]; isEligible: boolean }[] = [
    // Before the fix, an agent that started while the API server was away reported false.
    { name: 'is one whose Node is not known yet', events: [], isEligible: true },
    { name: 'is not one whose Node does not exist', events: [{ type: 'synced' }], isEligible: false },
    {
      name: 'is one whose Node comes after all other objects',
      events: [{ type: 'synced' }, set({})],
      isEligible: true,
    },
    { name: 'is a known Node', events: [set({})], isEligible: true },
    {
      name: 'may have unrelated taints',
      events: [set({ taintKeys: ['node.kubernetes.io/x'] })],
      isEligible: true,
    },
    {
      name: "is not one with the autoscaler's deletion taint",
      events: [set({ taintKeys: ['a', 'ToBeDeletedByClusterAutoscaler'] })],
      isEligible: false,
    },
    { name: 'is not one in deletion', events: [set({ deleted: true })], isEligible: false },
    { name: 'is not a deleted one', events: [set({}), gone], isEligible: false },
    {
      name: 'is one whose taint was removed',
      events: [set({ taintKeys: ['ToBeDeletedByClusterAutoscaler'] }), set({})],
      isEligible: true,
    },
    {
      name: 'is not replaced by another Node',
      events: [set({ name: 'node-b' }), { type: 'synced' }],
      isEligible: false,
    },
    {
      name: 'stays when another Node is deleted',
      events: [set({}), { type: 'delete', kind: 'Node', key: { namespace: '', name: 'node-b' } }],
      isEligible: true,
    },
  ]
  for (const { name, events, isEligible } of cases) {
    it(name, () => {
      const tracker = new NodeTracker('node-a')
      for (const event of events) tracker.apply(event)
      assert.equal(tracker.isEligible, isEligible)
    })
  }
})

// What is waited for before rules are made, and what of the Node ends the agent (F-080, F-084 to F-086).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpFamily } from '../../../src/address.js'
import { resolveConfig, type ConfigInput } from '../../../src/config/index.js'
import { ConfigError } from '../../../src/errors.js'
import { NodeTracker, NodeWatch, type NodeChange } from '../../../src/node/index.js'
import type { NodeObject, ObjectEvent } from '../../../src/source/index.js'
import { ManualClock, settle } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

const name = 'node-a'
const synced: ObjectEvent = { type: 'synced' }
const deleted: ObjectEvent = { type: 'delete', kind: 'Node', key: { namespace: '', name } }
const internal = { type: 'InternalIP', address: '192.0.2.1' }

function node(changes: Partial<NodeObject> = {}): ObjectEvent {
  const labels = {}
  const object = { kind: 'Node', namespace: '', name, labels, addresses: [], podCIDRs: [] } as const
  return { type: 'set', object: { ...object, taintKeys: [], deleted: false, ...changes } }
}

/** A watch, and what became of it. */
class Lab {
  readonly clock = new ManualClock()
  readonly log = new MemoryLog()
  readonly watch: NodeWatch
  /** What was handed on. */
  readonly told: ObjectEvent[] = []
  /** The change of the Node's facts that was handed on with each batch. */
  readonly changes: NodeChange[] = []
  end: string | undefined

  constructor(input: ConfigInput, families: readonly IpFamily[] = ['ipv4', 'ipv6']) {
    const config = resolveConfig({ manifests: 'm', mode: 'iptables', ...input })
    const { clock, log } = this
    this.watch = new NodeWatch({
      node: new NodeTracker(name, config.bindAddress),
      families,
      config,
      deliver: (events, change) => {
        this.told.push(...events)
        this.changes.push(change)
      },
      clock,
      log,
    })
    this.watch.end.catch((error: unknown) => {
      assert.ok(error instanceof ConfigError)
      this.end = error.message
    })
  }

  async see(...events: readonly ObjectEvent[]): Promise<void> {
    this.watch.see(events)
    await settle()
  }

  /** Whether the words were handed on, or why the agent ends. */
  get outcome(): string {
    return this.end ?? (this.told.includes(synced) ? 'ready' : 'waits')
  }
}

const nodeCIDR: ConfigInput = { detectLocalMode: 'NodeCIDR' }
const primary: ConfigInput = { nodePortAddresses: ['primary'] }
const podCIDRs = ['10.244.1.0/24']

describe('rules wait', () => {
  const cases: readonly {
    readonly name: string
    readonly config: ConfigInput
    readonly events: readonly ObjectEvent[]
    readonly at: 'waits' | 'ready'
    /** Seconds after which it is something else, and what. */
    readonly later?: readonly [number, string]
  }[] = [
    { name: 'for nothing where nothing of the Node is in them', config: {}, events: [synced], at: 'ready' },
    {
      name: "for the pods' networks with NodeCIDR, 5 minutes",
      config: nodeCIDR,
      events: [node({ addresses: [internal] }), synced],
      at: 'waits',
      later: [300, `timeout waiting for PodCIDR allocation on node "${name}"`],
    },
    {
      name: 'for a Node that is not there, as long',
      config: nodeCIDR,
      events: [synced],
      at: 'waits',
      later: [300, `timeout waiting for node "${name}" to exist`],
    },
    {
      name: 'for one that went again',
      config: nodeCIDR,
      events: [node(), synced, deleted],
      at: 'waits',
      later: [300, `timeout waiting for node "${name}" to exist`],
    },
    {
      name: 'for ever where the world cannot be listed',
      config: nodeCIDR,
      events: [node()],
      at: 'waits',
      later: [3600, 'waits'],
    },
    {
      name: 'not for networks that are there',
      config: nodeCIDR,
      events: [node({ podCIDRs }), synced],
      at: 'ready',
    },
    {
      name: 'for the networks of this Node, not of another',
      config: nodeCIDR,
      events: [node({ podCIDRs, name: 'other' }), synced],
      at: 'waits',
    },
    {
      name: 'for IPs with node ports on primary addresses, 30 s',
      config: primary,
      events: [node(), synced],
      at: 'waits',
      later: [30, 'ready'],
    },
    {
      name: 'not for IPs that are there',
      config: primary,
      events: [node({ addresses: [internal] }), synced],
      at: 'ready',
    },
    {
      name: 'not for IPs where one is given',
      config: { ...primary, bindAddress: '192.0.2.1' },
      events: [synced],
      at: 'ready',
    },
    {
      name: 'for the networks as long, whatever became of the IPs',
      config: { ...primary, ...nodeCIDR },
      events: [synced],
      at: 'waits',
      later: [300, `timeout waiting for node "${name}" to exist`],
    },
  ]
  for (const { name: title, config, events, at, later } of cases) {
    it(title, async () => {
      const lab = new Lab(config)
      await lab.see(...events)
      assert.equal(lab.outcome, at)
      if (later === undefined) return
      const [seconds, outcome] = later
      await lab.clock.advance(seconds * 1000 - 1)
      assert.equal(lab.outcome, 'waits')
      await lab.clock.advance(1)
      assert.equal(lab.outcome, outcome)
    })
  }

  it('no longer than for what comes', async () => {
    const lab = new Lab({ ...nodeCIDR, ...primary })
    await lab.see(synced)
    assert.equal(lab.log.find('info', 'waiting').length, 1)
    await lab.see(node({ podCIDRs }))
    assert.equal(lab.outcome, 'waits')
    await lab.see(node({ podCIDRs, addresses: [internal] }))
    assert.equal(lab.outcome, 'ready')
    assert.equal(lab.clock.pending, 0)
  })

  it('and nothing else does: all events are handed on as they come, and the words when they may', async () => {
    const lab = new Lab(nodeCIDR)
    const events = [node(), node({ name: 'other' }), node({ podCIDRs, addresses: [internal] })] as const
    const listed: ObjectEvent = { type: 'listed' }
    await lab.see(events[0], listed)
    await lab.see(events[1], synced)
    assert.deepEqual(lab.told, events.slice(0, 2))
    await lab.see(events[2])
    assert.deepEqual(lab.told, [...events, listed, synced])
    await lab.see(events[0])
    assert.deepEqual(lab.told, [...events, listed, synced])
    assert.match(lab.end ?? '', /^PodCIDRs changed/u)
  })

  it('and events go on with all that they change in the facts of the Node', async () => {
    const lab = new Lab({})
    const zone = { 'topology.kubernetes.io/zone': 'a' }
    await lab.see(node({ labels: zone }), node({ labels: zone, addresses: [internal] }))
    await lab.see(node({ labels: zone, addresses: [internal], podCIDRs }), synced)
    await lab.see(deleted)
    assert.deepEqual(lab.changes, [
      { routing: true, vipBinding: true, modeSettings: true },
      { routing: false, vipBinding: false, modeSettings: true },
      { routing: false, vipBinding: false, modeSettings: false },
      { routing: false, vipBinding: false, modeSettings: false },
    ])
  })

  it('for nothing any more once it is closed', async () => {
    const lab = new Lab(nodeCIDR)
    await lab.see(synced)
    lab.watch.close()
    lab.watch.close()
    assert.equal(lab.clock.pending, 0)
    await lab.see(node({ podCIDRs }))
    assert.deepEqual(lab.told, [])
  })
})

describe('a Node that changes', () => {
  const cases: readonly {
    readonly name: string
    readonly config: ConfigInput
    readonly events: readonly ObjectEvent[]
    readonly end?: string
    readonly told: readonly string[]
  }[] = [
    {
      name: 'F-084 other networks of pods end the agent with NodeCIDR',
      config: nodeCIDR,
      events: [node({ podCIDRs: ['10.244.2.0/24'], addresses: [internal] })],
      end: `PodCIDRs changed for the node "${name}": a restart takes them over`,
      told: ['PodCIDRs changed for the node'],
    },
    {
      name: 'F-084 pod networks that are gone end the agent too',
      config: nodeCIDR,
      events: [node({ addresses: [internal] })],
      end: `PodCIDRs changed for the node "${name}": a restart takes them over`,
      told: ['PodCIDRs changed for the node'],
    },
    {
      name: 'F-084 other pod networks do not end the agent where no setting depends on them',
      config: {},
      events: [node({ podCIDRs: ['10.244.2.0/24'], addresses: [internal] })],
      told: [],
    },
    {
      name: 'F-084 other IPs are logged',
      config: nodeCIDR,
      events: [node({ podCIDRs, addresses: [{ ...internal, address: '192.0.2.2' }] })],
      told: ['NodeIPs changed for the node'],
    },
    {
      name: 'F-084 the deletion of the Node is logged; its return without a change is not',
      config: nodeCIDR,
      events: [deleted, node({ podCIDRs, addresses: [internal] })],
      told: ['Node is deleted: its last known facts stay in force'],
    },
  ]
  for (const { name: title, config, events, end, told } of cases) {
    it(title, async () => {
      const lab = new Lab(config)
      await lab.see(node({ podCIDRs, addresses: [internal] }), synced)
      await lab.see(...events)
      assert.equal(lab.end, end)
      assert.deepEqual(
        lab.log.lines.map(({ message }) => message),
        told,
      )
    })
  }
})

describe('the families that a node programs', () => {
  const ipv6 = { type: 'InternalIP', address: 'fd00::1' }
  const cases: readonly {
    readonly name: string
    readonly config: ConfigInput
    readonly families: readonly IpFamily[]
    readonly node: Partial<NodeObject>
    readonly outcome: string
  }[] = [
    {
      name: 'F-085 have that of the first IP as the primary one',
      config: {},
      families: ['ipv4'],
      node: { addresses: [{ ...ipv6, type: 'ExternalIP' }, internal] },
      outcome: 'ready',
    },
    {
      name: 'F-085 must include the primary one',
      config: {},
      families: ['ipv4'],
      node: { addresses: [ipv6, internal] },
      outcome: 'no support for primary IP family "IPv6"',
    },
    {
      name: 'F-082 have that of --bind-address as the primary one',
      config: { bindAddress: 'fd00::2' },
      families: ['ipv4'],
      node: { addresses: [internal] },
      outcome: 'no support for primary IP family "IPv6"',
    },
    {
      name: 'F-086 do not fit cluster CIDRs of the other family, on a node of one',
      config: { clusterCIDR: ['fd00:10::/56'] },
      families: ['ipv4'],
      node: { addresses: [internal] },
      outcome: 'cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses',
    },
    {
      name: 'F-086 fit cluster CIDRs of one family, on a node of both',
      config: { clusterCIDR: ['fd00:10::/56'] },
      families: ['ipv4', 'ipv6'],
      node: { addresses: [internal] },
      outcome: 'ready',
    },
    {
      name: 'F-086 fit where one of two cluster CIDRs fits',
      config: { clusterCIDR: ['fd00:10::/56', '10.244.0.0/16'] },
      families: ['ipv4'],
      node: { addresses: [internal] },
      outcome: 'ready',
    },
    {
      name: 'F-086 fit any cluster CIDR where interfaces detect local traffic',
      config: { clusterCIDR: ['fd00:10::/56'], ...nodeCIDR },
      families: ['ipv4'],
      node: { addresses: [internal], podCIDRs },
      outcome: 'ready',
    },
    {
      name: "F-086 are compared with the Node's own networks, on a node of both",
      config: nodeCIDR,
      families: ['ipv4', 'ipv6'],
      node: { addresses: [internal], podCIDRs: ['fd00:10::/64'] },
      outcome: 'cluster is IPv4-primary but node.spec.podCIDRs contains only IPv6 addresses',
    },
  ]
  for (const { name: title, config, families, node: changes, outcome } of cases) {
    it(title, async () => {
      const lab = new Lab(config, families)
      await lab.see(node(changes), synced)
      assert.equal(lab.outcome, outcome)
    })
  }
})

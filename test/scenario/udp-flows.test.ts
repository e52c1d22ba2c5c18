// UDP flows over the life of a Service, from its objects to the kernel's table of connections.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { type ModelFlow, openModelKernel } from '../../src/kernel/model/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { IptablesLab } from '../support/iptables-lab.js'
import { endpoint, port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip } from '../support/pipeline-lab.js'

const listed: ObjectEvent = { type: 'listed' }
const ports = [port(53, { protocol: 'UDP' })]
const dns = (rest = {}): ObjectEvent => set(service('dns', '10.96.0.10', { ports, ...rest }))
const endpoints = (...list: Parameters<typeof slice>[2]): ObjectEvent =>
  set(slice('dns-1', 'dns', list, { ports: [{ name: '', protocol: 'UDP', port: 5353 }] }))
const world = [dns(), endpoints('10.1.0.1', '10.1.0.2')]

/** A client's flow to the Service, answered by this endpoint. */
function flow(answering: string, rest: Partial<ModelFlow> = {}): ModelFlow {
  return {
    protocol: 'udp',
    source: ip('10.244.0.9'),
    sourcePort: 40_000,
    destination: ip('10.96.0.10'),
    destinationPort: 53,
    replySource: ip(answering),
    replySourcePort: 5353,
    ...rest,
  }
}
const toFirst = flow('10.1.0.1')
const toSecond = flow('10.1.0.2')
const untranslated = flow('10.96.0.10', { replySourcePort: 53 })
const toNodePort = flow('10.1.0.1', { destination: ip('192.0.2.1'), destinationPort: 30053 })
const ofSomebody = flow('10.1.0.1', { destination: ip('10.96.0.11') })

/** A node whose table holds these flows before the agent starts. */
function labWith(...flows: readonly ModelFlow[]): IptablesLab {
  const kernel = openModelKernel()
  kernel.conntrack.flows = flows
  return new IptablesLab({ kernel })
}

describe('UDP flows', () => {
  const changes: readonly {
    readonly name: string
    readonly change: readonly ObjectEvent[]
    readonly left: readonly ModelFlow[]
  }[] = [
    {
      name: 'of an endpoint that leaves end',
      change: [endpoints('10.1.0.2')],
      left: [toSecond],
    },
    {
      name: 'of an endpoint that serves no longer end',
      change: [endpoints('10.1.0.2', endpoint('10.1.0.1', { ready: false, serving: false }))],
      left: [toSecond],
    },
    {
      name: 'of an endpoint that serves to the end go on',
      change: [endpoints('10.1.0.2', endpoint('10.1.0.1', { ready: false, terminating: true }))],
      left: [toFirst, toSecond, toNodePort],
    },
    { name: 'end with the last endpoint', change: [endpoints()], left: [] },
    { name: 'end with the Service', change: [remove('Service', 'dns')], left: [] },
    { name: 'of a frontend end with it', change: [dns()], left: [toFirst, toSecond] },
    {
      name: 'go on when an endpoint joins',
      change: [endpoints('10.1.0.1', '10.1.0.2', '10.1.0.3')],
      left: [toFirst, toSecond, toNodePort],
    },
  ]
  for (const { name, change, left } of changes) {
    it(name, async () => {
      const lab = labWith(toFirst, toSecond, toNodePort, ofSomebody)
      const withNodePort = dns({ type: 'NodePort', ports: [port(53, { protocol: 'UDP', nodePort: 30053 })] })
      await lab.deliver(withNodePort, endpoints('10.1.0.1', '10.1.0.2'), synced)
      assert.equal(lab.kernel.conntrack.flows.length, 4)
      await lab.deliver(...change)
      assert.deepEqual(lab.kernel.conntrack.flows, [...left, ofSomebody])
      await lab.stop()
    })
  }

  it('that were there before the agent are looked at once', async () => {
    const lab = labWith(toFirst, flow('10.9.9.9'), untranslated)
    await lab.deliver(...world, synced)
    assert.deepEqual(lab.kernel.conntrack.flows, [toFirst])
    await lab.stop()
  })

  it('of endpoints that are not read yet go on', async () => {
    const lab = labWith(toFirst, toSecond)
    await lab.deliver(dns(), listed)
    await lab.deliver(endpoints('10.1.0.1'))
    assert.deepEqual(lab.kernel.conntrack.flows, [toFirst, toSecond])
    await lab.deliver(endpoints('10.1.0.2'), synced)
    assert.deepEqual(lab.kernel.conntrack.flows, [toSecond])
    await lab.stop()
  })

  it('that met no endpoint end when there is one', async () => {
    const lab = labWith()
    await lab.deliver(dns(), synced)
    lab.kernel.conntrack.flows = [untranslated]
    await lab.deliver(endpoints('10.1.0.1'))
    assert.deepEqual(lab.kernel.conntrack.flows, [])
    await lab.stop()
  })

  it('are ended only when the kernel has taken the new rules', async () => {
    const lab = labWith()
    await lab.deliver(...world, synced)
    lab.kernel.conntrack.flows = [toFirst]
    const nat = lab.kernel.xtables('ipv4', 'nat')
    nat.plan = { callFault: (call) => (call === 'apply' ? constants.errno.ENOMEM : undefined) }
    await lab.deliver(endpoints('10.1.0.2'))
    assert.deepEqual(lab.kernel.conntrack.flows, [toFirst])
    nat.plan = {}
    await lab.clock.advance(10_000)
    assert.deepEqual(lab.kernel.conntrack.flows, [])
    await lab.stop()
  })
})

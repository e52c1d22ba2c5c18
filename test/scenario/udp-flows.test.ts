// UDP flows in the kernel's connection table during the life of a Service.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { type ModelFlow, type ModelKernel, openModelKernel } from '../model/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { IptablesLab } from '../support/iptables-lab.js'
import { endpoint, port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab } from '../support/pipeline-lab.js'

const listed: ObjectEvent = { type: 'listed' }
const ports = [port(53, { protocol: 'UDP' })]
const dns = (rest = {}): ObjectEvent => set(service('dns', '10.96.0.10', { ports, ...rest }))
const endpoints = (...list: Parameters<typeof slice>[2]): ObjectEvent =>
  set(slice('dns-1', 'dns', list, { ports: [{ name: '', protocol: 'UDP', port: 5353 }] }))
const unready = { ready: false, serving: false }
const withoutPort = set(service('dns', '10.96.0.10', { ports: [port(54, { protocol: 'UDP' })] }))
const world = [dns(), endpoints('10.1.0.1', '10.1.0.2')]

/** A client's flow to the Service. This endpoint answers it. */
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
const nodeAddress = ip('192.0.2.1')
const foreignHost = ip('198.51.100.7')
const toNodePort = flow('10.1.0.1', { destination: nodeAddress, destinationPort: 30053 })
/** A forwarded flow to another host on the port number of the node port. */
const toForeignHost = flow(foreignHost, {
  destination: foreignHost,
  destinationPort: 30053,
  replySourcePort: 30053,
})
const foreignFlow = flow('10.1.0.1', { destination: ip('10.96.0.11') })

/** A kernel that has these flows before the agent starts. */
async function kernelWith(...flows: readonly ModelFlow[]): Promise<ModelKernel> {
  const kernel = openModelKernel()
  kernel.conntrack.flows = flows
  const address = { address: nodeAddress, prefixLength: 24, interfaceIndex: 1 }
  await kernel.routes.apply([{ op: 'add-address', address }])
  return kernel
}

async function labWith(...flows: readonly ModelFlow[]): Promise<IptablesLab> {
  return new IptablesLab({ kernel: await kernelWith(...flows) })
}

const withNodePort = dns({ type: 'NodePort', ports: [port(53, { protocol: 'UDP', nodePort: 30053 })] })

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
      name: 'of an endpoint that no longer serves end',
      change: [endpoints('10.1.0.2', endpoint('10.1.0.1', { ready: false, serving: false }))],
      left: [toSecond],
    },
    {
      name: 'of a terminating endpoint that serves continue',
      change: [endpoints('10.1.0.2', endpoint('10.1.0.1', { ready: false, terminating: true }))],
      left: [toFirst, toSecond, toNodePort],
    },
    {
      name: 'of unready endpoints continue while no other serves',
      change: [endpoints(endpoint('10.1.0.1', unready), endpoint('10.1.0.2', unready))],
      left: [toFirst, toSecond, toNodePort],
    },
    {
      name: 'of an endpoint that left end, even if the remaining ones do not serve',
      change: [endpoints(endpoint('10.1.0.2', unready))],
      left: [toSecond],
    },
    {
      name: 'of an unready endpoint end with its port of the Service',
      change: [endpoints(endpoint('10.1.0.1', unready), endpoint('10.1.0.2', unready)), withoutPort],
      left: [],
    },
    { name: 'end with the last endpoint', change: [endpoints()], left: [] },
    { name: 'end with the Service', change: [remove('Service', 'dns')], left: [] },
    { name: 'of a frontend end with it', change: [dns()], left: [toFirst, toSecond] },
    {
      name: 'continue when an endpoint is added',
      change: [endpoints('10.1.0.1', '10.1.0.2', '10.1.0.3')],
      left: [toFirst, toSecond, toNodePort],
    },
  ]
  for (const { name, change, left } of changes) {
    it(name, async () => {
      const lab = await labWith(toFirst, toSecond, toNodePort, toForeignHost, foreignFlow)
      await lab.deliver(withNodePort, endpoints('10.1.0.1', '10.1.0.2'), synced)
      assert.equal(lab.kernel.conntrack.flows.length, 5)
      for (const event of change) await lab.deliver(event)
      assert.deepEqual(lab.kernel.conntrack.flows, [...left, toForeignHost, foreignFlow])
      await lab.stop()
    })
  }

  it('from before the start are checked at the start', async () => {
    const lab = await labWith(toFirst, flow('10.9.9.9'), untranslated)
    await lab.deliver(...world, synced)
    assert.deepEqual(lab.kernel.conntrack.flows, [toFirst])
    await lab.stop()
  })

  it('of an endpoint that serves again continue, and those of others end', async () => {
    const lab = await labWith(toFirst, toSecond)
    await lab.deliver(dns(), endpoints(endpoint('10.1.0.1', unready), endpoint('10.1.0.2', unready)), synced)
    assert.deepEqual(lab.kernel.conntrack.flows, [toFirst, toSecond])
    await lab.deliver(endpoints('10.1.0.1', endpoint('10.1.0.2', unready)))
    assert.deepEqual(lab.kernel.conntrack.flows, [toFirst])
    await lab.stop()
  })

  const loopback = ip('127.0.0.1')
  const served = [
    { mode: 'iptables', networks: [], ended: [nodeAddress, loopback] },
    { mode: 'iptables', networks: [], localhostNodePorts: false, ended: [nodeAddress] },
    { mode: 'iptables', networks: ['192.0.2.0/24'], ended: [nodeAddress] },
    { mode: 'iptables', networks: ['203.0.113.0/24'], ended: [] },
    { mode: 'iptables', networks: ['127.0.0.0/8', '192.0.2.0/24'], ended: [nodeAddress, loopback] },
    { mode: 'ipvs', networks: [], ended: [nodeAddress] },
    { mode: 'ipvs', networks: ['203.0.113.0/24'], ended: [] },
    { mode: 'ipvs', networks: ['127.0.0.0/8', '192.0.2.0/24'], ended: [nodeAddress] },
  ] as const
  for (const row of served) {
    const { mode, networks, ended } = row
    const localhostNodePorts = 'localhostNodePorts' in row ? row.localhostNodePorts : true
    const name = `${mode} mode, networks [${networks.join(', ')}], localhostNodePorts ${localhostNodePorts}`
    it(`to node ports end only at addresses that serve node ports: ${name}`, async () => {
      const kernel = await kernelWith(
        ...[nodeAddress, loopback, foreignHost].map((destination) =>
          flow('10.9.9.9', { destination, destinationPort: 30053 }),
        ),
      )
      const config = { mode, nodePortAddresses: networks, iptables: { localhostNodePorts } }
      const lab = new PipelineLab({ kernel, config })
      await lab.deliver(withNodePort, endpoints('10.1.0.1'), synced)
      const left = kernel.conntrack.flows.map(({ destination }) => destination)
      const all = [nodeAddress, loopback, foreignHost]
      assert.deepEqual(
        left,
        all.filter((address) => ended.every((gone) => gone !== address)),
      )
      await lab.stop()
    })
  }

  it('to node ports are checked again after a failed read of the addresses of the machine', async () => {
    const lab = await labWith()
    await lab.deliver(withNodePort, endpoints('10.1.0.1'), synced)
    lab.kernel.conntrack.flows = [toNodePort]
    lab.kernel.routes.batches.plan = {
      callFault: (call) => (call === 'dumpAddresses' ? constants.errno.ENOBUFS : undefined),
    }
    await lab.deliver(endpoints('10.1.0.2'))
    assert.deepEqual(lab.kernel.conntrack.flows, [toNodePort])
    lab.kernel.routes.batches.plan = {}
    await lab.deliver(endpoints('10.1.0.2', '10.1.0.3'))
    assert.deepEqual(lab.kernel.conntrack.flows, [])
    await lab.stop()
  })

  it('of endpoints that are not known yet continue', async () => {
    const lab = await labWith(toFirst, toSecond)
    await lab.deliver(dns(), listed)
    await lab.deliver(endpoints('10.1.0.1'))
    assert.deepEqual(lab.kernel.conntrack.flows, [toFirst, toSecond])
    await lab.deliver(endpoints('10.1.0.2'), synced)
    assert.deepEqual(lab.kernel.conntrack.flows, [toSecond])
    await lab.stop()
  })

  it('without an endpoint end when there is one', async () => {
    const lab = await labWith()
    await lab.deliver(dns(), synced)
    lab.kernel.conntrack.flows = [untranslated]
    await lab.deliver(endpoints('10.1.0.1'))
    assert.deepEqual(lab.kernel.conntrack.flows, [])
    await lab.stop()
  })

  for (const mode of ['iptables', 'ipvs', 'nftables'] as const)
    it(`are deleted beside the changes of other Services, in ${mode} mode`, async () => {
      const lab = new PipelineLab({ kernel: await kernelWith(toFirst), config: { mode } })
      const { conntrack } = lab.kernel
      await lab.deliver(...world, synced)
      conntrack.flows = [toFirst, toSecond]
      const answers = new EventEmitter()
      conntrack.beforeAnswer = async () => void (await once(answers, 'allowed'))
      await lab.deliver(endpoints('10.1.0.2'))
      const calls = conntrack.calls.length
      const externalTrafficPolicy = 'Local'
      const type = 'LoadBalancer'
      await lab.deliver(
        set(service('web', '10.96.0.20', { type, externalTrafficPolicy, healthCheckNodePort: 32_000 })),
      )
      await lab.deliver(endpoints('10.1.0.3'))
      assert.deepEqual([...lab.healthChecks.checks.keys()], ['default/web'])
      assert.equal(conntrack.calls.length, calls)
      assert.deepEqual(conntrack.flows, [toFirst, toSecond])
      conntrack.beforeAnswer = async () => {}
      answers.emit('allowed')
      await lab.deliver()
      assert.equal(conntrack.calls.length, calls + 1)
      assert.deepEqual(conntrack.flows, [])
      await lab.stop()
    })

  it('are deleted only after the kernel has the new rules', async () => {
    const lab = await labWith()
    await lab.deliver(...world, synced)
    lab.kernel.conntrack.flows = [toFirst]
    const nat = lab.kernel.xtables('ipv4', 'nat')
    nat.plan = { callFault: (call) => (call === 'apply' ? constants.errno.ENOMEM : undefined) }
    await lab.deliver(endpoints('10.1.0.2'))
    await lab.clock.advance(120_000)
    assert.deepEqual(lab.kernel.conntrack.flows, [toFirst])
    nat.plan = {}
    await lab.clock.advance(30_000)
    assert.deepEqual(lab.kernel.conntrack.flows, [])
    await lab.stop()
  })
})

// Node ports on 127.0.0.1 and ::1 in nftables and ipvs mode, through the relay (KEP-6032).
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { ConfigInput } from '../../src/config/index.js'
import { openModelKernel } from '../model/index.js'
import { port, remove, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

const nodePorts = {
  type: 'NodePort',
  ports: [port(80, { nodePort: 30080 }), port(53, { name: 'dns', protocol: 'UDP', nodePort: 30053 })],
} as const
const slicePorts = [
  { name: '', protocol: 'TCP', port: 8080 },
  { name: 'dns', protocol: 'UDP', port: 5353 },
] as const
const web = [
  set(service('web', '10.96.0.1', { ...nodePorts, externalTrafficPolicy: 'Local' })),
  set(slice('web-1', 'web', ['10.1.0.1'], { ports: slicePorts })),
]
const web6 = [
  set(service('web6', 'fd00:10:96::1', { type: 'NodePort', ports: [port(80, { nodePort: 30086 })] })),
  set(slice('web6-1', 'web6', ['fd00:10:1::1'])),
]
const loopbacks = ['127.0.0.0/8', '::1/128']
const gate = { KubeProxyNFTablesLocalhostNodePorts: true }

async function started(config: ConfigInput): Promise<PipelineLab> {
  const kernel = openModelKernel()
  const lab = new PipelineLab({ kernel, config, flavour: config.mode === 'nftables' ? 'nft' : 'legacy' })
  await lab.deliver(...web, ...web6, synced)
  await lab.clock.advance(1000)
  return lab
}

/** `tcp 127.0.0.1:30080 -> 10.1.0.1:8080`, sorted. */
function listeners({ kernel: { relay } }: PipelineLab): readonly string[] {
  return [...relay.listeners.values()]
    .map(({ protocol, address, port: number, near, service: id }) => {
      const { clusterEndpoints = [], localEndpoints = [] } = relay.services.get(id) ?? {}
      const served = near === 'cluster' ? clusterEndpoints : near === 'local' ? localEndpoints : []
      return `${protocol} ${address}:${number} -> ${served.map((one) => `${one.address}:${one.port}`).join(' ')}`
    })
    .toSorted()
}

const ipv4 = ['tcp 127.0.0.1:30080 -> 10.1.0.1:8080', 'udp 127.0.0.1:30053 -> 10.1.0.1:5353']
const ipv6 = ['tcp ::1:30086 -> fd00:10:1::1:8080']

describe('node ports on localhost', () => {
  const rows: readonly { name: string; config: ConfigInput; expected: readonly string[] }[] = [
    { name: 'nftables mode by default', config: { mode: 'nftables' }, expected: [] },
    { name: 'ipvs mode by default', config: { mode: 'ipvs' }, expected: [] },
    {
      name: 'nftables mode on the primary addresses',
      config: { mode: 'nftables', localhostNodePorts: true },
      expected: [],
    },
    {
      name: 'nftables mode with loopback addresses that nothing turns on',
      config: { mode: 'nftables', nodePortAddresses: loopbacks },
      expected: [],
    },
    {
      name: 'nftables mode with loopback addresses',
      config: { mode: 'nftables', localhostNodePorts: true, nodePortAddresses: loopbacks },
      expected: [...ipv4, ...ipv6],
    },
    {
      name: "nftables mode by kube-proxy's gate",
      config: { mode: 'nftables', featureGates: gate, nodePortAddresses: loopbacks },
      expected: [...ipv4, ...ipv6],
    },
    {
      name: "nftables mode by kube-proxy's gate, without a loopback network of its own",
      config: { mode: 'nftables', featureGates: gate, nodePortAddresses: ['0.0.0.0/0', '::1/128'] },
      expected: ipv6,
    },
    {
      name: "nftables mode by kube-proxy's gate, with its keywords",
      config: { mode: 'nftables', featureGates: gate, nodePortAddresses: ['primary', 'localhost'] },
      expected: [...ipv4, ...ipv6],
    },
    {
      name: "nftables mode by kube-proxy's gate, with localhost beside all",
      config: { mode: 'nftables', featureGates: gate, nodePortAddresses: ['all', 'localhost'] },
      expected: [...ipv4, ...ipv6],
    },
    {
      name: "nftables mode by kube-proxy's gate, with all alone",
      config: { mode: 'nftables', featureGates: gate, nodePortAddresses: ['all'] },
      expected: [],
    },
    {
      name: 'nftables mode on the primary addresses and a network of the other family',
      config: { mode: 'nftables', localhostNodePorts: true, nodePortAddresses: ['primary', '::1/128'] },
      expected: ipv6,
    },
    {
      name: 'ipvs mode with the keyword localhost',
      config: { mode: 'ipvs', localhostNodePorts: true, nodePortAddresses: ['localhost'] },
      expected: [...ipv4, ...ipv6],
    },
    {
      name: 'ipvs mode on all addresses',
      config: { mode: 'ipvs', localhostNodePorts: true },
      expected: [...ipv4, ...ipv6],
    },
    {
      name: "ipvs mode, which kube-proxy's gate does not concern",
      config: { mode: 'ipvs', featureGates: gate, nodePortAddresses: loopbacks },
      expected: [],
    },
    {
      name: 'ipvs mode on a network without loopback addresses',
      config: { mode: 'ipvs', localhostNodePorts: true, nodePortAddresses: ['192.0.2.0/24', '::1/128'] },
      expected: ipv6,
    },
  ]
  for (const { name, config, expected } of rows) {
    it(`${name}: ${expected.length} listeners`, async () => {
      const lab = await started(config)
      assert.deepEqual(listeners(lab), expected.toSorted())
      // Without a listener nothing was sent: the relay has not started.
      assert.equal(lab.kernel.relay.batches.ops.length === 0, expected.length === 0)
      assert.deepEqual(lab.crashes, [])
      await lab.stop()
    })
  }

  for (const mode of ['nftables', 'ipvs'] as const) {
    it(`${mode} mode: follow endpoints and Services`, async () => {
      const lab = await started({ mode, localhostNodePorts: true, nodePortAddresses: loopbacks })
      await lab.deliver(set(slice('web-1', 'web', ['10.1.0.2'])))
      await lab.clock.advance(1000)
      assert.deepEqual(listeners(lab), ['tcp 127.0.0.1:30080 -> 10.1.0.2:8080', ...ipv6])
      await lab.deliver(remove('Service', 'web'), remove('Service', 'web6'))
      await lab.clock.advance(1000)
      assert.deepEqual([listeners(lab), lab.kernel.relay.services.size], [[], 0])
      await lab.stop()
    })
  }

  it('report a port that another program has, and open it when that one is gone', async () => {
    const kernel = openModelKernel()
    let isTaken = true
    kernel.relay.batches.plan = {
      fault: ({ op }) => (isTaken && op === 'set-listener' ? constants.errno.EADDRINUSE : undefined),
    }
    const config = { mode: 'nftables', localhostNodePorts: true, nodePortAddresses: loopbacks }
    const lab = new PipelineLab({ kernel, config, flavour: 'nft' })
    await lab.deliver(...web6, synced)
    await lab.clock.advance(1000)
    assert.equal(lab.log.find('error', 'EADDRINUSE').length, 1)
    // kubeproxy_nftables_localhost_nodeport_listeners and kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total
    assert.deepEqual(lab.countLocalhostNodePorts(), {
      ipv4: { listeners: 0, creationFailures: 0 },
      ipv6: { listeners: 0, creationFailures: 1 },
    })
    isTaken = false
    await lab.clock.advance(65_000)
    assert.deepEqual(listeners(lab), ipv6)
    const { ipv6: counts } = lab.countLocalhostNodePorts()
    assert.equal(counts?.listeners, 1)
    await lab.stop()
  })
})

// The shipped agent in iptables mode takes over from kube-proxy in nftables mode, under load (issue 18, C7).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiService, apiSlice } from '../support/api-documents.js'
import { Load, type LoadPath, sumOf } from '../support/load.js'
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import { Prober } from '../support/probes.js'
import { eventually } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'

const vip = '10.96.0.10'
const nodeIp = '192.0.2.1'
const pods = ['10.1.0.1', '10.1.0.2'] as const
const agentFile = join(treeRoot, 'dist/agent.js')
const limitMs = 30_000

/** The table of kube-proxy 1.36 for this Service, with its layout and hook priorities. */
const kubeProxyTable = `
table ip kube-proxy {
  map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = {
    ${vip} . tcp . 80 : goto service-web, ${vip} . udp . 80 : goto service-web } }
  map service-nodeports { type inet_proto . inet_service : verdict; elements = { tcp . 30080 : goto external-web } }
  set cluster-ips { type ipv4_addr; elements = { ${vip} } }
  chain service-web {
    ip daddr ${vip} ip saddr != 10.1.0.0/16 jump mark-for-masquerade
    meta l4proto tcp dnat ip addr . port to numgen random mod 2 map { 0 : ${pods[0]} . 8080, 1 : ${pods[1]} . 8080 }
    meta l4proto udp dnat ip addr . port to numgen random mod 2 map { 0 : ${pods[0]} . 8080, 1 : ${pods[1]} . 8080 }
  }
  chain external-web { jump mark-for-masquerade
    goto service-web; }
  chain mark-for-masquerade { meta mark set meta mark or 0x4000; }
  chain services {
    ip daddr . meta l4proto . th dport vmap @service-ips
    fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @service-nodeports
  }
  chain masquerading {
    meta mark and 0x4000 == 0 return
    meta mark set meta mark xor 0x4000
    masquerade fully-random
  }
  chain cluster-ips-check { ip daddr @cluster-ips reject; }
  chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }
  chain filter-forward { type filter hook forward priority 0; ct state new jump cluster-ips-check; }
  chain filter-output { type filter hook output priority 0; ct state new jump cluster-ips-check; }
}
`

/** Paths of the load. Each has ten attempts per second. */
function paths(from: string, count: number): readonly LoadPath[] {
  const to = (name: string, kind: LoadPath['kind'], address: string, port: number): LoadPath => ({
    name: `${from}, ${name}`,
    kind,
    address,
    port,
    by: pods,
    sees: null,
  })
  return [
    ...Array.from({ length: count }, (_, index) => to(`cluster IP ${index}`, 'connection', vip, 80)),
    ...Array.from({ length: count }, (_, index) => to(`node port ${index}`, 'connection', nodeIp, 30080)),
    to('open', 'exchange', vip, 80),
    to('datagrams', 'query', vip, 80),
  ]
}

let spaces: readonly Namespace[]
let node: Namespace
let folder: string
let loads: readonly Load[]

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'viaduct-from-nftables-'))
  const [client, hub, podSpace] = await Promise.all([
    Namespace.create('client'),
    Namespace.create('node'),
    Namespace.create('pods'),
  ])
  spaces = [client, hub, podSpace]
  node = hub
  await connect(
    { namespace: client, interfaceName: 'eth0', addresses: ['192.0.2.2/24'] },
    { namespace: node, interfaceName: 'eth0', addresses: [`${nodeIp}/24`] },
  )
  await connect(
    { namespace: podSpace, interfaceName: 'eth0', addresses: pods.map((address) => `${address}/24`) },
    { namespace: node, interfaceName: 'pods', addresses: ['10.1.0.254/24'] },
  )
  await client.ip(`route add default via ${nodeIp}`)
  await podSpace.ip('route add default via 10.1.0.254')
  await node.ip('route add default via 192.0.2.2')
  await setSysctls(node, 'net.ipv4.ip_forward=1')
  const servers = (['TCP', 'UDP'] as const).flatMap((protocol) =>
    pods.map((address) => ({ protocol, address, port: 8080 })),
  )
  await new Prober(podSpace).serve(servers)
  loads = [client, node].map((space) => new Load(space))
})

afterEach(async () => {
  await Promise.all(spaces.map((space) => space.close()))
  rmSync(folder, { recursive: true })
})

function writeManifests(): void {
  const ports = (['TCP', 'UDP'] as const).map((protocol) => ({
    name: protocol.toLowerCase(),
    protocol,
    port: 80,
  }))
  const service = apiService('web', vip, {
    type: 'NodePort',
    ports: ports.map((port) => (port.protocol === 'TCP' ? { ...port, nodePort: 30080 } : port)),
  })
  const slice = apiSlice('web-1', 'web', pods)
  const slicePorts = ports.map((port) => ({ ...port, port: 8080 }))
  const documents = [
    { apiVersion: 'v1', kind: 'Service', ...service },
    { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...slice, ports: slicePorts },
  ]
  writeFileSync(
    join(folder, 'web.json'),
    documents.map((document) => JSON.stringify(document)).join('\n---\n'),
  )
}

describe('from kube-proxy in nftables mode to iptables mode', { timeout: 120_000 }, () => {
  for (const first of ['nf_tables', 'x_tables'] as const) {
    it(`no connection, request or datagram is lost when ${first} registered its hooks first`, async () => {
      writeManifests()
      if (first === 'x_tables') await node.must('iptables-legacy', '-t', 'nat', '-L')
      await node.must('sh', '-c', 'printf "%s" "$1" | nft -f -', 'sh', kubeProxyTable)
      for (const [index, load] of loads.entries()) load.add(paths(`from ${index}`, 8))
      let counts = sumOf({}, {})
      const take = async (): Promise<number> => {
        for (const load of loads) counts = sumOf(counts, await load.take())
        return Math.min(...Object.values(counts).map(({ tried }) => tried))
      }
      await eventually(take, (tried) => tried >= 5, limitMs)
      const flags = ['--proxy-mode', 'iptables', '--cluster-cidr', '10.1.0.0/16', '-v', '2']
      const agent = node.start(process.execPath, agentFile, '--manifests', folder, ...flags)
      await agent.line((line) => line.includes('Leftovers of nftables mode: removed the table kube-proxy'))
      assert.equal(await node.must('nft', 'list', 'tables'), '')
      const before = await take()
      await eventually(take, (tried) => tried >= before + 5, limitMs)
      const failed = Object.entries(counts).filter(([, { failed: count }]) => count > 0)
      assert.deepEqual(failed, [])
      const again = Object.entries(counts).filter(([, { retransmitted }]) => retransmitted > 0)
      assert.deepEqual(again, [])
    })
  }
})

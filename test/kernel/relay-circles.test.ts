// Two nodes whose relays lead to each other: a node port of each is the endpoint of the other's Service. Each node is a network namespace
// with an agent in userspace mode.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { askInNamespace } from '../support/page-question.js'
import { connect, Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

/** A Service of each protocol and family, `port` on every node, whose only endpoint is a node port of another node. */
function manifestsOf(
  port: number,
  endpoint: { readonly addresses: Addresses; readonly port: number },
): string {
  return (['TCP', 'UDP'] as const)
    .flatMap((protocol, index) =>
      (['IPv4', 'IPv6'] as const).map((family) => {
        const name = `to-${endpoint.port}-${protocol}-${family}`.toLowerCase()
        const clusterIP =
          family === 'IPv4' ? `10.96.${index}.${port - 30_000}` : `fd96::${index}:${port - 30_000}`
        return `
apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: tenant }
spec:
  type: NodePort
  clusterIP: '${clusterIP}'
  ipFamilies: [${family}]
  ports: [{ port: 80, nodePort: ${port}, protocol: ${protocol} }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}, namespace: tenant, labels: { kubernetes.io/service-name: ${name} } }
addressType: ${family}
ports: [{ port: ${endpoint.port}, protocol: ${protocol} }]
endpoints: [{ addresses: ['${endpoint.addresses[family]}'], conditions: { ready: true } }]
`
      }),
    )
    .join('---\n')
}

type Addresses = Readonly<Record<'IPv4' | 'IPv6', string>>

const nodes = {
  a: { IPv4: '192.0.2.1', IPv6: '2001:db8::1' },
  b: { IPv4: '192.0.2.2', IPv6: '2001:db8::2' },
} as const satisfies Record<string, Addresses>

/** Sends one datagram. */
const sender = `
const { isIPv6 } = require('node:net')
const [address] = process.argv.slice(1)
const socket = require('node:dgram').createSocket(isIPv6(address) ? 'udp6' : 'udp4')
socket.send('x', 30001, address, () => socket.close())`

/** Connects, and prints how the connection ends. */
const caller = `
const [address] = process.argv.slice(1)
const socket = require('node:net').connect(30001, address)
socket.on('error', ({ code }) => console.log(code)).on('end', () => console.log('end'))`

describe('a circle over two nodes', { timeout: 120_000 }, () => {
  let folder: string
  const namespaces: Namespace[] = []
  const agents: Program[] = []

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-relay-circles-'))
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(
      join(folder, 'manifests', 'all.yaml'),
      [
        manifestsOf(30_001, { addresses: nodes.b, port: 30_002 }),
        manifestsOf(30_002, { addresses: nodes.a, port: 30_001 }),
      ].join('---\n'),
    )
    const [a, b] = [await Namespace.create('a'), await Namespace.create('b')]
    namespaces.push(a, b)
    await connect(
      { namespace: a, interfaceName: 'eth0', addresses: [`${nodes.a.IPv4}/24`, `${nodes.a.IPv6}/64`] },
      { namespace: b, interfaceName: 'eth0', addresses: [`${nodes.b.IPv4}/24`, `${nodes.b.IPv6}/64`] },
    )
    for (const namespace of namespaces) {
      const agent = namespace.start(
        process.execPath,
        agentFile,
        '--proxy-mode=userspace',
        '--udp-timeout=5m',
        '-v=2',
        `--hostname-override=node-${namespace.name}`,
        `--bind-address=${nodes[namespace.name === 'a' ? 'a' : 'b'].IPv4}`,
        `--manifests=${join(folder, 'manifests')}`,
        `--control-socket=${join(folder, namespace.name)}`,
      )
      agents.push(agent)
    }
    for (const agent of agents)
      for (const family of ['IPv4', 'IPv6'])
        await agent.line((line) => line.includes('"Sync done"') && line.includes(`"${family}"`))
  })

  after(async () => {
    await Promise.all(namespaces.map((namespace) => namespace.close()))
    rmSync(folder, { recursive: true })
  })

  /** The sum of a counter over both nodes. */
  async function count(name: string): Promise<number> {
    let sum = 0
    for (const namespace of namespaces) {
      const [, text] = await askInNamespace(namespace, 'http://127.0.0.1:10249/metrics')
      sum += Number(new RegExp(`^${name} (\\d+)$`, 'mu').exec(text)?.[1])
    }
    return sum
  }

  async function run(script: string, family: 'IPv4' | 'IPv6'): Promise<string> {
    const [a] = namespaces
    assert.ok(a !== undefined)
    return await a.must(process.execPath, '-e', script, nodes.a[family])
  }

  // Before the relay took over hop limits, a datagram had made 34,568 flows when the counters were read, and a connection never ended.
  for (const family of ['IPv4', 'IPv6'] as const) {
    it(`${family}: one datagram makes a flow for each hop, and then ends`, async () => {
      const former = await count('viaduct_relay_started_flows_total')
      const ended = 'viaduct_relay_spent_hops_total'
      const formerEnded = await count(ended)
      await run(sender, family)
      while ((await count(ended)) === formerEnded);
      assert.equal((await count('viaduct_relay_started_flows_total')) - former, 63)
    })

    it(`${family}: one connection makes a connection for each hop, and is then reset`, async () => {
      const former = await count('viaduct_relay_accepted_connections_total')
      assert.equal((await run(caller, family)).trim(), 'ECONNRESET')
      assert.equal((await count('viaduct_relay_accepted_connections_total')) - former, 64)
    })
  }
})

// `--counters` after real connections: the kernel's figures are those of the client.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { ProbeClient, serve, type Target } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const clusterIP: Target = { protocol: 'tcp', address: '10.96.0.10', port: 80 }
const nodePort: Target = { protocol: 'tcp', address: '192.0.2.1', port: 30_080 }
const endpoints = ['192.0.2.2', '192.0.2.3']

/** Affinity gives an endpoint a chain of its own in iptables mode. */
const manifests = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { type: NodePort, clusterIP: 10.96.0.10, ports: [{ port: 80, nodePort: 30080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: sticky, namespace: default }
spec: { clusterIP: 10.96.0.11, sessionAffinity: ClientIP, ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { name: quiet, namespace: default }
spec: { clusterIP: 10.96.0.12, ports: [{ port: 80 }] }
${['web', 'sticky', 'quiet'].map(slice).join('')}`

function slice(name: string): string {
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-1, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ port: 8080, protocol: TCP }]
endpoints:
  - { addresses: [192.0.2.2], conditions: { ready: true }, nodeName: node-a }
  - { addresses: [192.0.2.3], conditions: { ready: true }, nodeName: node-b }
`
}

interface Row {
  readonly service: string
  readonly endpoint: string
  readonly frontend: string
  readonly counters: Readonly<Record<string, number>>
}

interface Mode {
  readonly name: string
  readonly flags: readonly string[]
  /** The figure that counts the connections, which have ended. */
  readonly figure: 'connections' | 'inactiveConnections'
}

const modes: readonly Mode[] = [
  {
    name: 'iptables mode, flavour legacy',
    flags: ['--proxy-mode=iptables', '--iptables-flavour=legacy'],
    figure: 'connections',
  },
  {
    name: 'iptables mode, flavour nft',
    flags: ['--proxy-mode=iptables', '--iptables-flavour=nft'],
    figure: 'inactiveConnections',
  },
  { name: 'nftables mode', flags: ['--proxy-mode=nftables'], figure: 'inactiveConnections' },
]

for (const { name, flags, figure } of modes) {
  describe(`the counters of ${name}`, { timeout: 120_000 }, () => {
    let folder: string
    let node: Namespace

    before(async () => {
      folder = mkdtempSync(join(tmpdir(), 'viaduct-counters-'))
      mkdirSync(join(folder, 'manifests'))
      writeFileSync(join(folder, 'manifests', 'all.yaml'), manifests)
      node = await Namespace.create('node')
      await node.ip(
        ...['192.0.2.1', ...endpoints].map((address) => `address add ${address}/24 dev lo`),
        'route add 10.96.0.0/16 dev lo src 192.0.2.1',
      )
      await serve(
        node,
        endpoints.map((address) => ({ protocol: 'tcp', address, port: 8080 })),
      )
      const agent = node.start(
        process.execPath,
        agentFile,
        ...flags,
        '-v=2',
        '--hostname-override=node-a',
        '--bind-address=192.0.2.1',
        '--nodeport-addresses=192.0.2.1/32',
        `--manifests=${join(folder, 'manifests')}`,
        `--control-socket=${join(folder, 'socket')}`,
      )
      await agent.line((line) => /Control socket listens/u.test(line))
      await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
      const client = new ProbeClient(node)
      await client.backends(clusterIP, 5)
      await client.backends(nodePort, 3)
      await client.backends({ ...clusterIP, address: '10.96.0.11' }, 2)
    })

    after(async () => {
      await node.close()
      rmSync(folder, { recursive: true })
    })

    function ask(...words: readonly string[]): string {
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [agentFile, ...words, `--socket=${join(folder, 'socket')}`],
        { encoding: 'utf8' },
      )
      assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
      return stdout
    }

    function rows(...words: readonly string[]): readonly Row[] {
      return Object(JSON.parse(ask(...words, '-o', 'json'))).items
    }

    it('are those of the connections to each Service', () => {
      const counts = rows('services', '--counters').map(({ service, counters }) => [
        service,
        counters[figure],
      ])
      assert.deepEqual(Object.fromEntries(counts), {
        'default/web': 8,
        'default/sticky': 2,
        'default/quiet': 0,
      })
      assert.ok(rows('services').every((row) => !('counters' in row)))
    })

    it('are those of the connections to each endpoint', () => {
      const web = rows('endpoints', 'default/web', '--counters').map(({ counters }) => counters[figure] ?? 0)
      assert.equal(
        web.reduce((sum, count) => sum + count, 0),
        8,
      )
      const sticky = rows('endpoints', 'default/sticky', '--counters').map(
        ({ counters }) => counters[figure] ?? 0,
      )
      assert.deepEqual(new Set(sticky), new Set([0, 2]))
    })

    it('are those of the connections to each frontend', () => {
      const counts = rows('routes', 'default/web', '--counters').map(({ frontend, counters }) => [
        frontend,
        counters[figure],
      ])
      assert.deepEqual(Object.fromEntries(counts), { 'tcp 10.96.0.10:80': 5, 'tcp node port 30080': 3 })
    })

    it('stand in a table', () => {
      const cells = figure === 'connections' ? '8 +- +-' : '- +0 +8'
      assert.match(
        ask('services', 'default/web', '--counters'),
        new RegExp(
          `^SERVICE PORT +CLUSTER IP +CONNECTIONS +ACTIVE +INACTIVE +PACKETS IN .*\\ndefault/web:TCP +10\\.96\\.0\\.10:80 +${cells} +- +- +- +-\\n$`,
          'u',
        ),
      )
    })
  })
}

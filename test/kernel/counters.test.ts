// `--counters` after real connections: the kernel's figures are those of the client.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { eventually, ProbeClient, serve, type Target } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const clusterIP: Target = { protocol: 'tcp', address: '10.96.0.10', port: 80 }
const nodePort: Target = { protocol: 'tcp', address: '192.0.2.1', port: 30_080 }
const endpoints = ['192.0.2.2', '192.0.2.3']

/** Ports of one Service, more than one chain of the dispatch tree of iptables mode takes. */
const ports = Array.from({ length: 24 }, (_, index) => 8000 + index)

/** Affinity gives an endpoint a chain of its own in iptables mode. Service `web` owns the address and port that `zebra` asks for too. */
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
---
apiVersion: v1
kind: Service
metadata: { name: zebra, namespace: default }
spec: { clusterIP: 10.96.0.13, externalIPs: [10.96.0.10], ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { name: many, namespace: default }
spec:
  clusterIP: 10.96.0.14
  ports:
${ports.map((port) => `    - { name: p${port}, port: ${port}, targetPort: 8080 }\n`).join('')}
${['web', 'sticky', 'quiet', 'zebra'].map((name) => slice(name, '{ port: 8080, protocol: TCP }')).join('')}
${slice('many', ports.map((port) => `{ name: p${port}, port: 8080, protocol: TCP }`).join(', '))}`

function slice(name: string, slicePorts: string): string {
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-1, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [${slicePorts}]
endpoints:
  - { addresses: [192.0.2.2], conditions: { ready: true }, nodeName: node-a }
  - { addresses: [192.0.2.3], conditions: { ready: true }, nodeName: node-b }
`
}

/** Connections by port of Service `many`. */
const used: ReadonlyMap<number, number> = new Map([
  [8000, 1],
  [8003, 3],
  [8017, 2],
])

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

/** The agent in a namespace of its own, with a folder of manifests. */
class Lab {
  readonly folder = mkdtempSync(join(tmpdir(), 'viaduct-counters-'))
  readonly node: Namespace

  private constructor(node: Namespace) {
    this.node = node
  }

  /** The namespace with its addresses, one server on each endpoint, and the manifests. */
  static async open(text: string): Promise<Lab> {
    const lab = new Lab(await Namespace.create('node'))
    mkdirSync(join(lab.folder, 'manifests'))
    lab.write('all.yaml', text)
    await lab.node.ip(
      ...['192.0.2.1', ...endpoints].map((address) => `address add ${address}/24 dev lo`),
      'route add 10.96.0.0/16 dev lo src 192.0.2.1',
    )
    await serve(
      lab.node,
      endpoints.map((address) => ({ protocol: 'tcp', address, port: 8080 })),
    )
    return lab
  }

  /** Resolves after the first pass of IPv4. */
  async start(flags: readonly string[]): Promise<void> {
    const agent = this.node.start(
      process.execPath,
      agentFile,
      ...flags,
      '-v=2',
      '--hostname-override=node-a',
      '--bind-address=192.0.2.1',
      '--nodeport-addresses=192.0.2.1/32',
      `--manifests=${join(this.folder, 'manifests')}`,
      `--control-socket=${join(this.folder, 'socket')}`,
    )
    await agent.line((line) => /Control socket listens/u.test(line))
    await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.folder, 'manifests', name), text)
  }

  ask(...words: readonly string[]): string {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [agentFile, ...words, `--socket=${join(this.folder, 'socket')}`],
      { encoding: 'utf8' },
    )
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
    return stdout
  }

  rows(...words: readonly string[]): readonly Row[] {
    return Object(JSON.parse(this.ask(...words, '-o', 'json'))).items
  }

  async close(): Promise<void> {
    await this.node.close()
    rmSync(this.folder, { recursive: true })
  }
}

for (const { name, flags, figure } of modes) {
  describe(`the counters of ${name}`, { timeout: 120_000 }, () => {
    let lab: Lab

    before(async () => {
      lab = await Lab.open(manifests)
      await lab.start(flags)
      const client = new ProbeClient(lab.node)
      await client.backends(clusterIP, 5)
      await client.backends(nodePort, 3)
      await client.backends({ ...clusterIP, address: '10.96.0.11' }, 2)
      for (const [port, count] of used)
        await client.backends({ ...clusterIP, address: '10.96.0.14', port }, count)
    })

    after(() => lab.close())

    it('are those of the connections to each Service', () => {
      const counts = new Map<string, number>()
      for (const { service, counters } of lab.rows('services', '--counters'))
        counts.set(service, (counts.get(service) ?? 0) + (counters[figure] ?? NaN))
      assert.deepEqual(Object.fromEntries(counts), {
        'default/web': 8,
        'default/sticky': 2,
        'default/quiet': 0,
        'default/zebra': 0,
        'default/many': 6,
      })
      assert.ok(lab.rows('services').every((row) => !('counters' in row)))
    })

    it('are those of the connections to each endpoint', () => {
      const web = lab
        .rows('endpoints', 'default/web', '--counters')
        .map(({ counters }) => counters[figure] ?? 0)
      assert.equal(
        web.reduce((sum, count) => sum + count, 0),
        8,
      )
      const sticky = lab
        .rows('endpoints', 'default/sticky', '--counters')
        .map(({ counters }) => counters[figure] ?? 0)
      assert.deepEqual(new Set(sticky), new Set([0, 2]))
    })

    it('are those of the connections to each frontend', () => {
      const counts = lab
        .rows('routes', 'default/web', '--counters')
        .map(({ frontend, counters }) => [frontend, counters[figure]])
      assert.deepEqual(Object.fromEntries(counts), { 'tcp 10.96.0.10:80': 5, 'tcp node port 30080': 3 })
    })

    it('are those of each port of a Service that has many', () => {
      const counts = lab
        .rows('routes', 'default/many', '--counters')
        .map(({ frontend, counters }) => [frontend, counters[figure]])
      const expected = ports.map((port) => [`tcp 10.96.0.14:${port}`, used.get(port) ?? 0])
      assert.deepEqual(Object.fromEntries(counts), Object.fromEntries(expected))
    })

    it('are not shown for an address that another Service owns', () => {
      const [own, lost] = lab.rows('routes', 'default/zebra', '--counters')
      assert.deepEqual([own?.frontend, own?.counters[figure]], ['tcp 10.96.0.13:80', 0])
      assert.deepEqual([lost?.frontend, lost?.counters], ['tcp 10.96.0.10:80', {}])
    })

    it('stand in a table', () => {
      const cells = figure === 'connections' ? '8 +- +-' : '- +0 +8'
      assert.match(
        lab.ask('services', 'default/web', '--counters'),
        new RegExp(
          `^SERVICE PORT +CLUSTER IP +CONNECTIONS +ACTIVE +INACTIVE +PACKETS IN .*\\ndefault/web:TCP +10\\.96\\.0\\.10:80 +${cells} +- +- +- +-\\n$`,
          'u',
        ),
      )
    })
  })
}

const legacy = ['--proxy-mode=iptables', '--iptables-flavour=legacy']

describe('the counters of iptables mode before all objects are known', { timeout: 120_000 }, () => {
  it('are not shown: the chains may be those of another program', async () => {
    const lab = await Lab.open(manifests)
    lab.write(
      'broken.yaml',
      'apiVersion: v1\nkind: Service\nmetadata: { name: broken }\nspec: { clusterIP: 10 }\n',
    )
    const counters = (): Row['counters'] | undefined =>
      lab.rows('services', 'default/web', '--counters')[0]?.counters
    try {
      await lab.start(legacy)
      assert.match(await lab.node.must('iptables-legacy-save', '-t', 'nat'), /^-A KUBE-SVC-/mu)
      assert.deepEqual(counters(), {})
      rmSync(join(lab.folder, 'manifests', 'broken.yaml'))
      const known = await eventually(
        async () => await Promise.resolve(counters()),
        (found) => found !== undefined && Object.keys(found).length > 0,
      )
      assert.deepEqual(known, { connections: 0 })
    } finally {
      await lab.close()
    }
  })
})

/** Service `web` with one endpoint. */
function webAt(address: string): string {
  return `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.96.0.10, ports: [{ port: 80 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: default, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ port: 8080, protocol: TCP }]
endpoints: [{ addresses: [${address}], conditions: { ready: true }, nodeName: node-a }]
`
}

describe('the counters of iptables mode while a change waits', { timeout: 120_000 }, () => {
  it('are not those of the endpoint before', async () => {
    const lab = await Lab.open(webAt('192.0.2.2'))
    const rows = async (): Promise<readonly Row[]> =>
      await Promise.resolve(lab.rows('endpoints', 'default/web', '--counters'))
    try {
      await lab.start([...legacy, '--iptables-min-sync-period=1h', '--iptables-sync-period=2h'])
      await new ProbeClient(lab.node).backends(clusterIP, 3)
      const [former] = await rows()
      assert.deepEqual([former?.endpoint, former?.counters], ['192.0.2.2:8080', { connections: 3 }])
      lab.write('all.yaml', webAt('192.0.2.3'))
      const [waiting] = await eventually(rows, ([row]) => row?.endpoint === '192.0.2.3:8080')
      assert.deepEqual(waiting?.counters, {})
    } finally {
      await lab.close()
    }
  })
})

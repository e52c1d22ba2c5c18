// Issue 37, demand 2: session affinity in nftables mode, with the shipped agent and connections of many clients. Each test says how it
// failed with one map of clients for all Services.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiService } from '../support/api-documents.js'
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { serve } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'

const nodeIp = '192.0.2.1'
const pods = ['10.1.0.1', '10.1.0.2', '10.1.0.3', '10.1.0.4']
const clients = Array.from({ length: 60 }, (_, index) => `192.0.2.${index + 10}`)

/** Prints for each source the server that answers it. */
const connectFrom = `
import socket, sys
address, port, *sources = sys.argv[1:]
for source in sources:
    with socket.create_connection((address, int(port)), 5, (source, 0)) as connection:
        print(connection.makefile().read().split()[0])
`

interface EndpointOf {
  readonly address: string
  readonly nodeName?: string
}

interface ServiceOf {
  readonly clusterIP: string
  readonly spec?: object
  readonly seconds?: number
  readonly port?: number
  readonly targetPort?: number
  readonly nodePort?: number
  readonly endpoints: readonly EndpointOf[]
}

function documentsOf(name: string, service: ServiceOf): readonly object[] {
  const { clusterIP, spec, seconds = 600, port = 80, targetPort = 8080, nodePort, endpoints } = service
  const ports = [{ name: 'http', protocol: 'TCP', port, ...(nodePort === undefined ? {} : { nodePort }) }]
  const affinity = {
    sessionAffinity: 'ClientIP',
    sessionAffinityConfig: { clientIP: { timeoutSeconds: seconds } },
  }
  const type = nodePort === undefined ? 'ClusterIP' : 'NodePort'
  return [
    {
      apiVersion: 'v1',
      kind: 'Service',
      ...apiService(name, clusterIP, { type, ports, ...affinity, ...spec }),
    },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { namespace: 'default', name: `${name}-1`, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      ports: [{ name: 'http', protocol: 'TCP', port: targetPort }],
      endpoints: endpoints.map(({ address, ...rest }) => ({
        addresses: [address],
        conditions: { ready: true },
        ...rest,
      })),
    },
  ]
}

const all = pods.map((address) => ({ address, nodeName: 'node-b' }))

class Lab {
  readonly folder = mkdtempSync(join(tmpdir(), 'viaduct-nft-affinity-'))
  readonly node: Namespace
  readonly client: Namespace
  readonly pods: Namespace
  #agent: Program | undefined

  private constructor(node: Namespace, client: Namespace, podSpace: Namespace) {
    this.node = node
    this.client = client
    this.pods = podSpace
  }

  static async create(): Promise<Lab> {
    const [node, client, podSpace] = await Promise.all([
      Namespace.create('node'),
      Namespace.create('client'),
      Namespace.create('pods'),
    ])
    await connect(
      {
        namespace: client,
        interfaceName: 'eth0',
        addresses: ['192.0.2.2/24', ...clients.map((address) => `${address}/24`)],
      },
      { namespace: node, interfaceName: 'eth0', addresses: [`${nodeIp}/24`] },
    )
    await connect(
      { namespace: podSpace, interfaceName: 'eth0', addresses: pods.map((address) => `${address}/24`) },
      { namespace: node, interfaceName: 'pods', addresses: ['10.1.0.254/24'] },
    )
    await client.ip(`route add default via ${nodeIp}`)
    await podSpace.ip('route add default via 10.1.0.254')
    await setSysctls(node, 'net.ipv4.ip_forward=1')
    const lab = new Lab(node, client, podSpace)
    mkdirSync(join(lab.folder, 'manifests'))
    const ports = [8080, 8090].flatMap((port) =>
      pods.map((address) => ({ protocol: 'tcp', address, port }) as const),
    )
    await serve(podSpace, ports)
    await serve(node, [{ protocol: 'tcp', address: nodeIp, port: 8090 }])
    return lab
  }

  /** Writes the manifests, and waits until the agent has written the change. */
  async publish(services: Readonly<Record<string, ServiceOf>>): Promise<void> {
    const documents = Object.entries(services).flatMap(([name, service]) => documentsOf(name, service))
    const from = this.#agent?.lines.length ?? 0
    const text = documents.map((document) => JSON.stringify(document)).join('\n---\n')
    writeFileSync(join(this.folder, 'next.yaml'), text)
    renameSync(join(this.folder, 'next.yaml'), join(this.folder, 'manifests/all.yaml'))
    await this.#agent?.line((line) => /"IPv4".*"routes":[1-9].*"Sync done"/u.test(line), from)
  }

  async start(...flags: readonly string[]): Promise<Program> {
    const own = ['--manifests', join(this.folder, 'manifests'), '--hostname-override', 'node-a', '-v', '2']
    const options = ['--proxy-mode', 'nftables', '--bind-address', nodeIp, ...own, ...flags]
    this.#agent = this.node.start(process.execPath, join(treeRoot, 'dist/agent.js'), ...options)
    for (const family of ['IPv4', 'IPv6'])
      await this.#agent.line(
        (line) => ['"Sync done"', `"${family}"`, '"complete":true'].every((text) => line.includes(text)),
        0,
      )
    return this.#agent
  }

  async stop(): Promise<void> {
    this.#agent?.signal('SIGTERM')
    assert.equal((await this.#agent?.ended)?.code, 0)
    this.#agent = undefined
  }

  /** The server of each client. */
  async serversOf(address: string, port: number, from = clients): Promise<readonly string[]> {
    const output = await this.client.must('python3', '-c', connectFrom, address, String(port), ...from)
    return output.trim().split('\n')
  }

  async close(): Promise<void> {
    await Promise.all([this.node.close(), this.client.close(), this.pods.close()])
    rmSync(this.folder, { recursive: true })
  }
}

describe('session affinity in nftables mode', { timeout: 120_000 }, () => {
  let lab: Lab
  beforeEach(async () => (lab = await Lab.create()))
  afterEach(async () => await lab.close())

  const vip = '10.96.0.10'
  const sticky = (rest: Partial<ServiceOf> = {}): ServiceOf => ({
    clusterIP: vip,
    nodePort: 30_080,
    endpoints: all,
    ...rest,
  })

  it('is shared by all frontends of a Service port (each frontend had its own), ends with the endpoint, and survives restarts', async () => {
    await lab.publish({ sticky: sticky() })
    await lab.start()
    const servers = await lab.serversOf(vip, 80)
    assert.deepEqual(new Set(servers), new Set(pods))
    assert.deepEqual(await lab.serversOf(nodeIp, 30_080), servers)
    await lab.publish({ sticky: sticky({ endpoints: all.slice(1) }) })
    const after = await lab.serversOf(vip, 80)
    const lost = pods[0] ?? ''
    assert.deepEqual(
      after.map((server, index) => (servers[index] === lost ? 'another one' : server)),
      servers.map((server) => (server === lost ? 'another one' : server)),
    )
    assert.equal(after.includes(lost), false)
    await lab.publish({ sticky: sticky() })
    assert.deepEqual(await lab.serversOf(nodeIp, 30_080), after)
    await lab.stop()
    await lab.start()
    assert.deepEqual(await lab.serversOf(vip, 80), after)
    // The table as nft saved it, on a node without an agent.
    const listing = await lab.node.must('nft', 'list', 'ruleset')
    writeFileSync(join(lab.folder, 'ruleset'), listing)
    await lab.stop()
    await lab.node.must('nft', 'flush', 'ruleset')
    await lab.node.must('nft', '-f', join(lab.folder, 'ruleset'))
    assert.deepEqual(await lab.serversOf(nodeIp, 30_080), after)
    const handles = await lab.node.must(
      'sh',
      '-c',
      'nft -a list table ip kube-proxy | grep -o "update @clients.* handle .*"',
    )
    await lab.start()
    assert.deepEqual(await lab.serversOf(vip, 80), after)
    // The agent adopted the loaded rules: it did not write them again.
    assert.equal(
      await lab.node.must(
        'sh',
        '-c',
        'nft -a list table ip kube-proxy | grep -o "update @clients.* handle .*"',
      ),
      handles,
    )
    await lab.stop()
  })

  it('of clients at remote endpoints ends when the policy becomes Local (they went there on, with their own addresses)', async () => {
    const mixed = [
      { address: '10.1.0.1', nodeName: 'node-a' },
      { address: '10.1.0.2', nodeName: 'node-b' },
    ]
    await lab.publish({ sticky: sticky({ endpoints: mixed }) })
    await lab.start()
    const before = await lab.serversOf(nodeIp, 30_080)
    assert.deepEqual(new Set(before), new Set(['10.1.0.1', '10.1.0.2']))
    await lab.publish({ sticky: sticky({ endpoints: mixed, spec: { externalTrafficPolicy: 'Local' } }) })
    assert.deepEqual(new Set(await lab.serversOf(nodeIp, 30_080)), new Set(['10.1.0.1']))
    await lab.stop()
  })

  it('holds where an endpoint has the address and port of the frontend (its clients were not recorded)', async () => {
    const ingress = {
      clusterIP: '10.96.0.12',
      port: 8090,
      targetPort: 8090,
      spec: { externalIPs: [nodeIp] },
      endpoints: [{ address: nodeIp, nodeName: 'node-a' }, { address: '10.1.0.1' }],
    }
    await lab.publish({ ingress })
    await lab.start()
    const servers = await lab.serversOf(nodeIp, 8090)
    assert.deepEqual(new Set(servers), new Set([nodeIp, '10.1.0.1']))
    for (let round = 0; round < 5; round++) assert.deepEqual(await lab.serversOf(nodeIp, 8090), servers)
    await lab.stop()
  })

  it('has room for each Service port: a full set is reported, and costs its own new clients their affinity alone', async () => {
    await lab.publish({ sticky: sticky(), flooded: { clusterIP: '10.96.0.13', endpoints: all } })
    const agent = await lab.start('--iptables-sync-period', '1s')
    const fill = `
set=$(nft list sets ip | grep -B9 'comment "clients of default/flooded' | grep -o 'clients-[A-Z2-7]*')
python3 -c '
import sys
print("add element ip kube-proxy", sys.argv[1], "{", ",".join("10.%d.%d.%d . 1 timeout 1h" % (n >> 16, n >> 8 & 255, n & 255) for n in range(262144)), "}")
' "$set" | nft -f -`
    await lab.node.must('sh', '-e', '-c', fill)
    const line = await agent.line((text) => text.includes('is full'), 0)
    assert.match(line, /default\/flooded:http\/TCP/u)
    const servers = await lab.serversOf(vip, 80)
    assert.deepEqual(await lab.serversOf(vip, 80), servers)
    assert.deepEqual(new Set(await lab.serversOf('10.96.0.13', 80)), new Set(pods))
    await lab.stop()
  })
})

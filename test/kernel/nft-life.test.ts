// The shipped agent in nftables mode on this machine's kernel: what nft lists, what nft monitor sees of changes and restarts, repairs
// after foreign changes, and the way from and to the other modes.
import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiService, apiSlice } from '../support/api-documents.js'
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import { NftMonitor } from '../support/nft-monitor.js'
import type { Program } from '../support/processes.js'
import { ProbeClient, serve } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'

const vip = { protocol: 'tcp', address: '10.96.0.10', port: 80 } as const
const nodeIp = '192.0.2.1'
const nodePort = { ...vip, address: nodeIp, port: 30080 } as const
const pods = ['10.1.0.1', '10.1.0.2'] as const
const agentFile = join(treeRoot, 'dist/agent.js')

/** A Service on port 80 and its EndpointSlice, as manifests. */
function serviceOf(
  name: string,
  clusterIP: string,
  { nodePort: port, endpoints }: { readonly nodePort: number; readonly endpoints: readonly string[] },
): readonly object[] {
  const spec = { type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: port }] }
  return [
    { apiVersion: 'v1', kind: 'Service', ...apiService(name, clusterIP, spec) },
    { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...apiSlice(`${name}-1`, name, endpoints) },
  ]
}

class Lab {
  readonly folder = mkdtempSync(join(tmpdir(), 'viaduct-nft-life-'))
  readonly node: Namespace
  readonly client: Namespace
  readonly pods: Namespace

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
      { namespace: client, interfaceName: 'eth0', addresses: ['192.0.2.2/24'] },
      { namespace: node, interfaceName: 'eth0', addresses: [`${nodeIp}/24`] },
    )
    await connect(
      { namespace: podSpace, interfaceName: 'eth0', addresses: pods.map((address) => `${address}/24`) },
      { namespace: node, interfaceName: 'pods', addresses: ['10.1.0.254/24'] },
    )
    await client.ip(`route add default via ${nodeIp}`)
    await podSpace.ip('route add default via 10.1.0.254')
    await setSysctls(node, 'net.ipv4.ip_forward=1')
    return new Lab(node, client, podSpace)
  }

  get manifests(): string {
    return join(this.folder, 'manifests')
  }

  /** web with these endpoints; beside it always a Service with one endpoint, so that the chains for one endpoint exist. */
  write(addresses: readonly string[]): void {
    const documents = [
      ...serviceOf('web', vip.address, { nodePort: nodePort.port, endpoints: addresses }),
      ...serviceOf('other', '10.96.0.11', { nodePort: 30081, endpoints: pods.slice(0, 1) }),
    ]
    const text = documents.map((document) => JSON.stringify(document)).join('\n---\n')
    writeFileSync(join(this.folder, 'next.yaml'), text)
    renameSync(join(this.folder, 'next.yaml'), join(this.manifests, 'web.yaml'))
  }

  /** The agent; `flags` may replace the mode. */
  start(...flags: readonly string[]): Agent {
    const own = ['--manifests', this.manifests, '--hostname-override', 'node-a', '--bind-address', nodeIp]
    const all = ['--proxy-mode', 'nftables', '-v', '2', ...own, ...flags]
    return new Agent(this.node.start(process.execPath, agentFile, ...all))
  }

  async ruleset(): Promise<string> {
    return await this.node.must('nft', 'list', 'ruleset')
  }

  async close(): Promise<void> {
    await Promise.all([this.node.close(), this.client.close(), this.pods.close()])
    rmSync(this.folder, { recursive: true })
  }
}

class Agent {
  readonly #program: Program

  constructor(program: Program) {
    this.#program = program
  }

  get seen(): number {
    return this.#program.lines.length
  }

  /** The first line at or after `from` that has all of these texts. */
  async line(from: number, ...texts: readonly string[]): Promise<string> {
    return await this.#program.line((line) => texts.every((text) => line.includes(text)), from)
  }

  async synced(): Promise<void> {
    for (const family of ['IPv4', 'IPv6']) await this.line(0, '"Sync done"', `"${family}"`, '"complete":true')
  }

  async stop(): Promise<void> {
    this.#program.signal('SIGTERM')
    assert.equal((await this.#program.ended).code, 0)
  }
}

describe('nftables mode on the kernel', { timeout: 120_000 }, () => {
  let lab: Lab
  let probes: ProbeClient

  before(async () => {
    lab = await Lab.create()
    await lab.node.must('mkdir', lab.manifests)
    lab.write(pods)
    await serve(
      lab.pods,
      pods.map((address) => ({ protocol: 'tcp', address, port: 8080 })),
    )
    await lab.node.must('nft', 'add', 'table', 'inet', 'mine')
    await lab.node.must('nft', 'add', 'chain', 'inet', 'mine', 'rules')
    probes = new ProbeClient(lab.client)
  })

  after(async () => {
    await lab.close()
  })

  const all = pods.map((address) => `${address} 8080`)

  it('programs a table that nft lists, and that serves', async () => {
    const agent = lab.start()
    await agent.synced()
    const listed = await lab.node.must('nft', 'list', 'table', 'ip', 'kube-proxy')
    assert.match(listed, /set services-with-2 \{[^}]*10\.96\.0\.10 \. tcp \. 80/u)
    assert.match(listed, /map service-endpoint-1 \{[^}]*10\.96\.0\.10 \. tcp \. 80 : 10\.1\.0\.2 \. 8080/u)
    assert.match(listed, /set nodeport-ips \{[^}]*elements = \{ 192\.0\.2\.1 \}/u)
    assert.deepEqual(await probes.backends(vip, 40), all)
    assert.deepEqual(await probes.backends(nodePort, 40), all)
    await agent.stop()
    assert.deepEqual(await probes.backends(vip, 40), all)
  })

  it('writes nothing at a restart, and only the elements of one endpoint for its change', async () => {
    const monitor = await NftMonitor.open(lab.node)
    const agent = lab.start()
    await agent.synced()
    assert.deepEqual(await monitor.take(), [])
    const from = agent.seen
    lab.write(pods.slice(0, 1))
    await agent.line(from, '"Sync done"', '"IPv4"', '"routes":1')
    assert.deepEqual(await monitor.take(), [
      'delete element ip kube-proxy service-endpoint-1 { 10.96.0.10 . tcp . 80 : 10.1.0.2 . 8080 }',
      'delete element ip kube-proxy services-with-2 { 10.96.0.10 . tcp . 80 }',
      'delete element ip kube-proxy nodeport-endpoint-1 { tcp . 30080 : 10.1.0.2 . 8080 }',
      'delete element ip kube-proxy nodeports-with-2 { tcp . 30080 }',
      'add element ip kube-proxy services-with-1 { 10.96.0.10 . tcp . 80 }',
      'add element ip kube-proxy nodeports-with-1 { tcp . 30080 }',
    ])
    assert.deepEqual(await probes.backends(vip, 20), all.slice(0, 1))
    const again = agent.seen
    lab.write(pods)
    await agent.line(again, '"Sync done"', '"IPv4"', '"routes":1')
    assert.deepEqual(await probes.backends(vip, 40), all)
    await monitor.close()
    await agent.stop()
  })

  it('repairs what another program changes, long before its sync period, and leaves the tables of others alone', async () => {
    const agent = lab.start('--iptables-sync-period', '1h')
    await agent.synced()
    const whole = await lab.ruleset()
    const changes = [
      ['flush', 'chain', 'ip', 'kube-proxy', 'services'],
      ['delete', 'element', 'ip', 'kube-proxy', 'services-with-2', '{ 10.96.0.10 . tcp . 80 }'],
      ['delete', 'table', 'ip', 'kube-proxy'],
    ]
    for (const change of changes) {
      const from = agent.seen
      await lab.node.must('nft', ...change)
      await agent.line(from, '"Kernel state differs and is repaired"', '"IPv4"')
      await agent.line(from, '"Sync done"', '"IPv4"', '"complete":true')
      assert.deepEqual(sorted(await lab.ruleset()), sorted(whole))
    }
    const from = agent.seen
    await lab.node.must('nft', 'flush', 'ruleset')
    for (const family of ['IPv4', 'IPv6']) {
      await agent.line(from, '"Kernel state differs and is repaired"', `"${family}"`)
      await agent.line(from, '"Sync done"', `"${family}"`, '"complete":true')
    }
    assert.deepEqual(await probes.backends(vip, 40), all)
    assert.doesNotMatch(await lab.ruleset(), /table inet mine/u)
    await agent.stop()
  })

  it('is left for iptables mode, and comes back, without a failed connection', async () => {
    const failed: string[] = []
    const next = async (): Promise<string> => {
      const { kind } = await probes.probe(vip)
      if (kind !== 'answer') failed.push(kind)
      return kind
    }
    const untilLine = async (line: Promise<string>): Promise<void> => {
      const over = line.then(() => 'over' as const)
      for (let event = ''; event !== 'over';) event = await Promise.race([over, next()])
    }
    const iptables = lab.start(
      '--proxy-mode',
      'iptables',
      '--iptables-flavour=legacy',
      '--iptables-localhost-nodeports=false',
    )
    await untilLine(iptables.line(0, 'Leftovers of nftables mode: removed the table kube-proxy'))
    assert.doesNotMatch(await lab.ruleset(), /kube-proxy/u)
    await iptables.stop()
    const back = lab.start()
    await untilLine(back.line(0, 'Leftovers of iptables mode: removed'))
    assert.equal(await lab.node.must('sh', '-c', 'iptables-legacy-save | grep -c KUBE-SVC || true'), '0')
    assert.deepEqual(await probes.backends(vip, 40), all)
    assert.deepEqual(failed, [])
    await back.stop()
  })

  it('leaves nothing after --cleanup', async () => {
    await lab.node.must('nft', 'add', 'table', 'inet', 'mine')
    const { code, stdout } = await lab.node.run(process.execPath, agentFile, '--cleanup')
    assert.equal(code, 0)
    assert.match(stdout, /removed the table kube-proxy of nf_tables in IPv4 and IPv6/u)
    assert.equal(await lab.node.must('nft', 'list', 'tables'), 'table inet mine')
  })
})

/** The kernel lists elements in any order. */
function sorted(ruleset: string): readonly string[] {
  return ruleset
    .split(/[\n,]/u)
    .map((line) => line.replace(/^\s*(elements = \{)?\s*|\s*\}?\s*$/gu, ''))
    .toSorted()
}

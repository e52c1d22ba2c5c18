// The shipped agent in iptables mode on this machine's kernel: foreign chains stay, removed rules are restored, nothing is written
// without need, and nothing is left behind.
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { ProbeClient, serve } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'

const vip = { protocol: 'tcp', address: '10.96.0.10', port: 80 } as const
const pods = ['10.1.0.1', '10.1.0.2'] as const
const agentFile = join(treeRoot, 'dist/agent.js')

function manifest(addresses: readonly string[]): string {
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web' },
    spec: {
      clusterIP: vip.address,
      ports: [
        { name: 'http', port: 80 },
        { name: 'echo', port: 7 },
      ],
    },
  }
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [
      { name: 'http', port: 8080 },
      { name: 'echo', port: 7 },
    ],
    endpoints: addresses.map((address) => ({ addresses: [address] })),
  }
  return `${JSON.stringify(service)}\n---\n${JSON.stringify(slice)}\n`
}

/** A node between a client and its pods. It has foreign rules. */
class Lab {
  readonly folder = mkdtempSync(join(tmpdir(), 'viaduct-life-'))
  readonly node: Namespace
  readonly client: Namespace
  readonly pods: Namespace

  private constructor(spaces: {
    readonly node: Namespace
    readonly client: Namespace
    readonly pods: Namespace
  }) {
    this.node = spaces.node
    this.client = spaces.client
    this.pods = spaces.pods
  }

  static async create(): Promise<Lab> {
    const [node, client, podSpace] = await Promise.all(
      ['node', 'client', 'pods'].map(async (name) => await Namespace.create(name)),
    )
    assert.ok(node && client && podSpace)
    await connect(
      { namespace: client, interfaceName: 'eth0', addresses: ['192.0.2.2/24'] },
      { namespace: node, interfaceName: 'eth0', addresses: ['192.0.2.1/24'] },
    )
    await connect(
      { namespace: podSpace, interfaceName: 'eth0', addresses: pods.map((address) => `${address}/24`) },
      { namespace: node, interfaceName: 'pods', addresses: ['10.1.0.254/24'] },
    )
    await client.ip('route add default via 192.0.2.1')
    // As on every node, untranslated packets have a route, so that they reach the rule that refuses them.
    await node.ip(`route add default via ${pods[0]}`)
    await podSpace.ip('route add default via 10.1.0.254')
    await setSysctls(node, 'net.ipv4.ip_forward=1')
    return new Lab({ node, client, pods: podSpace })
  }

  get manifests(): string {
    return join(this.folder, 'manifests')
  }

  write(addresses: readonly string[]): void {
    writeFileSync(join(this.folder, 'next.yaml'), manifest(addresses))
    renameSync(join(this.folder, 'next.yaml'), join(this.manifests, 'web.yaml'))
  }

  /** iptables-save of the legacy tables, with counters, without time stamps. */
  async save(): Promise<readonly string[]> {
    const text = await this.node.must('iptables-legacy-save', '-c')
    return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  }

  /** The agent under a trace of executed programs and socket options. */
  start(name: string, flags: readonly string[] = [], environment: readonly string[] = []): Agent {
    const trace = join(this.folder, `${name}.trace`)
    const traced = ['strace', '-D', '-f', '--seccomp-bpf', '-o', trace, '-e', 'trace=execve,setsockopt']
    const own = ['--manifests', this.manifests, '--proxy-mode', 'iptables', '--hostname-override', 'node-a']
    const program = this.node.start(
      'env',
      ...environment,
      ...traced,
      process.execPath,
      agentFile,
      ...own,
      '--iptables-localhost-nodeports=false',
      '--iptables-flavour=legacy',
      '-v',
      '2',
      ...flags,
    )
    return new Agent(program, trace)
  }

  async close(): Promise<void> {
    await Promise.all([this.node.close(), this.client.close(), this.pods.close()])
    rmSync(this.folder, { recursive: true })
  }
}

class Agent {
  readonly #program: Program
  readonly #trace: string

  constructor(program: Program, trace: string) {
    this.#program = program
    this.#trace = trace
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

  /** Stops the agent. Returns the number of table replacements and the executed programs. */
  async stop(): Promise<{ readonly replaced: number; readonly executed: readonly string[] }> {
    this.#program.signal('SIGTERM')
    assert.equal((await this.#program.ended).code, 0)
    const text = readFileSync(this.#trace, 'utf8')
    return {
      replaced: [...text.matchAll(/SO_SET_REPLACE/g)].length,
      executed: [...text.matchAll(/execve\("([^"]*)"/g)].map((found) => found[1] ?? ''),
    }
  }
}

/** One open TCP connection. `ask` sends a word and waits until it comes back. */
class HeldConnection {
  static readonly #server =
    "require('net').createServer((s) => s.pipe(s)).listen(7, () => console.log('listening'))"
  static readonly #client =
    "const s = require('net').connect(7, process.argv[1]); s.pipe(process.stdout); process.stdin.pipe(s); s.on('error', (e) => console.log(e.code))"
  readonly #program: Program
  #asked = 0

  private constructor(program: Program) {
    this.#program = program
  }

  static async serve(namespace: Namespace): Promise<void> {
    await namespace.start(process.execPath, '-e', this.#server).line((line) => line === 'listening')
  }

  static open(namespace: Namespace, address: string): HeldConnection {
    return new HeldConnection(namespace.start(process.execPath, '-e', this.#client, address))
  }

  async ask(): Promise<void> {
    const word = `word ${this.#asked}`
    this.#program.write(`${word}\n`)
    assert.equal(await this.#program.line(() => true, this.#asked++), word)
  }
}

describe('iptables mode on the kernel', { timeout: 120_000 }, () => {
  let lab: Lab
  let probes: ProbeClient
  let held: HeldConnection
  let untouched: readonly string[]

  before(async () => {
    lab = await Lab.create()
    await lab.node.must('mkdir', lab.manifests)
    lab.write(pods)
    await serve(
      lab.pods,
      pods.map((address) => ({ protocol: 'tcp', address, port: 8080 })),
    )
    await HeldConnection.serve(lab.pods)
    const foreign = [
      '-N MINE',
      '-A INPUT -s 192.0.2.99/32 -j DROP -c 7 420',
      '-A FORWARD -j MINE -c 3 180',
      '-A MINE -d 203.0.113.0/24 -j DROP -c 11 660',
      '-t nat -A POSTROUTING -d 203.0.113.7/32 -j MASQUERADE -c 5 300',
    ]
    for (const rule of foreign) await lab.node.must('iptables-legacy', ...rule.split(' '))
    untouched = await lab.save()
    probes = new ProbeClient(lab.client)
  })

  after(async () => {
    await lab.close()
  })

  const all = pods.map((address) => `${address} 8080`)

  it('programs the tables without executing a program; foreign rules keep place and counters', async () => {
    const agent = lab.start('first')
    await agent.synced()
    const saved = await lab.save()
    const foreign = untouched.filter((line) => line.startsWith('['))
    // No packet of this test has passed through the foreign rules so far.
    assert.deepEqual(
      saved.filter((line) => foreign.includes(line)),
      foreign,
    )
    assert.deepEqual(await probes.backends(vip, 40), all)
    held = HeldConnection.open(lab.client, vip.address)
    await held.ask()
    const { replaced, executed } = await agent.stop()
    assert.deepEqual([replaced, executed.length], [4, 1], 'each table once; the agent itself')
  })

  it('a restart writes nothing; old connections continue, and new ones are served before, during and after it', async () => {
    await held.ask()
    const agent = lab.start('second')
    assert.deepEqual(await probes.backends(vip, 40), all)
    await agent.synced()
    await held.ask()
    assert.equal((await agent.stop()).replaced, 0)
  })

  it('restores flushed rules, and logs which', async () => {
    const agent = lab.start('third')
    await agent.synced()
    const whole = await rulesOf(lab)
    for (const table of ['nat', 'filter']) {
      const from = agent.seen
      await lab.node.must('iptables-legacy', '-t', table, '-F')
      const line = await agent.line(from, '"Kernel state differs and is repaired"', `"table":"${table}"`)
      assert.match(line, /"changed":\["KUBE-/)
      await agent.line(from, '"Sync done"', `"${table}":{"isWritten":true`)
    }
    const foreign = untouched.filter((line) => line.startsWith('[')).map(withoutCounters)
    assert.deepEqual(
      await rulesOf(lab),
      whole.filter((line) => !foreign.includes(line)),
      'all but what is not ours',
    )
    await held.ask()
    assert.deepEqual(await probes.backends(vip, 40), all)
    await agent.stop()
    for (const rule of foreign.map((line) => line.split(' '))) {
      const table = rule.includes('MASQUERADE') ? 'nat' : 'filter'
      await lab.node.must('iptables-legacy', '-t', table, ...rule)
    }
  })

  // Before the fix only the full comparison found this, a sync period later, because the table has the same number of bytes and entries.
  it('restores a rule that another program replaced by one of the same size before the next period (issue 18, C8)', async () => {
    const environment = [`XTABLES_LOCKFILE=${join(lab.folder, 'own lock')}`]
    const agent = lab.start('replaced', ['--iptables-sync-period', '1h'], environment)
    await agent.synced()
    const iptables = (...words: readonly string[]): Promise<string> =>
      lab.node.must('env', ...environment, 'iptables-legacy', '-w', '-t', 'nat', ...words)
    const whole = await rulesOf(lab)
    const repaired = async (action: string, chain: string, ...words: readonly string[]): Promise<void> => {
      const from = agent.seen
      await iptables(action, chain, ...words)
      await agent.line(from, '"Kernel state differs and is repaired"', `"changed":["${chain}"]`)
      await agent.line(from, '"Sync done"', '"nat":{"isWritten":true')
      assert.deepEqual(await rulesOf(lab), whole)
    }
    // A change of the size proves that the tables are watched.
    await repaired('-F', 'KUBE-SERVICES')
    const rules = (await iptables('-S')).split('\n').filter((line) => line.startsWith('-A KUBE-SVC-'))
    const rule = rules.find((line) => line.endsWith('--to-destination 10.1.0.2:8080')) ?? ''
    const [, chain = '', ...words] = rule.replace('10.1.0.2', '10.1.0.9').split(' ')
    const place = rules.filter((line) => line.startsWith(`-A ${chain} `)).indexOf(rule) + 1
    await repaired('-R', chain, String(place), ...words)
    await agent.stop()
  })

  it('follows a change of endpoints', async () => {
    const agent = lab.start('fourth')
    await agent.synced()
    const from = agent.seen
    lab.write(pods.slice(1))
    await agent.line(from, '"Sync done"', '"nat":{"isWritten":true')
    assert.deepEqual(await probes.backends(vip, 20), all.slice(1))
    lab.write([])
    await agent.line(from, '"Sync done"', '"filter":{"isWritten":true')
    assert.deepEqual(await probes.probe(vip), { kind: 'refused' })
    const again = agent.seen
    lab.write(pods)
    await agent.line(again, '"Sync done"', '"nat":{"isWritten":true')
    assert.deepEqual(await probes.backends(vip, 40), all)
    await held.ask()
    await agent.stop()
  })

  it('waits for the lock, logs a long wait, and applies all changes', async () => {
    const file = join(lab.folder, 'lock')
    const holder = lab.node.start('flock', file, 'sh', '-c', 'echo held; exec cat')
    await holder.line((line) => line === 'held')
    lab.write(pods.slice(0, 1))
    const agent = lab.start('fifth', [], [`XTABLES_LOCKFILE=${file}`])
    await agent.line(0, '"Network programming failed: IPv4 table nat:', 'EAGAIN')
    await holder.kill()
    await agent.line(0, '"Network programming recovered"')
    await agent.line(0, '"Sync done"', '"IPv4"', '"complete":true')
    assert.deepEqual(await probes.backends(vip, 20), all.slice(0, 1))
    lab.write(pods)
    await agent.stop()
  })

  it('--cleanup leaves the tables as they were', async () => {
    const { code, stdout } = await lab.node.run(process.execPath, agentFile, '--cleanup')
    assert.equal(code, 0)
    assert.match(stdout, /removed \d+ chains from IPv4 nat, \d+ chains from IPv4 filter/)
    assert.deepEqual((await lab.save()).map(withoutCounters), untouched.map(withoutCounters))
  })

  it("takes over from kube-proxy's rules without a failed connection", async () => {
    await lab.node.must(
      'sh',
      '-c',
      'printf "%s" "$1" | iptables-legacy-restore --noflush',
      'sh',
      kubeProxyTables(),
    )
    assert.deepEqual(await probes.backends(vip, 20), all.slice(0, 1))
    const agent = lab.start('sixth')
    const synced = agent.synced().then(() => 'synced' as const)
    const answers = new Set<string>()
    const next = async (): Promise<string> => {
      const { kind } = await probes.probe(vip)
      answers.add(kind)
      return kind
    }
    for (let event = ''; event !== 'synced';) event = await Promise.race([synced, next()])
    assert.deepEqual(await probes.backends(vip, 40), all)
    assert.deepEqual([...answers], ['answer'])
    const chains = (await lab.save()).filter((line) => line.startsWith(':KUBE-')).join('\n')
    assert.doesNotMatch(chains, /KUBE-SEP-|XPGD46QRK7WJZT7O/)
    await agent.stop()
  })
})

/** The rules of both tables, without counters. */
async function rulesOf(lab: Lab): Promise<readonly string[]> {
  return (await lab.save()).filter((line) => line.startsWith('[')).map(withoutCounters)
}

function withoutCounters(line: string): string {
  return line.replace(/^\[\d+:\d+\] /, '').replace(/ \[\d+:\d+\]$/, '')
}

/** Rules of kube-proxy for web, with one endpoint, and for a Service that was deleted later. */
function kubeProxyTables(): string {
  const hash = 'LOLE4ISW44XBNF3G'
  const gone = 'XPGD46QRK7WJZT7O'
  const portal = '-m comment --comment "kubernetes service portals" -j KUBE-SERVICES'
  return `*nat
:KUBE-SERVICES - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SVC-${hash} - [0:0]
:KUBE-SEP-${hash} - [0:0]
:KUBE-SVC-${gone} - [0:0]
-I PREROUTING ${portal}
-I OUTPUT ${portal}
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-SERVICES -d 10.96.0.99/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-${gone}
-A KUBE-SERVICES -d ${vip.address}/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-${hash}
-A KUBE-SVC-${hash} -j KUBE-SEP-${hash}
-A KUBE-SEP-${hash} -s ${pods[0]}/32 -j KUBE-MARK-MASQ
-A KUBE-SEP-${hash} -p tcp -m tcp -j DNAT --to-destination ${pods[0]}:8080
COMMIT
`
}

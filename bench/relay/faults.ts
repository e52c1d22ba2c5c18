// Faults of clients and of endpoints, one after the other, each on a fresh agent in userspace mode: what they cost, and what a Service
// beside them notices. Two namespaces: the node with the agent; clients and endpoints.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { connect, Namespace, setSysctls } from '../../test/support/namespaces.js'
import type { Program } from '../../test/support/processes.js'
import { AgentRun } from '../stage/agent-run.js'

const nodeAddress = '10.1.0.1'
const peerAddress = '10.1.0.2'
/** Of the peer's network, with the peer's link address, but not an address of the peer. */
const silentAddress = '10.1.0.99'
const serverPort = 8080
const probeSeconds = 6
/** The longest wait for the end of connections and flows after an attack. */
const restLimitMs = 8_000

/** A Service of the node: its cluster IP, protocol and endpoint. */
interface BenchService {
  readonly clusterIP: string
  readonly protocol: 'TCP' | 'UDP'
  readonly endpoint: string
  readonly port: number
}

const tcp = { protocol: 'TCP', endpoint: peerAddress, port: serverPort } as const
const udp = { protocol: 'UDP', endpoint: peerAddress, port: serverPort } as const
const services = {
  victim: { ...tcp, clusterIP: '10.96.0.1' },
  sink: { ...tcp, clusterIP: '10.96.0.2', port: serverPort + 1 },
  silent: { ...tcp, clusterIP: '10.96.0.3', endpoint: silentAddress },
  datagrams: { ...udp, clusterIP: '10.96.0.4' },
  'other-tcp': { ...tcp, clusterIP: '10.96.0.5' },
  'other-udp': { ...udp, clusterIP: '10.96.0.6' },
} as const satisfies Readonly<Record<string, BenchService>>

/** Words of bench/floor/flood.c, without the address and the port. */
const faults: Readonly<
  Record<string, readonly [victim: keyof typeof services, ...words: readonly string[]]>
> = {
  none: ['victim', 'silent', '0', '0'],
  'slow clients': ['victim', 'slow', '4', '10000'],
  'silent clients': ['victim', 'silent', '4', '10000'],
  'SYN flood': ['victim', 'syn', '4', '20000'],
  'endpoint that never reads': ['sink', 'push', '4', '9000'],
  'endpoint that never answers': ['silent', 'silent', '4', '10000'],
  'UDP flood': ['datagrams', 'udp', '4', '170000'],
}

const Probed = Type.Object({
  tried: Type.Number(),
  failed: Type.Number(),
  p50Us: Type.Number(),
  p99Us: Type.Number(),
})

/** Memory in MiB. */
interface Memory {
  readonly rss: number
  /** Of the buffers of all sockets: `mem` of /proc/net/sockstat, which counts the whole machine. */
  readonly buffers: number
  /** Of the kernel's objects: Slab of /proc/meminfo, of the whole machine. */
  readonly slab: number
  /** Open sockets of the node's namespace. */
  readonly sockets: number
}

interface FaultFigures {
  readonly before: Memory
  readonly peak: Memory
  readonly after: Memory
  /** Milliseconds from the end of the attack until no connection and no flow was left. */
  readonly restMs: number
  readonly tcp: typeof Probed.static
  readonly udp: typeof Probed.static
  /** Messages of the log during the fault, without those of level debug. */
  readonly log: readonly string[]
}

/** The figures of each fault. */
export async function measureFaults(flood: string): Promise<Readonly<Record<string, FaultFigures>>> {
  const figures: Record<string, FaultFigures> = {}
  for (const [name, [victim, ...words]] of Object.entries(faults)) {
    console.error(`  ${name}`)
    const lab = await FaultLab.open(flood)
    try {
      const { clusterIP } = services[victim]
      figures[name] = await lab.measure([...words, clusterIP, '80'])
    } finally {
      await lab.close()
    }
  }
  return figures
}

class FaultLab {
  readonly #flood: string
  readonly #folder = mkdtempSync(join(tmpdir(), 'viaduct-faults-'))
  readonly #node: Namespace
  readonly #peer: Namespace
  #agent: AgentRun | undefined

  private constructor(flood: string, node: Namespace, peer: Namespace) {
    this.#flood = flood
    this.#node = node
    this.#peer = peer
  }

  static async open(flood: string): Promise<FaultLab> {
    const lab = new FaultLab(flood, await Namespace.create('node'), await Namespace.create('peer'))
    try {
      await lab.#connect()
      await lab.#start()
      return lab
    } catch (error) {
      await lab.close()
      throw error
    }
  }

  async #connect(): Promise<void> {
    const [node, peer] = [this.#node, this.#peer]
    await connect(
      { namespace: node, interfaceName: 'eth0', addresses: [`${nodeAddress}/24`] },
      { namespace: peer, interfaceName: 'eth0', addresses: [`${peerAddress}/24`] },
    )
    const link = await peer.must('cat', '/sys/class/net/eth0/address')
    await node.ip(
      `route add 10.128.0.0/9 via ${peerAddress}`,
      `neighbor add ${silentAddress} lladdr ${link.trim()} nud permanent dev eth0`,
    )
    await peer.ip(`route add 10.96.0.0/12 via ${nodeAddress}`)
    await setSysctls(peer, 'net.ipv4.ip_local_port_range=1024 65535')
    for (const [words, port] of [
      ['serve', serverPort],
      ['sink', serverPort + 1],
      ['echo', serverPort],
    ] as const) {
      const server = peer.start(this.#flood, words, peerAddress, String(port))
      await server.line((line) => line === 'ready')
    }
  }

  async #start(): Promise<void> {
    const items = Object.entries(services).flatMap(([name, service]) => manifestsOf(name, service))
    const list = { apiVersion: 'v1', kind: 'List', items }
    writeFileSync(join(this.#folder, 'services.json'), JSON.stringify(list))
    this.#agent = new AgentRun(this.#node, ['--manifests', this.#folder], {
      mode: 'userspace',
      flags: ['-v=2', `--bind-address=${nodeAddress}`, '--metrics-bind-address=127.0.0.1:10249'],
    })
    await this.#agent.inForce()
  }

  get #running(): AgentRun {
    if (this.#agent === undefined) throw new Error('the agent does not run')
    return this.#agent
  }

  /** One fault, with probes of two other Services beside it. */
  async measure(words: readonly string[]): Promise<FaultFigures> {
    // The warnings of the start come after the first sync.
    await sleep(500)
    const firstLine = this.#running.log.length
    const before = this.#memory()
    const probes = [this.#probe('tcp', services['other-tcp']), this.#probe('udp', services['other-udp'])]
    const watched = this.#peak(before)
    // The probes begin before the attack.
    await sleep(500)
    await this.#peer.must(this.#flood, ...words)
    const end = performance.now()
    await this.#rest()
    const restMs = performance.now() - end
    const [tcpFigures, udpFigures] = await Promise.all(probes.map(figuresOf))
    const peak = watched.stop()
    if (tcpFigures === undefined || udpFigures === undefined) throw new Error('a probe is missing')
    return {
      before,
      peak,
      after: this.#memory(),
      restMs,
      tcp: tcpFigures,
      udp: udpFigures,
      log: this.#running.log.slice(firstLine).filter(isState).map(messageOf),
    }
  }

  #probe(protocol: 'tcp' | 'udp', { clusterIP }: BenchService): Program {
    return this.#peer.start(this.#flood, 'probe', protocol, String(probeSeconds), clusterIP, '80')
  }

  /** Waits until the relay has no connection and no flow but those of the probes. */
  async #rest(): Promise<void> {
    for (const end = performance.now() + restLimitMs; performance.now() < end; await sleep(50))
      if (this.#memory().sockets < 100) return
  }

  /** Reads memory ten times per second. `stop` returns the largest values. */
  #peak(first: Memory): { readonly stop: () => Memory } {
    let peak = first
    const timer = setInterval(() => {
      const now = this.#memory()
      peak = {
        rss: Math.max(peak.rss, now.rss),
        buffers: Math.max(peak.buffers, now.buffers),
        slab: Math.max(peak.slab, now.slab),
        sockets: Math.max(peak.sockets, now.sockets),
      }
    }, 100)
    return {
      stop: () => {
        clearInterval(timer)
        return peak
      },
    }
  }

  #memory(): Memory {
    const sockstat = readFileSync(`/proc/${this.#node.pid}/net/sockstat`, 'utf8')
    const number = (pattern: RegExp, text = sockstat): number => Number(pattern.exec(text)?.[1] ?? Number.NaN)
    const pages = number(/^TCP:.* mem (\d+)/mu) + number(/^UDP:.* mem (\d+)/mu)
    return {
      rss: this.#running.memory().restMiB,
      buffers: (pages * 4096) / 2 ** 20,
      slab: number(/^Slab:\s+(\d+) kB/mu, readFileSync('/proc/meminfo', 'utf8')) / 1024,
      sockets: number(/^sockets: used (\d+)/mu),
    }
  }

  async close(): Promise<void> {
    await this.#node.close()
    await this.#peer.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

async function figuresOf(probe: Program): Promise<typeof Probed.static> {
  const { stdout } = await probe.ended
  return Value.Parse(Probed, JSON.parse(stdout))
}

/** A line about a state: a problem, or its end. Syncs have level debug. */
function isState(line: string): boolean {
  return !line.includes('"level":"debug"')
}

function messageOf(line: string): string {
  const parsed: { readonly msg: string } = JSON.parse(line)
  return parsed.msg
}

function manifestsOf(
  name: string,
  { clusterIP, protocol, endpoint, port }: BenchService,
): readonly unknown[] {
  const metadata = { name, namespace: 'default' }
  return [
    { apiVersion: 'v1', kind: 'Service', metadata, spec: { clusterIP, ports: [{ port: 80, protocol }] } },
    {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name } },
      addressType: 'IPv4',
      ports: [{ name: '', port, protocol }],
      endpoints: [{ addresses: [endpoint] }],
    },
  ]
}

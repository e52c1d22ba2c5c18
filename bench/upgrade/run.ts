// An agent is replaced by one of another build and back, among chains of other programs and with steady traffic. Prints one JSON line:
//   node run.js MODE OLD NEW      OLD and NEW: the agent.js of a build
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LoadCounts } from '../../test/support/load.js'
import { lostPackets, lostSince } from '../../test/support/lost-packets.js'
import { foreignChains } from '../../test/traffic/foreign-chains.js'
import { endpointCount, staleServers, SwitchLab } from '../../test/traffic/switch-lab.js'
import type { AgentProcess } from '../../test/traffic/agent-process.js'
import { virtualServers } from '../../test/traffic/node-state.js'
import { difference, leftIn, type LoadFigures, summary } from '../takeovers/figures.js'

/** Mode and flavour of x_tables. */
const modes = {
  'iptables-legacy': ['iptables', '--iptables-flavour=legacy'],
  'iptables-nft': ['iptables', '--iptables-flavour=nft'],
  nftables: ['nftables'],
  userspace: ['userspace'],
  'ipvs-legacy': ['ipvs', '--iptables-flavour=legacy'],
  'ipvs-nft': ['ipvs', '--iptables-flavour=nft'],
} as const
type Mode = keyof typeof modes

/** Modes in which clients of cluster IPs come by the hook input, which the firewalld of the lab closes. */
const comeByInput: ReadonlySet<Mode> = new Set(['userspace', 'ipvs-legacy', 'ipvs-nft'])

/** After the first sync: longer than what an agent still removes then. */
const restMs = 2000

/** For a report of `viaduct diff`: an emulated processor may take minutes. */
const planSeconds = 300

/** The parts of the report of `viaduct diff` that are read here. */
interface DiffReport {
  readonly hasChanges: boolean
  readonly operations?: readonly { readonly text: string }[]
}

/** A change from one build to the other. */
interface Change {
  readonly to: 'old' | 'new'
  readonly end: 'SIGTERM' | 'SIGKILL'
  /** Endpoints of the Services that the next agent finds. */
  readonly endpoints: number
}

const changes: readonly Change[] = [
  { to: 'new', end: 'SIGTERM', endpoints: endpointCount },
  { to: 'old', end: 'SIGTERM', endpoints: endpointCount },
  { to: 'new', end: 'SIGKILL', endpoints: endpointCount - 1 },
  { to: 'old', end: 'SIGKILL', endpoints: endpointCount },
]

interface ChangeFigures extends LoadFigures, Change {
  /** Clients with affinity that met another server. */
  readonly moved: number
  /** Servers that were gone and answered new connections. */
  readonly stale: number
  /** The operations that `viaduct diff` of the build that runs prints. */
  readonly differences: readonly string[]
  readonly objects: Readonly<Record<string, number>>
  /** Lines of others that have come or gone. */
  readonly foreign: readonly string[]
  /** The counters of lost packets of the kernel that grew: a failed attempt beside a full queue of a processor is not the agent's. */
  readonly lost: string
}

/** The servers that each client with affinity met. */
function affine(counts: LoadCounts): ReadonlyMap<string, readonly string[]> {
  const paths = Object.entries(counts).filter(([name]) => name.includes('affinity'))
  return new Map(paths.map(([name, { by }]) => [name, by]))
}

/** How many clients met another server, although their first one still serves. */
function movedFrom(before: LoadCounts, after: LoadCounts, endpoints: number): number {
  const first = affine(before)
  const gone = staleServers(before, endpoints)
  return [...affine(after)].filter(([name, by]) => {
    const isGone = gone.some((text) => text.startsWith(`${name}: `))
    return !isGone && by.some((server) => first.get(name)?.includes(server) !== true)
  }).length
}

class Upgrade {
  readonly #lab: SwitchLab
  readonly #mode: Mode
  readonly #files: Readonly<Record<'old' | 'new', string>>
  readonly #socket = join(tmpdir(), `upgrade-${process.pid}.sock`)
  #running: AgentProcess | undefined

  constructor(lab: SwitchLab, mode: Mode, files: Readonly<Record<'old' | 'new', string>>) {
    this.#lab = lab
    this.#mode = mode
    this.#files = files
  }

  async start(build: 'old' | 'new'): Promise<void> {
    const [mode, ...flags] = modes[this.#mode]
    const socket = `--control-socket=${this.#socket}`
    this.#running = this.#lab.startAgentOf(this.#files[build], mode, ...flags, socket)
    await this.#running.synced()
  }

  async end(signal: Change['end']): Promise<void> {
    if (signal === 'SIGTERM') await this.#running?.terminate()
    else await this.#running?.kill()
  }

  /** The changes in the report of `viaduct diff`, by the program of a build. */
  async differences(build: 'old' | 'new'): Promise<readonly string[]> {
    const flags = ['-o', 'json', `--socket=${this.#socket}`, `--timeout=${planSeconds}`]
    const command = [this.#files[build], 'diff', ...flags]
    const { stdout, stderr } = await this.#lab.node.run(process.execPath, ...command)
    if (stdout === '') return [stderr]
    const { hasChanges, operations = [] }: DiffReport = JSON.parse(stdout)
    // Without changes, the operations are sockets of the agent and flows to delete: no state that lasts.
    return hasChanges ? operations.map(({ text }) => text) : []
  }

  /** Removes everything. Returns what stays of proxies. */
  async cleanUp(): Promise<Readonly<Record<string, number>>> {
    await this.end('SIGTERM')
    const [mode, ...flags] = modes[this.#mode]
    await this.#lab.node.must(
      process.execPath,
      this.#files.new,
      '--cleanup',
      `--proxy-mode=${mode}`,
      ...flags,
    )
    return await this.objects()
  }

  /** The kernel objects of proxies, counted by kind. */
  async objects(): Promise<Readonly<Record<string, number>>> {
    const { node } = this.#lab
    const tables = (await node.must('nft', 'list', 'tables')).match(/ viaduct-\S+$/gmu) ?? []
    const left = { ...(await leftIn(node)), 'tables viaduct-*': tables.length }
    if (modes[this.#mode][0] !== 'ipvs') return left
    const servers = (await virtualServers(node)).filter((line) => line.startsWith('-A '))
    const sets = (await node.must('ipset', 'list', '-n')).match(/^KUBE-/gmu) ?? []
    return { ...left, 'virtual servers': servers.length, sets: sets.length }
  }
}

async function measure(mode: Mode, files: Readonly<Record<'old' | 'new', string>>): Promise<object> {
  const lab = await SwitchLab.create()
  try {
    const upgrade = new Upgrade(lab, mode, files)
    await upgrade.start('old')
    await lab.writeForeignChains({
      forwardPolicy: 'ACCEPT',
      markChain: 'CNI-HOSTPORT-SETMARK',
      firewalld: !comeByInput.has(mode),
    })
    await lab.startLoad()
    await sleep(restMs)
    const figures: ChangeFigures[] = []
    for (const change of changes) {
      const foreign = await foreignChains(lab.node)
      const lost = await lostPackets()
      const before = await lab.during(async () => {})
      const counts = await lab.during(async () => {
        await upgrade.end(change.end)
        await lab.publish(change.endpoints)
        await upgrade.start(change.to)
      })
      const after = await lab.during(async () => await sleep(restMs))
      const lostMeanwhile = lostSince(lost, await lostPackets())
      const [during, later] = [summary(counts), summary(after)]
      figures.push({
        ...change,
        tried: during.tried + later.tried,
        failed: during.failed + later.failed,
        retransmitted: during.retransmitted + later.retransmitted,
        slowestMs: Math.max(during.slowestMs, later.slowestMs),
        failures: [...during.failures, ...later.failures],
        moved: movedFrom(before, after, change.endpoints),
        stale: staleServers(after, change.endpoints).length,
        differences: await upgrade.differences(change.to),
        objects: await upgrade.objects(),
        foreign: difference(foreign, await foreignChains(lab.node)),
        lost: lostMeanwhile,
      })
    }
    return { changes: figures, left: await upgrade.cleanUp() }
  } finally {
    await lab.close()
  }
}

function modeOf(name: string): Mode {
  const found = Object.keys(modes).find((candidate): candidate is Mode => candidate === name)
  if (found === undefined) throw new Error(`no mode ${name}, only ${Object.keys(modes).join(', ')}`)
  return found
}

const [mode = '', old = '', next = ''] = process.argv.slice(2)
process.stdout.write(`${JSON.stringify(await measure(modeOf(mode), { old, new: next }))}\n`)

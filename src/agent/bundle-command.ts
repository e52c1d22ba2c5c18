// `viaduct bundle`: the state of the agent and of this node as an archive for a bug report.
import { createWriteStream, existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { arch, hostname, release, version as kernelVersion } from 'node:os'
import type { Writable } from 'node:stream'
import { Command, CommanderError } from 'commander'
import { type BundleFile, collect, type Part, writeBundle } from '../bundle/index.js'
import { parseArguments } from '../cli/index.js'
import { systemClock } from '../clock.js'
import { AgentClient, askingAt, CommandError } from '../commands/index.js'
import { type Config, readConfig, readConfigFile, resolveConfig } from '../config/index.js'
import { defaultControlSocket } from '../control-socket.js'
import { KernelError } from '../errors.js'
import { type Lines, listIpsets, listIpvs, listNft, listRoutes, listXtables } from '../inspect/index.js'
import { describeLack, type Kernel, KernelModules, natGuardTables, openKernel } from '../kernel/index.js'
import { handOverTable, setNamed, tableName } from '../layers/nft-table/index.js'
import { natGuardSet } from '../layers/vips/index.js'
import { nodeName } from '../node/index.js'
import { commit, version } from '../version.js'
import { adviceOn, lackOf } from './advice.js'
import { findingsOf } from './doctor-command.js'
import { findAgent, type RunningAgent } from './running-agent.js'

export interface BundleIo {
  /** For `-f -`. */
  readonly stdout: Writable
  readonly err: (text: string) => void
  readonly environment: Readonly<Record<string, string | undefined>>
}

interface Arguments {
  /** undefined: a name by node and time. */
  readonly file: string | undefined
  readonly socket: string
  /** Flags of the agent. */
  readonly flags: readonly string[]
}

const [partMs, partLength] = [60_000, 32 * 1024 * 1024]

/** Runs the command. Resolves with the exit code: 0; 1: a part is missing, or no archive; 2: wrong arguments; 3: the parts of the agent are missing. */
export async function runBundle(words: readonly string[], io: BundleIo): Promise<number> {
  const own = parse(words)
  if (typeof own === 'string') return usage(io, own)
  const invocation = parseArguments(own.flags, readConfigFile)
  if ('exitCode' in invocation && invocation.exitCode === 0) {
    io.stdout.write(invocation.text)
    return 0
  }
  if ('exitCode' in invocation) return usage(io, invocation.problem)
  const agent = new AgentParts(own.socket)
  const kernel = openKernel({ addonPath: io.environment['VIADUCT_ADDON'], dryRun: () => {} })
  try {
    const config = await agent.config(invocation.config)
    const time = new Date(systemClock.unixMs())
    const stamp = time.toISOString().replaceAll(/[-:]|\.\d+/gu, '')
    const folder = `viaduct-bundle-${nodeName(config, hostname())}-${stamp}`
    const file = own.file ?? `${folder}.tar.gz`
    const out = file === '-' ? io.stdout : await create(file)
    const doctor = async (): Promise<string> =>
      json(await findingsOf(config, { environment: io.environment, agent: await agent.find() }))
    const parts = [versions, ...agent.parts, ...kernelParts(kernel), { name: 'doctor.json', make: doctor }]
    let isIncomplete = false
    const files = collect(parts, {
      partMs,
      partLength,
      clock: systemClock,
      onPart: (name) => io.err(`${name}\n`),
      describe: (error) => (error instanceof CommandError ? error.message : adviceOn(error)),
    })
    const noted = async function* (): AsyncGenerator<BundleFile> {
      for await (const each of files) {
        isIncomplete ||= each.isIncomplete
        if (each.name.endsWith('.error')) io.err(`${each.name}: ${each.text}`)
        yield each
      }
    }
    await writeBundle(noted(), { out, folder, time })
    if (file !== '-') io.err(`viaduct: ${file} is written\n`)
    if (agent.isAbsent) return 3
    return isIncomplete ? 1 : 0
  } catch (error) {
    io.err(`viaduct: ${reasonOf(error)}\n`)
    return 1
  } finally {
    await kernel.close()
  }
}

/** Takes the command's own options out of the words. A text: the mistake. */
function parse(words: readonly string[]): Arguments | string {
  const command = new Command('viaduct')
    .option('-f, --file <FILE>')
    .option('--socket <FILE>', '', defaultControlSocket)
    .configureOutput({ writeErr: () => undefined })
    .exitOverride()
  try {
    const { operands, unknown } = command.parseOptions([...words])
    const { file, socket } = command.opts<{ file?: string; socket: string }>()
    return { file, socket, flags: [...operands, ...unknown] }
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    return error.message.replace(/^error: /u, '')
  }
}

function usage({ err }: BundleIo, problem: string): number {
  err(`viaduct: ${problem} (see viaduct help bundle)\n`)
  return 2
}

/** A new file that only its owner can read. Rejects with EEXIST if it exists. */
async function create(file: string): Promise<Writable> {
  const handle = await open(file, 'wx', 0o600)
  return createWriteStream(file, { fd: handle })
}

function reasonOf(error: unknown): string {
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.message
  return adviceOn(error)
}

const json = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`

const versions: Part = {
  name: 'versions.json',
  make: async () =>
    await Promise.resolve(
      json({
        viaduct: version,
        commit,
        kernel: `${release()} ${kernelVersion()}`,
        processor: arch(),
        node: process.versions,
      }),
    ),
}

/** The parts that the running agent has. */
class AgentParts {
  readonly #socket: string
  /** The reason why no agent answered the first question. undefined: one did. No part waits for a silent agent again. */
  #absence: CommandError | undefined

  constructor(socket: string) {
    this.#socket = socket
    this.#configuration = askingAt(socket)('configuration')
    this.#configuration.catch(() => undefined)
  }

  readonly #configuration: Promise<{
    readonly documents: string
    readonly mode: Config['mode']
    readonly node: string
  }>

  /** The configuration of the agent; `otherwise` if none answers. */
  async config(otherwise: Config): Promise<Config> {
    try {
      const { documents, mode, node } = await this.#configuration
      const input = readConfig('the agent', Buffer.from(documents), { isStrict: false })
      return resolveConfig({ ...input, mode, hostnameOverride: node })
    } catch (error) {
      if (!(error instanceof CommandError)) throw error
      if (error.exitCode === 3) this.#absence = error
      return otherwise
    }
  }

  /** The agent for the doctor. A silent one is not asked again. */
  async find(): Promise<RunningAgent> {
    if (this.#absence === undefined || !existsSync(this.#socket)) return await findAgent(this.#socket)
    return { socket: this.#socket, silence: this.#absence.message, answer: undefined }
  }

  get isAbsent(): boolean {
    return this.#absence !== undefined
  }

  /** The socket to ask. Throws the reason if no agent answers. */
  get #answering(): string {
    if (this.#absence !== undefined) throw this.#absence
    return this.#socket
  }

  get parts(): readonly Part[] {
    const value = (name: 'status' | 'history' | 'flags'): Part => ({
      name: `${name}.json`,
      make: async () => json((await new AgentClient(this.#answering).ask(name)).value),
    })
    // As the agent sends it: a long list would be three times as long with an indented line for each field.
    const list = (name: string): Part => ({
      name: `${name}.json`,
      make: async () => (await new AgentClient(this.#answering).readList(name)).toString(),
    })
    return [
      { name: 'configuration.yaml', make: async () => (await this.#configuration).documents },
      value('status'),
      list('services'),
      list('endpoints'),
      list('routes'),
      value('history'),
      value('flags'),
      { name: 'log.txt', make: async () => (await askingAt(this.#answering)('log')).items.join('') },
      { name: 'metrics.txt', make: async () => (await askingAt(this.#answering)('metrics')).text },
    ]
  }
}

/** A part of lines. */
function listing(name: string, list: () => Lines): Part {
  return { name: `kernel/${name}`, make: () => withNewlines(list()) }
}

function kernelParts(kernel: Kernel): readonly Part[] {
  return [
    listing('nftables.nft', () => listNft(kernel, tableName, setNamed)),
    listing('hand-over.nft', () => listNft(kernel, handOverTable, setNamed)),
    ...Object.values(natGuardTables).map((table) =>
      listing(`${table}.nft`, () =>
        listNft(kernel, table, (family, set) => (set === 'vips' ? natGuardSet(family, table) : undefined)),
      ),
    ),
    listing('iptables.txt', () => listXtables(kernel)),
    listing('ipset.txt', () => listIpsets(kernel)),
    listing('ipvs.txt', () => listIpvs(kernel)),
    listing('routes.txt', () => listRoutes(kernel)),
    listing('conntrack.txt', () => conntrackCounts(kernel)),
  ]
}

/** A kernel without the feature has no such objects: the reason stands in the place of the lines. */
async function* withNewlines(lines: Lines): AsyncGenerator<string> {
  try {
    for await (const line of lines) yield `${line}\n`
  } catch (error) {
    const lack = error instanceof KernelError ? lackOf(error) : undefined
    if (lack === undefined) throw error
    yield `# ${describeLack(lack, new KernelModules())}\n`
  }
}

/** The number of flows and its limit, as sysctl prints them. */
async function* conntrackCounts({ sysctl }: Pick<Kernel, 'sysctl'>): Lines {
  for (const name of ['nf_conntrack_count', 'nf_conntrack_max', 'nf_conntrack_buckets'])
    yield `net.netfilter.${name} = ${await sysctl.read(`net/netfilter/${name}`)}`
}

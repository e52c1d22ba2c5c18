// `viaduct doctor`: reads the node, runs the checks, and prints what they found.
import { constants } from 'node:fs'
import { access, readdir, readFile, readlink, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { askOnce, openClientOptions } from '../api/index.js'
import { parseArguments } from '../cli/index.js'
import { systemClock } from '../clock.js'
import { inputWarnings, readConfigFile, version, type Config } from '../config/index.js'
import { defaultControlSocket } from '../control-socket.js'
import { type ApiAnswers, diagnose, type Examined, type Finding, printFindings } from '../doctor/index.js'
import { KernelModules, openKernel } from '../kernel/index.js'
import { nodeName } from '../node/index.js'
import { isConfigError } from '../errors.js'
import { adviceOn } from './advice.js'
import { probeModes } from './probe-modes.js'
import { findAgent, type RunningAgent } from './running-agent.js'
import { silentLog } from './silent-log.js'

type Environment = Readonly<Record<string, string | undefined>>

/** Runs the command. Resolves with the exit code: 0; 1: something is broken; 2: wrong arguments. */
export async function runDoctor(words: readonly string[], environment: Environment): Promise<number> {
  const options = split(words)
  if (!formats.some((each) => each === options.output)) {
    process.stderr
      .write(`viaduct: -o: must be one of ${formats.join(', ')}, not ${JSON.stringify(options.output)}
`)
    return 2
  }
  const agent = await findAgent(options.socket)
  const invocation = parseArguments(options.flags, readConfigFile, agent.answer?.input)
  if ('exitCode' in invocation) {
    const output = invocation.exitCode === 0 ? process.stdout : process.stderr
    output.write(invocation.text)
    return invocation.exitCode
  }
  const origin = invocation.configFile === undefined ? originOf(agent, options.flags) : undefined
  try {
    const findings = await findingsOf(invocation.config, { environment, agent, origin })
    if (origin !== undefined && options.output === 'table') process.stdout.write(`${origin}\n`)
    process.stdout.write(await format(findings, options))
    return findings.some(({ status }) => status === 'broken') ? 1 : 0
  } catch (error) {
    process.stderr.write(`viaduct: ${adviceOn(error)}\n`)
    return 1
  }
}

/** The origin of the configuration if an agent gave it, as one clause. */
function originOf({ answer, socket }: RunningAgent, flags: readonly string[]): string | undefined {
  if (answer === undefined) return undefined
  const names = flags.filter((word) => word.startsWith('-')).map((word) => word.replace(/=.*/su, ''))
  const own = names.length === 0 ? '' : `, and ${names.join(', ')} of this command`
  return `the configuration is that of the agent on ${socket}${own}`
}

export interface DoctorOptions {
  readonly environment: Environment
  readonly agent: RunningAgent
  /** As `ExaminedAgent.origin`. */
  readonly origin?: string | undefined
}

/** The findings about this node for an agent with this configuration. Throws KernelError or ConfigError. */
export async function findingsOf(config: Config, options: DoctorOptions): Promise<readonly Finding[]> {
  const kernel = openKernel({ addonPath: options.environment['VIADUCT_ADDON'], isPlanned: true })
  try {
    return await diagnose(await examine(config, kernel, options))
  } finally {
    await kernel.close()
  }
}

const formats = ['table', 'json', 'yaml'] as const

/** The doctor's own options, and the flags of the agent. */
interface Options {
  readonly flags: readonly string[]
  readonly isAll: boolean
  readonly output: string
  readonly socket: string
}

/** Takes the command's own options out of the words. */
function split(words: readonly string[]): Options {
  const flags: string[] = []
  let [isAll, output, socket] = [false, 'table', defaultControlSocket]
  for (let index = 0; index < words.length; index++) {
    const word = words[index] ?? ''
    const joined = /^(?:-o=?|--output=)(?<format>.+)$/u.exec(word)?.groups?.['format']
    if (word === '--all') isAll = true
    else if (word === '-o' || word === '--output') output = words[++index] ?? ''
    else if (joined !== undefined) output = joined
    else if (word === '--socket') socket = words[++index] ?? ''
    else if (word.startsWith('--socket=')) socket = word.slice('--socket='.length)
    else flags.push(word)
  }
  return { flags, isAll, output, socket }
}

async function format(findings: readonly Finding[], { isAll, output }: Options): Promise<string> {
  if (output === 'table') return printFindings(findings, isAll)
  if (output === 'json') return `${JSON.stringify(findings, undefined, 2)}\n`
  const { dump } = await import('js-yaml')
  return dump(findings, { noRefs: true, lineWidth: -1 })
}

async function examine(
  config: Config,
  kernel: Examined['kernel'],
  { environment, agent, origin }: DoctorOptions,
): Promise<Examined> {
  const { socket, silence, answer } = agent
  const modules = new KernelModules()
  return {
    config,
    nodeName: nodeName(config, hostname()),
    agent: { socket, silence, status: answer?.status, origin, ownVersion: version },
    kernel,
    modes: await probeModes({
      config,
      kernel,
      addonPath: environment['VIADUCT_ADDON'],
      modules,
      running: isUnchanged(config, answer) ? answer?.mode : undefined,
      canWrite,
    }),
    ...(config.manifests === undefined ? await openApi(config, environment) : noApi),
    read: async (path) => await readFile(path, 'utf8').catch(() => undefined),
    xtablesLock: await findLock(environment['XTABLES_LOCKFILE']),
    wait: async (ms) =>
      await new Promise<void>((resolve) => {
        systemClock.schedule(ms, resolve)
      }),
    processes: await listProcesses(),
    canAskSockets: modules.state('tcp_diag') === 'present',
    inputWarnings: inputWarnings(config),
  }
}

/** The agent has loaded the modules of its own mode and flavour, not of others. */
function isUnchanged({ mode, iptablesFlavour }: Config, answer: RunningAgent['answer']): boolean {
  return answer?.input.mode === mode && (answer.input.iptablesFlavour ?? 'auto') === iptablesFlavour
}

const noApi = { api: undefined, sourceProblem: undefined }

async function openApi(
  config: Config,
  environment: Environment,
): Promise<Pick<Examined, 'api' | 'sourceProblem'>> {
  try {
    return { api: await openAnswers(config, environment), sourceProblem: undefined }
  } catch (error) {
    if (!isConfigError(error)) throw error
    return { api: undefined, sourceProblem: error.message }
  }
}

/** Throws ConfigError. */
async function openAnswers(config: Config, environment: Environment): Promise<ApiAnswers> {
  const metrics = { apiRequest: () => {} }
  const options = await openClientOptions(config.client, {
    clock: systemClock,
    log: silentLog,
    metrics,
    environment,
  })
  return {
    server: options.server,
    ask: async (method, path, body) => await askOnce(options, { method, path, body }, systemClock),
  }
}

/** The file that iptables locks (xtables_lock.cc). */
async function findLock(named: string | undefined): Promise<Examined['xtablesLock']> {
  const path = named === undefined || named === '' ? '/run/xtables.lock' : named
  const file = await stat(path, { bigint: true }).catch(() => undefined)
  return { path, id: file && lockId(file) }
}

/** As fs/locks.c prints a file: major and minor number of the device in hexadecimal, inode. */
function lockId({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }): string {
  // gnu_dev_major(), gnu_dev_minor() of sys/sysmacros.h
  const major = ((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)
  const minor = (dev & 0xffn) | ((dev >> 12n) & ~0xffn & 0xffffffffn)
  const hex = (value: bigint): string => value.toString(16).padStart(2, '0')
  return `${hex(major)}:${hex(minor)}:${ino}`
}

/** Whether this process may write a setting below /proc/sys. */
async function canWrite(path: string): Promise<boolean> {
  return await access(`/proc/sys/${path}`, constants.W_OK).then(
    () => true,
    () => false,
  )
}

/** The processes of this network namespace. One that ends meanwhile, or that cannot be read, is left out. */
async function listProcesses(): Promise<Examined['processes']> {
  const own = await readlink('/proc/self/ns/net')
  const found: { pid: number; name: string; command: string }[] = []
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/u.test(entry)) continue
    const place = await readlink(`/proc/${entry}/ns/net`).catch(() => '')
    if (place !== own) continue
    const name = await readFile(`/proc/${entry}/comm`, 'utf8').catch(() => '')
    const command = await readFile(`/proc/${entry}/cmdline`, 'utf8').catch(() => '')
    found.push({ pid: Number(entry), name: name.trim(), command: command.replaceAll('\0', ' ') })
  }
  return found
}

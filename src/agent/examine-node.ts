// The node that the doctor examines: this machine, its API server, its agent. Nothing is written.
import { constants, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { access, readFile, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { askOnce, openClientOptions } from '../api/index.js'
import { systemClock } from '../clock.js'
import { type Config, inputWarnings } from '../config/index.js'
import type { ApiAnswers, Examined } from '../doctor/index.js'
import { isConfigError, isDenied } from '../errors.js'
import type { KernelModules } from '../kernel/index.js'
import { nodeName } from '../node/index.js'
import { commit, version } from '../version.js'
import { probeModes } from './probe-modes.js'
import type { RunningAgent } from './running-agent.js'
import { silentLog } from './silent-log.js'

/** PROC_PID_INIT_INO of linux/proc_ns.h: the PID namespace that contains all others. */
const firstPidNamespace = 'pid:[4026531836]'

type Environment = Readonly<Record<string, string | undefined>>

export interface ExamineOptions {
  readonly environment: Environment
  readonly agent: RunningAgent
  /** As `ExaminedAgent.origin`. */
  readonly origin?: string | undefined
}

/** `kernel`: that of a dry run with these modules, so that no read changes it or loads a module. Throws KernelError. */
export async function examine(
  config: Config,
  kernel: Examined['kernel'],
  { environment, agent, origin, modules }: ExamineOptions & { readonly modules: KernelModules },
): Promise<Examined> {
  const { socket, silence, answer } = agent
  return {
    config,
    nodeName: nodeName(config, hostname()),
    agent: { socket, silence, status: answer?.status, origin, ownBuild: { version, commit } },
    kernel,
    modes: await probeModes({
      config,
      kernel,
      addonPath: environment['VIADUCT_ADDON'],
      modules,
      running: isUnchanged(config, answer) ? answer?.mode : undefined,
      canWrite,
    }),
    unknownParts: (['nf_tables', 'ip_set'] as const).filter((part) => modules.state(part) === 'unknown'),
    ...(config.manifests === undefined ? await openApi(config, environment) : noApi),
    read: readOrAbsent,
    xtablesLock: await findLock(environment['XTABLES_LOCKFILE']),
    wait: async (ms) =>
      await new Promise<void>((resolve) => {
        systemClock.schedule(ms, resolve)
      }),
    seesAllProcesses: readlinkSync('/proc/self/ns/pid') === firstPidNamespace,
    ...listProcesses(),
    canAskSockets: ['tcp_diag', 'udp_diag'].every((module) => modules.canAsk(module)),
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
    return { api: undefined, sourceProblem: { sentence: error.message, isDenied: isDenied(error) } }
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
  const ask: ApiAnswers['ask'] = async (method, path, body) =>
    await askOnce(options, { method, path, body }, systemClock)
  const place = `/api/v1/nodes/${encodeURIComponent(nodeName(config, hostname()))}`
  let node: ReturnType<ApiAnswers['node']> | undefined
  return { server: options.server, ask, node: async () => await (node ??= ask('GET', place)) }
}

/** undefined: there is no such file, or it is one of a process that has ended. */
async function readOrAbsent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && absences.has(String(error.code))) return undefined
    throw error
  }
}

const absences: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ESRCH'])

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
  return `${hex(major)}:${hex(minor)}:${ino}`
}

function hex(value: bigint): string {
  return value.toString(16).padStart(2, '0')
}

/** Whether this process may write a setting below /proc/sys. */
async function canWrite(path: string): Promise<boolean> {
  return await access(`/proc/sys/${path}`, constants.W_OK).then(
    () => true,
    () => false,
  )
}

/**
 * The processes of this network namespace, and those of which the namespace may not be read. One that ends meanwhile is left out. Reads
 * without a thread of their own: a node has thousands of processes, and each read takes microseconds.
 */
function listProcesses(): Pick<Examined, 'processes' | 'unplacedProcesses'> {
  const own = readlinkSync('/proc/self/ns/net')
  const processes: { pid: number; name: string; command: string }[] = []
  const unplacedProcesses: { pid: number; name: string }[] = []
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/u.test(entry)) continue
    const place = namespaceOf(entry)
    if (place !== own && place !== 'hidden') continue
    const pid = Number(entry)
    const name = textOf(`/proc/${entry}/comm`).trim()
    if (place === 'hidden') unplacedProcesses.push({ pid, name })
    else processes.push({ pid, name, command: textOf(`/proc/${entry}/cmdline`).replaceAll('\0', ' ') })
  }
  return { processes, unplacedProcesses }
}

/** The network namespace of a process. undefined: it has ended. `hidden`: this process may not trace it (proc_ns_readlink()). */
function namespaceOf(process: string): string | undefined {
  try {
    return readlinkSync(`/proc/${process}/ns/net`)
  } catch (error) {
    return isDenied(error) ? 'hidden' : undefined
  }
}

/** Empty if the file cannot be read. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

// A check: one row of the table of checks, what it examines, and what it says.
import type { ApiReply } from '../api/index.js'
import type { Config } from '../config/index.js'
import type { ForeignRules, Kernel, KernelClock, XtFlavour } from '../kernel/index.js'
import type { Build } from '../version.js'
import { type Capability, hasCapability } from '../host/index.js'

/** The result of a check. `broken`: Services do not work, or will not. `unknown`: the check could not be made. */
export type Verdict =
  | { readonly status: 'ok'; readonly seen: string }
  | {
      readonly status: 'warning' | 'broken' | 'unknown'
      /** The state of this node; one clause. */
      readonly seen: string
      /** The consequence for the traffic of Services; one sentence. */
      readonly cause: string
      /** The remedy for the operator; one sentence. */
      readonly remedy: string
    }

/** A verdict and the name of its check. */
export type Finding = Verdict & { readonly check: string }

/** A setting below /proc/sys that the agent would write. */
interface WantedSetting {
  readonly path: string
  readonly value: string
  /** False: the kernel does not have it, and no module will bring it. */
  readonly exists: boolean
  /** Whether this process may write it. */
  readonly canWrite: boolean
}

/** The result of opening each mode on an empty network namespace of this kernel, as far as that loads no module. */
export interface ModeProbe {
  /** The mode that the agent would run, such as `iptables (nft)`; undefined: none. */
  readonly chosen: string | undefined
  readonly flavour: XtFlavour
  readonly flavourReason: string
  /** The reason why it is not the configured mode, or why there is none; undefined: it is the configured one. */
  readonly problem: string | undefined
  /** The call that this process may not make: `chosen` is then the mode of the running agent, or else the configured one, which was not opened. undefined: it was. */
  readonly denied: string | undefined
  /** Modules of the chosen mode that are installed and not loaded: the check could not ask the kernel about the mode. */
  readonly notLoaded: readonly string[]
  /** Modules without which the chosen mode cannot run, not loaded and perhaps not installed. */
  readonly unknown: readonly string[]
  /** Modules of the chosen mode that are installed, and that this kernel may load only at the next boot. The mode opens without them. */
  readonly locked: readonly string[]
  /** Every other mode that can run here. */
  readonly others: readonly string[]
  /** Settings below /proc/sys that the agent would write. */
  readonly settings: readonly WantedSetting[]
}

/** A part of the kernel by its module. */
type KernelPart = 'nf_tables' | 'ip_set'

/** The state of a running agent: a part of the answer of /v1/status. */
export interface AgentStatus {
  readonly version: string
  /** Absent: a build before builds named their commit. */
  readonly commit?: string | undefined
  readonly isInForce: boolean
  readonly families: readonly {
    readonly family: string
    readonly isHealthy: boolean
    readonly lastSync?: string | undefined
  }[]
  readonly problemCount: number
  readonly problems: readonly { readonly problem: string }[]
}

/** The agent of this node, as far as it answers. */
interface ExaminedAgent {
  readonly socket: string
  /** One sentence: why nothing answered, although there is a socket. undefined: an answer, or no socket. */
  readonly silence: string | undefined
  /** undefined: nothing answered. */
  readonly status: AgentStatus | undefined
  /** The origin of the examined configuration, as one clause; undefined: flags and defaults. */
  readonly origin: string | undefined
  /** The build of this command. */
  readonly ownBuild: Build
}

/** The doctor's questions to the API server. */
export interface ApiAnswers {
  readonly server: URL
  /** Sends one request. Throws ApiError. */
  readonly ask: (method: 'GET' | 'POST', path: string, body?: unknown) => Promise<ApiReply>
  /** The answer about the Node of this node: one request for all checks. Throws ApiError. */
  readonly node: () => Promise<ApiReply>
}

/** The node that is examined. Every member only reads. */
export interface Examined {
  readonly config: Config
  readonly nodeName: string
  readonly agent: ExaminedAgent
  readonly kernel: Kernel & ForeignRules & KernelClock
  readonly modes: ModeProbe
  /** Parts that count as empty: it is not known whether the kernel has them, and a request could load their modules. */
  readonly unknownParts: readonly KernelPart[]
  /** The reason why there is no source of Services, such as a wrong kubeconfig; undefined: there is one. `isDenied`: this process may not read it. */
  readonly sourceProblem: { readonly sentence: string; readonly isDenied: boolean } | undefined
  /** undefined: manifests are the source, or there is none. */
  readonly api: ApiAnswers | undefined
  /** The text of a file; undefined: there is none. Rejects if it cannot be read. */
  readonly read: (path: string) => Promise<string | undefined>
  /** The lock file of x_tables. `id`: as /proc/locks names it; undefined: there is no such file. */
  readonly xtablesLock: { readonly path: string; readonly id: string | undefined }
  readonly wait: (ms: number) => Promise<void>
  /** Whether /proc shows the processes and the file locks of all PID namespaces. */
  readonly seesAllProcesses: boolean
  /** Processes of this network namespace, as far as /proc shows them. */
  readonly processes: readonly { readonly pid: number; readonly name: string; readonly command: string }[]
  /** Processes whose network namespace this process may not read. `name` is empty if it may not be read either. */
  readonly unplacedProcesses: readonly { readonly pid: number; readonly name: string }[]
  /** Whether the kernel can be asked for listening sockets without loading a module. */
  readonly canAskSockets: boolean
  readonly inputWarnings: readonly string[]
}

/** One row of the table of checks. */
export interface Check {
  readonly name: string
  /** The objects that the check reads, for the documentation; one clause. */
  readonly looksAt: string
  /** One verdict for each problem, or one that is `ok`. */
  readonly run: (node: Examined) => Promise<readonly Verdict[]>
}

/** kube-apiserver's default --service-node-port-range. */
export const nodePorts = { first: 30_000, last: 32_767 } as const

/** The remedy where this process is not permitted to look. */
export const asRoot = 'Run the doctor as root on the node.'

export const ok = (seen: string): readonly Verdict[] => [{ status: 'ok', seen }]

/** The problems, or `ok` if there are none. */
export function problemsOr(problems: readonly Verdict[], seen: string): readonly Verdict[] {
  return problems.length === 0 ? ok(seen) : problems
}

/** The same for a check that reads parts of the kernel. It is also `unknown` for each part that was not asked. */
export function partProblemsOr(
  { unknownParts }: Pick<Examined, 'unknownParts'>,
  parts: readonly KernelPart[],
  problems: readonly Verdict[],
  seen: string,
): readonly Verdict[] {
  const notAsked = parts
    .filter((part) => unknownParts.includes(part))
    .map((part): Verdict => ({
      status: 'unknown',
      seen: `it is not known whether this kernel has ${part}, which was not asked`,
      ...unknownModules([part]),
    }))
  return problemsOr([...problems, ...notAsked], seen)
}

/** Cause and remedy where it is not known whether the kernel has modules. */
export function unknownModules(modules: readonly string[]): {
  readonly cause: string
  readonly remedy: string
} {
  return {
    cause:
      'The doctor loads no module, and the lists of /lib/modules, which tell what is built in, are not on this file system.',
    remedy: `Mount /lib/modules of the node read-only into the pod, or look on the node: modprobe -n -v -a ${modules.join(' ')} (no output: the kernel has them).`,
  }
}

/** Throws if they cannot be read. */
export async function hasNetAdmin(node: Pick<Examined, 'read'>): Promise<boolean> {
  return await hasOwn(node, 'CAP_NET_ADMIN')
}

/** As `hasNetAdmin`, for any capability. */
export async function hasOwn({ read }: Pick<Examined, 'read'>, capability: Capability): Promise<boolean> {
  const has = hasCapability((await read('/proc/self/status')) ?? '', capability)
  if (has === undefined) throw new Error('/proc/self/status shows no capabilities')
  return has
}

/** Whether another user runs this process than the agent, as far as it shows: neither root nor with CAP_NET_ADMIN. Throws as above. */
export async function isOtherUser(node: Pick<Examined, 'read'>): Promise<boolean> {
  const user = await statusLine(node.read, /^Uid:\s*\d+\s+(?<value>\d+)/mu, 'user')
  return user !== '0' && !(await hasNetAdmin(node))
}

async function statusLine(read: Examined['read'], line: RegExp, what: string): Promise<string> {
  const value = line.exec((await read('/proc/self/status')) ?? '')?.groups?.['value']
  if (value === undefined) throw new Error(`/proc/self/status shows no ${what}`)
  return value
}

// The settings of connection tracking, before anything is programmed (F-073, spec section 2.4).
import { type IpAddress, parseIpAddress } from '../address.js'
import type { ConntrackConfig } from '../config/index.js'
import { BugError, ConfigError, isTransient, KernelError } from '../errors.js'
import { type EventRecorder, nodeReference } from '../event.js'
import type { Conntrack, Sysctl } from '../kernel/index.js'
import type { Log } from '../log.js'
import { ensureSetting, readOrNothing } from './kernel-settings.js'

/** However many CPUs there are. */
const mostConnections = 1_048_576
const connectionsPerBucket = 4
const folder = 'net/netfilter'
/** What the kernel says of a setting that this network namespace may not change, or that its modules do not have. */
const refusals: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOENT'])

interface Setting {
  /** Below net/netfilter. */
  readonly name: string
  /** 0: left alone. */
  readonly value: number
  /** A larger one is as good. */
  readonly isLeast?: boolean
  /** The flag that leaves it alone. */
  readonly off: string
}

export interface ConntrackOptions {
  readonly config: ConntrackConfig
  /** CPUs of the machine. */
  readonly cpus: number
  readonly kernel: { readonly sysctl: Sysctl; readonly conntrack: Conntrack }
  readonly log: Log
  /** Receives what kube-proxy reports of limits that it cannot set. */
  readonly events: EventRecorder
  readonly nodeName: string
  /** Asked when a limit cannot be set. */
  readonly isSysfsReadOnly: () => Promise<boolean>
}

/**
 * Writes what differs. What is not for this network namespace to set is told, and does not stop the agent. Where a limit cannot be
 * set as a file system is read-only, an Event says so. Throws KernelError for a failure that passes, and ConfigError, in
 * kube-proxy's words, for any other one.
 */
export async function setConntrack(options: ConntrackOptions): Promise<void> {
  const { config, cpus } = options
  const max = wantedMax(config, cpus)
  const timeouts = timeoutSettings(config)
  const settings = timeouts.filter(({ value }) => value > 0)
  if (max === 0 && settings.length === 0) return
  await loadConntrack(options)
  if (max > 0) await setLimits(max, options)
  for (const setting of settings) await set(setting, options)
}

function timeoutSettings(config: ConntrackConfig): readonly Setting[] {
  return [
    timeout('tcp_timeout_established', config.tcpEstablishedTimeoutMs, 'tcp-timeout-established'),
    timeout('tcp_timeout_close_wait', config.tcpCloseWaitTimeoutMs, 'tcp-timeout-close-wait'),
    {
      name: 'nf_conntrack_tcp_be_liberal',
      value: config.tcpBeLiberal ? 1 : 0,
      off: '--conntrack-tcp-be-liberal=false',
    },
    timeout('udp_timeout', config.udpTimeoutMs, 'udp-timeout'),
    timeout('udp_timeout_stream', config.udpStreamTimeoutMs, 'udp-timeout-stream'),
  ]
}

function timeout(name: string, ms: number, flag: string): Setting {
  return { name: `nf_conntrack_${name}`, value: Math.floor(ms / 1000), off: `--conntrack-${flag}=0` }
}

/** 0: left alone. The cap goes before the floor, as in kube-proxy. */
function wantedMax({ maxPerCore, min }: ConntrackConfig, cpus: number): number {
  if (maxPerCore === 0) return 0
  const scaled = maxPerCore * cpus
  return scaled > mostConnections ? mostConnections : Math.max(scaled, min)
}

/**
 * The hash is as large for all network namespaces. kube-proxy writes it as the module's parameter `hashsize`, which any of
 * them may; as a setting, the same number is for the initial one alone to write.
 */
async function setLimits(max: number, options: ConntrackOptions): Promise<void> {
  const off = '--conntrack-max-per-core=0'
  const value = Math.floor(max / connectionsPerBucket)
  const refused =
    (await set({ name: 'nf_conntrack_max', value: max, off }, options)) ??
    (value > 0 ? await set({ name: 'nf_conntrack_buckets', value, isLeast: true, off }, options) : undefined)
  if (refused !== undefined) await reportReadOnly(refused, options)
}

/** kube-proxy's Event. Its reason is for machines; kube-proxy writes the hash below /sys alone, and always names that. */
async function reportReadOnly(
  refused: KernelError,
  { events, nodeName, isSysfsReadOnly }: ConntrackOptions,
): Promise<void> {
  const isProcReadOnly = refused.code === 'EROFS'
  if (!isProcReadOnly && !(await isSysfsReadOnly())) return
  const place = isProcReadOnly ? '/proc/sys' : '/sys'
  events.record({
    type: 'Warning',
    reason: 'readOnlySysFS',
    action: 'StartKubeProxy',
    regarding: nodeReference(nodeName),
    note:
      `CRI error: ${place} is read-only: cannot modify conntrack limits, problems may arise later ` +
      '(If running Docker, see docker issue #24000)',
  })
}

/** Resolves with what the kernel says against it where the setting is not ours to set. */
async function set(
  { name, value, isLeast = false, off }: Setting,
  options: ConntrackOptions,
): Promise<KernelError | undefined> {
  const { kernel, log } = options
  const path = `${folder}/${name}`
  const outcome = await ensureSetting({ path, value, isLeast }, { sysctl: kernel.sysctl, log })
  if (!(outcome instanceof KernelError)) return undefined
  if (isTransient(outcome)) throw outcome
  if (!refusals.has(outcome.code)) throw refusal(path, value, outcome, off)
  const remedy = `set it on the node, or use ${off}`
  log.warn(`Kernel setting ${path} should be ${value}, and cannot be set from here: ${remedy}`, {
    setting: path,
    err: outcome,
  })
  return outcome
}

function refusal(path: string, value: number, error: KernelError, off: string): ConfigError {
  const problem = `${path} cannot be ${value} (${error.message}); ${off} leaves it as it is`
  return new ConfigError('', `could not set conntrack parameters from kube-proxy configuration: ${problem}`)
}

/** The kernel loads the module of the table, and with it the settings, when the table is asked; nobody executes modprobe. */
async function loadConntrack({ kernel }: ConntrackOptions): Promise<void> {
  if ((await readOrNothing(kernel.sysctl, `${folder}/nf_conntrack_max`)) !== undefined) return
  try {
    const frontend = { protocol: 'udp', address: documentationAddress(), port: 9, backends: [] } as const
    await kernel.conntrack.deleteStale('ipv4', [frontend], [])
  } catch (error) {
    if (!(error instanceof KernelError) || isTransient(error)) throw error
  }
}

/** TEST-NET-2: no flow has it, and a table that is not there has none. */
function documentationAddress(): IpAddress {
  const address = parseIpAddress('198.51.100.0')
  if (address === undefined) throw new BugError('the probe address does not parse')
  return address
}

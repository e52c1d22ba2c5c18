// The kernel settings of connection tracking, written before the first sync (F-073).
import { type IpAddress, parseIpAddress } from '../address.js'
import type { ConntrackConfig } from '../config/index.js'
import { BugError, ConfigError, isPermanent, isTransient, KernelError, orRefusal } from '../errors.js'
import { type EventRecorder, nodeReference } from '../event.js'
import type { Conntrack, Sysctl } from '../kernel/index.js'
import type { Log } from '../log.js'
import { ensureSetting, readOrNothing } from './kernel-settings.js'

/** kube-proxy's greatest limit, for any number of CPUs. */
const mostConnections = 1_048_576
const connectionsPerBucket = 4
const folder = 'net/netfilter'
/** Errnos of a setting that this network namespace may not change, or that no loaded module has. */
const refusals: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOENT'])

interface Setting {
  /** Below net/netfilter. */
  readonly name: string
  /** 0: the setting is not written. */
  readonly value: number
  /** `value` is a minimum. */
  readonly isLeast?: boolean
  /** The flag that disables the setting. */
  readonly off: string
}

export interface ConntrackOptions {
  readonly config: ConntrackConfig
  /** CPUs of the machine. */
  readonly cpus: number
  readonly kernel: { readonly sysctl: Sysctl; readonly conntrack: Conntrack }
  readonly log: Log
  /** Receives kube-proxy's Event for a limit that cannot be set. */
  readonly events: EventRecorder
  readonly nodeName: string
  /** Called only when a limit cannot be set. */
  readonly isSysfsReadOnly: () => Promise<boolean>
}

/**
 * Writes the settings that differ. A setting that this network namespace may not change gets a warning and does not stop the agent.
 * A limit on a read-only file system also gets an Event. Throws KernelError for a transient failure, and ConfigError, in kube-proxy's
 * words, for any other failure.
 */
export async function setConntrack(options: ConntrackOptions): Promise<void> {
  const { config, cpus } = options
  const max = desiredMax(config, cpus)
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

/** 0: the limit is not written. A scaled value above the maximum ignores the minimum, as in kube-proxy. */
function desiredMax({ maxPerCore, min }: ConntrackConfig, cpus: number): number {
  if (maxPerCore === 0) return 0
  const scaled = maxPerCore * cpus
  return scaled > mostConnections ? mostConnections : Math.max(scaled, min)
}

/**
 * Raises the limit and the hash size. Larger values stay, as in kube-proxy 1.37 (k/k#142035). Only the initial network namespace may
 * write the hash size, which all namespaces share. kube-proxy writes the module parameter `hashsize`, Viaduct the sysctl
 * nf_conntrack_buckets.
 */
async function setLimits(max: number, options: ConntrackOptions): Promise<void> {
  const off = '--conntrack-max-per-core=0'
  const value = Math.floor(max / connectionsPerBucket)
  const refused =
    (await set({ name: 'nf_conntrack_max', value: max, isLeast: true, off }, options)) ??
    (value > 0 ? await set({ name: 'nf_conntrack_buckets', value, isLeast: true, off }, options) : undefined)
  if (refused !== undefined) await reportReadOnly(refused, options)
}

/** Records kube-proxy's Event with its reason. The note names /proc/sys or /sys; kube-proxy's always names /sys. */
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

/** Resolves with the kernel's error if this network namespace may not change the setting. */
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
  const right = isLeast ? `at least ${value}` : `${value}`
  log.warn(`Kernel setting cannot be changed: ${path} should be ${right}; ${remedy}`, {
    setting: path,
    err: outcome,
  })
  return outcome
}

function refusal(path: string, value: number, error: KernelError, off: string): ConfigError {
  const problem = `${path} cannot be ${value} (${error.message}); ${off} leaves it unchanged`
  return new ConfigError('', `could not set conntrack parameters from kube-proxy configuration: ${problem}`)
}

/** Loads the conntrack modules, and so their settings: the kernel loads them on the first request to the table. */
async function loadConntrack({ kernel }: ConntrackOptions): Promise<void> {
  if ((await readOrNothing(kernel.sysctl, `${folder}/nf_conntrack_max`)) !== undefined) return
  const frontend = { protocol: 'udp', address: documentationAddress(), port: 9, backends: [] } as const
  await orRefusal(() => kernel.conntrack.deleteStale('ipv4', [frontend], []), isPermanent)
}

/** An address of TEST-NET-2. No flow uses it, so the request deletes nothing. */
function documentationAddress(): IpAddress {
  const address = parseIpAddress('198.51.100.0')
  if (address === undefined) throw new BugError('the probe address does not parse')
  return address
}

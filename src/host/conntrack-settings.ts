// The kernel settings of connection tracking, written before the first sync (F-073).
import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { type IpAddress, parseIpAddress } from '../address.js'
import type { ConntrackConfig } from '../config/index.js'
import { BugError, ConfigError, isPermanent, isTransient, KernelError, orRefusal } from '../errors.js'
import { type EventRecorder, nodeReference } from '../event.js'
import type { Conntrack, Sysctl } from '../kernel/index.js'
import type { Log } from '../log.js'
import { ensureSetting, type KernelSetting, readOrNothing } from './kernel-settings.js'

/** kube-proxy's greatest limit, for any number of CPUs. */
const mostConnections = 1_048_576
const connectionsPerBucket = 4
const folder = 'net/netfilter'
/** Errnos of a setting that this network namespace may not change, or that no loaded module has. */
const refusals: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOENT'])

interface Setting extends Omit<KernelSetting, 'path'> {
  /** Below net/netfilter. A setting with the value 0 is not written. */
  readonly name: string
  /** The flag that disables the setting. */
  readonly off: string
}

interface ConntrackOptions {
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
  { events, nodeName, isSysfsReadOnly: isReadOnly }: ConntrackOptions,
): Promise<void> {
  const isProcReadOnly = refused.code === 'EROFS'
  if (!isProcReadOnly && !(await isReadOnly())) return
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

/**
 * F-058: whether conntrack finds packets outside the TCP window invalid. With be_liberal it does not, and Viaduct drops no invalid
 * packets. Throws KernelError.
 */
export async function findsInvalid(sysctl: Sysctl): Promise<boolean> {
  const liberal = await sysctl.read('net/netfilter/nf_conntrack_tcp_be_liberal')
  return liberal === undefined || liberal === '0'
}

/** `0-3,8`. */
const ranges = /^\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*$/u

/**
 * The number of the machine's online CPUs, including those that this process may not use. If `file` cannot be read, the number of CPUs
 * that this process may use.
 */
export async function countCpus(file = '/sys/devices/system/cpu/online'): Promise<number> {
  const text = await readFile(file, 'utf8').catch(() => '')
  if (!ranges.test(text.trim())) return availableParallelism()
  let count = 0
  for (const range of text.split(',')) {
    const [first = 0, last = first] = range.split('-').map(Number)
    count += last - first + 1
  }
  return count
}

/**
 * Whether this process's first sysfs mount is read-only, as in some container runtimes. False too if there is no sysfs or `file` cannot
 * be read.
 */
export async function isSysfsReadOnly(file = '/proc/self/mounts'): Promise<boolean> {
  const text = await readFile(file, 'utf8').catch(() => '')
  // proc(5): device, mount point, type, options, and two numbers.
  const mounts = text.split('\n').map((line) => line.split(' '))
  const sysfs = mounts.find(([, , type]) => type === 'sysfs')
  return sysfs?.[3]?.split(',').includes('ro') === true
}

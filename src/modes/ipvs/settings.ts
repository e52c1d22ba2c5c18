// The kernel settings that ipvs mode needs. They are written at the start, and again after another program changed them.
import type { IpvsConfig } from '../../config/index.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Ipvs, IpvsTimeouts, Sysctl } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'
import {
  ensureSetting,
  type KernelSetting,
  type SettingKernel,
  type SettingOutcome,
} from '../../host/index.js'

export interface IpvsSettingsOptions {
  readonly config: Pick<
    IpvsConfig,
    'strictARP' | 'runEstimation' | 'tcpTimeoutSeconds' | 'tcpFinTimeoutSeconds' | 'udpTimeoutSeconds'
  >
  readonly kernel: { readonly ipvs: Ipvs; readonly sysctl: Sysctl }
  readonly log: Log
}

interface Setting extends KernelSetting {
  /** Applies only to kernels before this release: major, minor. */
  readonly before?: readonly [number, number]
  /** The flag that leaves the setting unchanged. */
  readonly off?: string
}

const always: readonly Setting[] = [
  { path: 'net/ipv4/vs/conntrack', value: 1 },
  // Before Linux 5.9 a reused client port waited a second for a new connection unless this was 0 (kubernetes issue 81775). From 5.9
  // on the kernel handles it correctly, and 0 would do harm. The setting itself looks the same in both.
  { path: 'net/ipv4/vs/conn_reuse_mode', value: 0, before: [5, 9] },
  { path: 'net/ipv4/vs/expire_nodest_conn', value: 1 },
  { path: 'net/ipv4/vs/expire_quiescent_template', value: 1 },
  { path: 'net/ipv4/ip_forward', value: 1 },
]
/** F-110: the node does not answer ARP requests for VIPs. */
const strictARP: readonly Setting[] = [
  { path: 'net/ipv4/conf/all/arp_ignore', value: 1, off: '--ipvs-strict-arp=false' },
  { path: 'net/ipv4/conf/all/arp_announce', value: 2, off: '--ipvs-strict-arp=false' },
]

/** A setting that cannot be written is reported once, and the others are still written: another program may own it. */
export class IpvsSettings {
  readonly #options: IpvsSettingsOptions
  readonly #settings: readonly Setting[]
  readonly #problems: StateReporter

  constructor(options: IpvsSettingsOptions) {
    const { config, log } = options
    this.#options = options
    const estimation: readonly Setting[] =
      config.runEstimation === undefined
        ? []
        : [{ path: 'net/ipv4/vs/run_estimation', value: config.runEstimation ? 1 : 0 }]
    this.#settings = [...always, ...(config.strictARP ? strictARP : []), ...estimation]
    this.#problems = new StateReporter({
      log,
      level: 'error',
      problemLine: 'Kernel setting cannot be changed',
      recovery: 'Kernel setting is correct now',
    })
  }

  /** Writes the settings that differ. Resolves with the number of written ones, all time-outs as one; never throws KernelError. */
  async ensure(): Promise<number> {
    const outcomes: SettingOutcome[] = []
    for (const setting of this.#settings) outcomes.push(await this.#ensure(setting))
    outcomes.push(await this.#ensureTimeouts())
    return outcomes.filter((outcome) => outcome === 'written').length
  }

  async #ensure(setting: Setting): Promise<SettingOutcome> {
    const { kernel, log } = this.#options
    const { path, value, before, off } = setting
    const outcome = await ensureWhereNeeded(setting, { sysctl: kernel.sysctl, log })
    const release = before === undefined ? '' : ` before Linux ${before.join('.')}`
    this.#report(outcome, path, (error) => {
      const leave = off === undefined ? '' : `, or use ${off}`
      const remedy =
        error.code === 'ENOENT' ? 'this kernel has no such setting' : `set it on the node${leave}`
      return `${path} should be ${value}${release}: ${remedy}`
    })
    return outcome
  }

  /** F-112: one request sets all three time-outs; 0 keeps the kernel's value. */
  async #ensureTimeouts(): Promise<SettingOutcome> {
    const { config, kernel, log } = this.#options
    const wanted = {
      tcpSeconds: config.tcpTimeoutSeconds,
      tcpFinSeconds: config.tcpFinTimeoutSeconds,
      udpSeconds: config.udpTimeoutSeconds,
    }
    if (Math.max(...Object.values(wanted)) === 0) return 'right'
    const outcome = await ensureTimeouts(wanted, kernel.ipvs, log)
    this.#report(outcome, 'timeouts', () => `time-outs of IPVS should be ${describeTimeouts(wanted)}`)
    return outcome
  }

  #report(outcome: SettingOutcome, key: string, describe: (error: KernelError) => string): void {
    const isRefused = outcome instanceof KernelError
    const problem = isRefused
      ? { text: describe(outcome), fields: { setting: key, err: outcome } }
      : undefined
    this.#problems.report(key, problem)
  }
}

async function ensureWhereNeeded(setting: Setting, kernel: SettingKernel): Promise<SettingOutcome> {
  const { before } = setting
  const isNeeded = before === undefined || (await orRefusal(async () => await isOlder(kernel.sysctl, before)))
  if (isNeeded instanceof KernelError) return isNeeded
  return isNeeded ? await ensureSetting(setting, kernel) : 'right'
}

async function ensureTimeouts(wanted: IpvsTimeouts, ipvs: Ipvs, log: Log): Promise<SettingOutcome> {
  return await orRefusal(async () => {
    const present = await ipvs.timeouts()
    if (hasTimeouts(present, wanted)) return 'right'
    await ipvs.setTimeouts(wanted)
    log.info('Time-outs of IPVS changed', { from: present, to: await ipvs.timeouts() })
    return 'written'
  })
}

function hasTimeouts(present: IpvsTimeouts, wanted: IpvsTimeouts): boolean {
  const keys = ['tcpSeconds', 'tcpFinSeconds', 'udpSeconds'] as const
  return keys.every((key) => wanted[key] === 0 || wanted[key] === present[key])
}

function describeTimeouts({ tcpSeconds, tcpFinSeconds, udpSeconds }: IpvsTimeouts): string {
  const parts = [
    ['TCP', tcpSeconds],
    ['TCP after a FIN', tcpFinSeconds],
    ['UDP', udpSeconds],
  ] as const
  return parts
    .filter(([, seconds]) => seconds > 0)
    .map(([name, seconds]) => `${seconds} s for ${name}`)
    .join(', ')
}

async function isOlder(sysctl: Sysctl, [major, minor]: readonly [number, number]): Promise<boolean> {
  const release = ((await sysctl.read('kernel/osrelease')) ?? '').split('.')
  const [ownMajor = 0, ownMinor = 0] = release.map((part) => parseInt(part, 10))
  return ownMajor < major || (ownMajor === major && ownMinor < minor)
}

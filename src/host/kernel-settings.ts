// Kernel settings (sysctls). The agent writes those that differ. Callers report those that cannot be written.
import { KernelError, orRefusal } from '../errors.js'
import type { Sysctl } from '../kernel/index.js'
import type { Log } from '../log.js'

export interface KernelSetting {
  /** Below /proc/sys. */
  readonly path: string
  readonly value: number
  /** `value` is a minimum. */
  readonly isLeast?: boolean
}

export interface SettingKernel {
  readonly sysctl: Sysctl
  readonly log: Log
}

/** The result for one setting: `right` (nothing was written), `written`, or the kernel's error. */
export type SettingOutcome = 'right' | 'written' | KernelError

/** Writes the setting if its value differs, or is below a minimum, and logs the change. Never throws KernelError. */
export async function ensureSetting(
  { path, value, isLeast }: KernelSetting,
  { sysctl, log }: SettingKernel,
): Promise<SettingOutcome> {
  return await orRefusal(async () => {
    const present = await readOrNothing(sysctl, path)
    const isRight = isLeast === true ? Number(present) >= value : present === String(value)
    if (isRight) return 'right'
    await sysctl.write(path, String(value))
    log.info('Kernel setting changed', { setting: path, from: present, to: String(value) })
    return 'written'
  })
}

/** undefined: the setting does not exist or cannot be read. */
export async function readOrNothing(sysctl: Sysctl, path: string): Promise<string | undefined> {
  const present = await orRefusal(() => sysctl.read(path))
  return present instanceof KernelError ? undefined : present
}

/**
 * Lets packets from and to 127.0.0.0/8 leave and enter the machine (F-064). While it is set, a neighbour reaches the node's programs on
 * 127.0.0.1, unless a rule drops its packets (CVE-2020-8558).
 */
const localnet = 'net/ipv4/conf/all/route_localnet'

/**
 * Every value but 0 sets it (net/ipv4/devinet.c: a plain integer). Administrators and kube-proxy write 1, so this value shows, for as
 * long as the network namespace has the setting, that Viaduct wrote it.
 */
const ownValue = 2

interface Node {
  readonly kernel: { readonly sysctl: Sysctl }
  readonly log: Log
}

/**
 * Sets it if it is 0. NB: the caller has written the guard, the rule of KUBE-FIREWALL that drops the packets of neighbours. Logs a
 * refusal of the kernel.
 */
export async function routeLocalnet({ kernel, log }: Node): Promise<void> {
  const present = await readOrNothing(kernel.sysctl, localnet)
  if (present !== undefined && Number(present) !== 0) return
  const outcome = await ensureSetting({ path: localnet, value: ownValue }, { sysctl: kernel.sysctl, log })
  if (!(outcome instanceof KernelError)) return
  const remedy = 'set it on the node, or use --iptables-localhost-nodeports=false'
  log.error(`Kernel setting cannot be changed: ${localnet} should be 1; ${remedy}`, {
    setting: localnet,
    err: outcome,
  })
}

/**
 * Sets it to 0 if Viaduct had set it. The guard stays: kubelet has it too. Resolves with the kernel's refusal, or with undefined if the
 * setting is right. Never throws KernelError.
 */
export async function takeBackLocalnet({ kernel, log }: Node): Promise<KernelError | undefined> {
  if ((await readOrNothing(kernel.sysctl, localnet)) !== String(ownValue)) return undefined
  const outcome = await ensureSetting({ path: localnet, value: 0 }, { sysctl: kernel.sysctl, log })
  return outcome instanceof KernelError ? outcome : undefined
}

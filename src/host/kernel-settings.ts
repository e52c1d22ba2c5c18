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

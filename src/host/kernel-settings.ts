// Kernel settings (sysctls): written when they differ, and told when they cannot be.
import { KernelError } from '../errors.js'
import type { Sysctl } from '../kernel/index.js'
import type { Log } from '../log.js'

export interface KernelSetting {
  /** Below /proc/sys. */
  readonly path: string
  readonly value: number
  /** A larger one is as good. */
  readonly isLeast?: boolean
}

export interface SettingDoors {
  readonly sysctl: Sysctl
  readonly log: Log
}

/** What became of a setting: it was as wanted, it is now, or what the kernel says against it. */
export type SettingOutcome = 'right' | 'written' | KernelError

/** Writes the setting if it is another. */
export async function ensureSetting(
  { path, value, isLeast }: KernelSetting,
  { sysctl, log }: SettingDoors,
): Promise<SettingOutcome> {
  try {
    const present = await readOrNothing(sysctl, path)
    const isInOrder = isLeast === true ? Number(present) >= value : present === String(value)
    if (isInOrder) return 'right'
    await sysctl.write(path, String(value))
    log.info('Kernel setting changed', { setting: path, from: present, to: String(value) })
    return 'written'
  } catch (error) {
    if (error instanceof KernelError) return error
    throw error
  }
}

/** What cannot be read, or does not exist, counts as different: undefined. */
export async function readOrNothing(sysctl: Sysctl, path: string): Promise<string | undefined> {
  try {
    return await sysctl.read(path)
  } catch (error) {
    if (error instanceof KernelError) return undefined
    throw error
  }
}

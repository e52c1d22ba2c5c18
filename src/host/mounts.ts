import { readFile } from 'node:fs/promises'

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

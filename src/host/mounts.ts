import { readFile } from 'node:fs/promises'

/**
 * Whether sysfs, as this process sees it, is mounted read-only, as some container runtimes do. The first sysfs in `file` counts. False
 * where there is none, or the file cannot be read.
 */
export async function isSysfsReadOnly(file = '/proc/self/mounts'): Promise<boolean> {
  const text = await readFile(file, 'utf8').catch(() => '')
  // proc(5): device, mount point, type, options, and two numbers.
  const mounts = text.split('\n').map((line) => line.split(' '))
  const sysfs = mounts.find(([, , type]) => type === 'sysfs')
  return sysfs?.[3]?.split(',').includes('ro') === true
}

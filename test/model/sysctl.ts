import { constants } from 'node:os'
import { KernelError } from '../../src/errors.js'
import type { Sysctl } from '../../src/kernel/system/sysctl.js'

/** Sysctl in memory: numeric settings, and the number of writes. */
export class ModelSysctl implements Sysctl {
  /** Values by path. */
  readonly values: Map<string, string>
  writes = 0
  /** Injects faults: called before each write, returns the errno of the refusal. */
  fault: (path: string) => number | undefined = () => undefined

  constructor(values: Readonly<Record<string, string>>) {
    this.values = new Map(Object.entries(values))
  }

  async read(path: string): Promise<string | undefined> {
    return this.values.get(path)
  }

  async write(path: string, value: string): Promise<void> {
    this.writes++
    const { ENOENT, EINVAL } = constants.errno
    const errno = this.fault(path) ?? (this.values.has(path) ? (/^-?\d+$/.test(value) ? 0 : EINVAL) : ENOENT)
    if (errno !== 0) throw new KernelError({ errno, subsystem: 'sysctl', operation: 'write', object: path })
    this.values.set(path, value)
  }
}

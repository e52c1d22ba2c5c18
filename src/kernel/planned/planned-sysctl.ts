import { closeSync, constants as fileConstants, openSync } from 'node:fs'
import { join } from 'node:path'
import { toSysctlError, type Sysctl } from '../system/sysctl.js'

/** Settings of modules that a start loads before it writes them. */
const loadedLater = /^net\/(?:netfilter\/nf_conntrack_|ipv4\/vs\/)/u

/** The settings of this kernel, with the planned values. */
export class PlannedSysctl implements Sysctl {
  readonly #real: Sysctl
  readonly #root: string
  readonly #planned = new Map<string, string>()

  /** `root`: /proc/sys. */
  constructor(real: Sysctl, root: string) {
    this.#real = real
    this.#root = root
  }

  async read(path: string): Promise<string | undefined> {
    return this.#planned.get(path) ?? (await this.#real.read(path))
  }

  /** Throws as a write, except EINVAL for a value that the kernel does not take. */
  async write(path: string, value: string): Promise<void> {
    if (!loadedLater.test(path) || (await this.#real.read(path)) !== undefined) this.#checkWritable(path)
    this.#planned.set(path, value)
  }

  /** An open file without a write changes nothing. */
  #checkWritable(path: string): void {
    try {
      closeSync(openSync(join(this.#root, path), fileConstants.O_WRONLY))
    } catch (error) {
      throw toSysctlError(error, 'write', path)
    }
  }
}

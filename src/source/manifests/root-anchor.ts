import { basename, dirname, resolve } from 'node:path'
import type { FileSystem } from './file-system.js'

/**
 * Notices when a folder is created, deleted, renamed or re-linked. It watches the nearest existing directory above the folder and, if
 * symbolic links lead to the folder, the nearest one above its real path.
 */
export class RootAnchor {
  readonly #root: string
  readonly #fileSystem: FileSystem
  readonly #moved: () => void
  #closers: (() => void)[] = []
  #realRoot: string

  constructor(root: string, fileSystem: FileSystem, moved: () => void) {
    this.#root = resolve(root)
    this.#fileSystem = fileSystem
    this.#moved = moved
    this.#realRoot = this.#root
  }

  /** Replaces the watches. Callers call it before each look at the folder, because the directories above may have been replaced. */
  renew(): void {
    this.close()
    this.#realRoot = this.#fileSystem.realPath(this.#root) ?? this.#realRoot
    this.#watchAbove(this.#root)
    if (this.#realRoot !== this.#root) this.#watchAbove(this.#realRoot)
  }

  close(): void {
    for (const close of this.#closers) close()
    this.#closers = []
  }

  #watchAbove(path: string): void {
    let child = path
    for (let parent = dirname(child); ; child = parent, parent = dirname(parent)) {
      const close = this.#watch(parent, basename(child))
      if (close === undefined && parent !== child) continue
      if (close !== undefined) this.#closers.push(close)
      return
    }
  }

  #watch(directory: string, child: string): (() => void) | undefined {
    return this.#fileSystem.watch(directory, {
      changed: (name) => {
        // inotify names the directory itself when it is deleted or renamed.
        if (name === undefined || name === child || name === basename(directory)) this.#moved()
      },
      failed: () => this.#moved(),
    })
  }
}

import { KernelError } from '../../errors.js'
import type { ModeWatch } from '../../engine/index.js'
import type { NftChange, Nftables, NftWatch } from '../../kernel/index.js'
import type { Log } from '../../log.js'

/** A pipeline whose table is watched. */
export interface WatchedTable {
  /** Resolves when a first sync has succeeded, or when the first one with all objects has ended. */
  readonly firstSync: Promise<void>
  /** Changes of other programs. Returns whether a run is needed. */
  noteChanges(changes: readonly NftChange[]): boolean
  /** The watch began, or ended: the next run compares everything. */
  noteWatch(): void
}

export interface NftModeWatchOptions {
  readonly nftables: Pick<Nftables, 'watch'>
  /** One per family. */
  readonly tables: readonly WatchedTable[]
  readonly log: Log
}

/**
 * Watches the tables of all families. It opens after the first syncs: the kernel sends an event for each element, and a large first
 * sync would overrun the watch. Without a watch, runs compare the tables once a sync period.
 */
export class NftModeWatch implements ModeWatch {
  readonly #options: NftModeWatchOptions
  readonly #closed: Promise<void>
  #endWait = (): void => {}
  #watch: NftWatch | undefined
  #isClosed = false

  constructor(options: NftModeWatchOptions) {
    this.#options = options
    this.#closed = new Promise((resolve) => {
      this.#endWait = resolve
    })
  }

  async next(): Promise<boolean> {
    const { tables, log } = this.#options
    try {
      if (this.#watch === undefined) return await this.#open()
      for (;;) {
        const changes = await this.#watch.next()
        if (changes === undefined) return false
        const concerned = tables.filter((table) => table.noteChanges(changes))
        if (concerned.length > 0) return true
      }
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      for (const table of tables) table.noteWatch()
      log.warn('nf_tables cannot be watched: the tables are compared once a sync period instead', {
        err: error,
      })
      return false
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#endWait()
    await this.#watch?.close()
  }

  async #open(): Promise<boolean> {
    const { nftables, tables } = this.#options
    await Promise.race([this.#closed, Promise.all(tables.map(({ firstSync }) => firstSync))])
    if (this.#isClosed) return false
    this.#watch = nftables.watch()
    for (const table of tables) table.noteWatch()
    return true
  }
}

import type { VirtualServerKey } from '../ipvs/ipvs.js'

/** What is cheap to ask, again and again. */
export interface KernelLook {
  /**
   * Bytes that mean nothing by themselves; equal ones: nothing was added to or taken from the tables nat, mangle and filter of
   * its families or the IPv4 virtual servers (the kernel counts no others). Who asks while another one is answered gets the same
   * answer, which may be older than his question by that much. Throws KernelError only where no socket can be opened.
   * NB: asks for all three tables of each family, which makes those that are not there.
   */
  take(): Promise<Uint8Array>
  /** Also of sets whose names begin so. Throws KernelError where no socket can be opened. */
  watch(setPrefix: string): LookWatch
  /** Of the tables nat and filter alone. Throws KernelError where no socket can be opened. */
  watchTables(): LookWatch
  /** Waits for the call in flight, and closes the watches; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}

/** How often a watch looks. */
export interface LookPace {
  /** Milliseconds between two looks. */
  readonly periodMs: number
  /** A call of `next` without a finding ends after so many milliseconds: its caller may choose another sample. */
  readonly longestWaitMs: number
  /** Reading the sets takes at most one part in so many of the time: the kernel counts their entries one by one. */
  readonly setsShare: number
}

/** The pace of the agent. */
export const lookPace: LookPace = { periodMs: 1000, longestWaitMs: 10_000, setsShare: 500 }

/** What a look of a watch found. */
export interface LookFinding {
  /**
   * What `take` sees, a set or its number of entries, or one of the virtual servers with its real servers, is not what it was at the
   * look before.
   */
  readonly isOther: boolean
  /** Another program let go of the lock of the iptables tools: it may have changed anything in any table. */
  readonly isUnlocked: boolean
}

/** Looks once a second while somebody waits, and wakes nobody while there is nothing to tell. */
export interface LookWatch {
  /**
   * Resolves as soon as a look finds something; with nothing found after some seconds; with undefined after `close()`. Sets are looked
   * at every few seconds, where they are so large that counting takes time. What is looked at goes on from call to call; so do the
   * virtual servers of `sample` while they are the same ones in the same order. Takes of the lock by this process do not count, and
   * nothing is found about a lock whose file cannot be watched.
   */
  next(sample: readonly VirtualServerKey[]): Promise<LookFinding | undefined>
  close(): Promise<void>
}

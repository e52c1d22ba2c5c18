import type { VirtualServerKey } from './ipvs.js'

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

/** Looks once a second while somebody waits, and wakes nobody while all is as it was. */
export interface LookWatch {
  /**
   * Resolves with true as soon as what `take` sees, a set or its number of entries, or one of these virtual servers with its real
   * servers, is not what it was a second before (sets: some seconds, where they are so large that counting takes time); with false
   * after some seconds without that; with undefined after `close()`. What is looked at goes on from call to call; so do the virtual
   * servers while they are the same ones in the same order.
   */
  next(sample: readonly VirtualServerKey[]): Promise<boolean | undefined>
  close(): Promise<void>
}

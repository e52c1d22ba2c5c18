/** What is cheap to ask, once a second for ever. */
export interface KernelLook {
  /**
   * Bytes that mean nothing by themselves; equal ones: nothing was added to or taken from the tables nat, mangle and filter of
   * the family or the IPv4 virtual servers (the kernel counts no others). Throws KernelError only where no socket can be opened.
   * NB: asks for all three tables, which makes those that are not there.
   */
  take(): Promise<Uint8Array>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}

/** What is cheap to ask, once a second for ever. */
export interface KernelLook {
  /**
   * Bytes that mean nothing by themselves; equal ones: nothing was added to or taken from the tables nat, mangle and filter of
   * its families or the IPv4 virtual servers (the kernel counts no others). Who asks while another one is answered gets the same
   * answer, which may be older than his question by that much. Throws KernelError only where no socket can be opened.
   * NB: asks for all three tables of each family, which makes those that are not there.
   */
  take(): Promise<Uint8Array>
  /** Waits for the call in flight; afterwards every call throws KernelError EBADF. Idempotent. */
  close(): Promise<void>
}

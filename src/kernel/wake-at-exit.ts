/**
 * Ends the wait of `waiting` when the process exits. Node waits for its thread pool before it runs cleanup hooks, so no hook could
 * end the wait. The returned function cancels this.
 */
export function wakeAtExit(waiting: { close(): Promise<void> }): () => void {
  const wake = (): void => void waiting.close()
  process.once('exit', wake)
  return () => process.off('exit', wake)
}

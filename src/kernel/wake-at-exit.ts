/**
 * Ends the wait of `waiting` when the process exits: Node waits for its pool before it runs any hook that could. The result
 * takes that back.
 */
export function wakeAtExit(waiting: { close(): Promise<void> }): () => void {
  const wake = (): void => void waiting.close()
  process.once('exit', wake)
  return () => process.off('exit', wake)
}

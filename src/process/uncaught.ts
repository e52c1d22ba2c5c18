/**
 * Rejects with the first error that nobody caught, of a promise or not, so that the process can end in order; the next one ends it
 * at once, as Node does by itself. Nobody need wait for it.
 */
export function uncaughtError(): Promise<never> {
  const uncaught = new Promise<never>((_resolve, reject) => process.once('uncaughtException', reject))
  uncaught.catch(() => undefined)
  return uncaught
}

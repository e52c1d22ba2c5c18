import type { Program } from './processes.js'

/**
 * Reads at once, and again after each sync that the agent logs (at -v 2 and above), until a value fits. Throws with the agent's output
 * if the agent ends before that.
 */
export async function afterSyncs<T>(
  agent: Program,
  read: () => Promise<T>,
  fits: (value: T) => boolean,
): Promise<void> {
  for (;;) {
    const from = agent.lines.length
    if (fits(await read())) return
    await agent.line((line) => line.includes('"Sync done"'), from)
  }
}

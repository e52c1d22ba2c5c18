/** Timers and a clock that never goes back. */
export interface Timers {
  /** Milliseconds. */
  now(): number
  /** Calls `run` once; returns what cancels it. */
  after(delayMs: number, run: () => void): () => void
}

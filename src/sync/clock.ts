/** Time, as far as this room needs it; tests bring their own. */
export interface Clock {
  /** Milliseconds since some moment; never goes back. */
  now(): number
  /** Seconds since 1970, for time stamps only. */
  unixSeconds(): number
  /** Calls `wake` once after `delayMs`, unless the returned function is called before. */
  schedule(delayMs: number, wake: () => void): () => void
  /** Resolves when other work that is due has had its turn. */
  pause(): Promise<void>
}

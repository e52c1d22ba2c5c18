// How readily the kernel kills this process when memory is short (F-106): oom_score_adj of proc(5).
import { writeFileSync } from 'node:fs'
import type { Log } from '../log.js'

export interface OomScoreOptions {
  /** -1000 (never) to 1000. */
  readonly score: number
  /** Default: the file of this process. */
  readonly path?: string
  /** Calls `wake` once. */
  readonly after: (delayMs: number, wake: () => void) => unknown
  readonly log: Log
}

const attempts = 2
const pauseMs = 100

/** Tries twice. A process without CAP_SYS_RESOURCE may not lower its score; it runs on, and a debug line reports this. */
export function setOomScore(options: OomScoreOptions, left = attempts): void {
  const { score, path = '/proc/self/oom_score_adj', after, log } = options
  try {
    writeFileSync(path, String(score))
  } catch (error) {
    if (left > 1) after(pauseMs, () => setOomScore(options, left - 1))
    else log.debug('OOM score not set', { file: path, score, err: error })
  }
}

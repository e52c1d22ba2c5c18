// The OOM score of this process (F-106): oom_score_adj in proc(5). The kernel ends processes with a high score first.
import { writeFileSync } from 'node:fs'
import type { Clock } from '../clock.js'
import type { Log } from '../log.js'

export interface OomScoreOptions {
  /** -1000 (never) to 1000. */
  readonly score: number
  /** Default: the file of this process. */
  readonly path?: string
  readonly clock: Pick<Clock, 'schedule'>
  readonly log: Log
}

const attempts = 2
const pauseMs = 100

/** Writes the score, with two attempts. Failure is only a debug line: the agent also works without CAP_SYS_RESOURCE. */
export function setOomScore(options: OomScoreOptions, left = attempts): void {
  const { score, path = '/proc/self/oom_score_adj', clock, log } = options
  try {
    writeFileSync(path, String(score))
  } catch (error) {
    if (left > 1) clock.schedule(pauseMs, () => setOomScore(options, left - 1))
    else log.debug('OOM score cannot be set', { file: path, score, err: error })
  }
}

// How willingly the kernel ends this process when memory is short (F-106): oom_score_adj of proc(5).
import { writeFileSync } from 'node:fs'
import type { Clock } from '../clock.js'
import type { Log } from '../log.js'

export interface OomScoreOptions {
  /** -1000 (never) to 1000. */
  readonly score: number
  /** Default: this process's own. */
  readonly path?: string
  readonly clock: Pick<Clock, 'schedule'>
  readonly log: Log
}

const attempts = 2
const pauseMs = 100

/** Tries it twice. A process that may not lower its score (CAP_SYS_RESOURCE) works as well: the log says so for whoever looks. */
export function setOomScore(options: OomScoreOptions, left = attempts): void {
  const { score, path = '/proc/self/oom_score_adj', clock, log } = options
  try {
    writeFileSync(path, String(score))
  } catch (error) {
    if (left > 1) clock.schedule(pauseMs, () => setOomScore(options, left - 1))
    else log.debug('The OOM score cannot be set', { file: path, score, err: error })
  }
}

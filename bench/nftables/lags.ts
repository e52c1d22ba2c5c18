// Changes of innocent Services, one by one, without waiting for their effect.
import { setTimeout as sleep } from 'node:timers/promises'
import type { ApiStage, Run } from '../api/stage.js'
import { millisecondsBetween, spread, type Spread } from '../stage/figures.js'

/** At most so long a change is waited for; a longer lag counts as this one. */
export const lagLimitMs = 60_000

/** Times from the event to the first connection that shows it. */
export interface Lag extends Spread {
  readonly changes: number
  /** Not in force within the limit. */
  readonly late: number
}

/** The lags of one change every `everyMs`. Resolves when the last one is in force, at most `lagLimitMs` later. */
export async function lagOf(
  { api, prober }: Pick<ApiStage<Run>, 'api' | 'prober'>,
  { seconds, everyMs }: { readonly seconds: number; readonly everyMs: number },
): Promise<Lag> {
  const lags: Promise<number | undefined>[] = []
  const start = performance.now()
  for (let i = 0; i < (seconds * 1000) / everyMs; i++) {
    await sleep(Math.max(0, start + i * everyMs - performance.now()))
    const { vip, endpoint, sentNs } = await api.send('change')
    const seen = prober.answeredWithin(lagLimitMs, { address: vip, port: 80, expected: endpoint })
    lags.push(seen.then((seenNs) => (seenNs === undefined ? undefined : millisecondsBetween(sentNs, seenNs))))
  }
  const all = await Promise.all(lags)
  const late = all.filter((ms) => ms === undefined).length
  return { changes: all.length, late, ...spread(all.map((ms) => ms ?? lagLimitMs)) }
}

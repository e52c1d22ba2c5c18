// Issue 43, C2: what an outage of 60 s and its end look like to the API server of a fleet.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LinkRetry } from '../../../../src/source/kubernetes/link-retry.js'
import { Outage } from '../../../../src/source/kubernetes/outage.js'
import { HandClock } from '../../../support/kubernetes-lab.js'

const agents = 200
const links = 4
const awayMs = 60_000

/** The random generator of Numerical Recipes: the same numbers in each run. */
function seeded(seed: number): () => number {
  let state = seed
  return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32
}

/** Times of the attempts of one agent, in milliseconds from the moment at which its server goes away. The last one finds the server. */
async function attemptsOf(seed: number): Promise<readonly number[]> {
  const clock = new HandClock(() => undefined)
  const random = seeded(seed)
  const outage = new Outage({ clock, random })
  const end = new AbortController()
  const attempts: number[] = []
  const isBack = (): boolean => (attempts.at(-1) ?? 0) >= awayMs
  const link = async (): Promise<void> => {
    const retry = new LinkRetry({ outage, clock, random, signal: end.signal })
    while (!end.signal.aborted) {
      await retry.wait('away', 0)
      attempts.push(clock.now())
    }
  }
  const runs = Array.from({ length: links }, link)
  while (!isBack()) {
    clock.fireNext()
    await new Promise((resolve) => setImmediate(resolve))
  }
  const found = [...attempts]
  end.abort()
  await Promise.all(runs)
  return found
}

describe('a fleet whose API server is away for 60 s', () => {
  it('tries seldom, finds it within 10 s, and not all in the same seconds', async () => {
    const fleet = await Promise.all(Array.from({ length: agents }, (_, agent) => attemptsOf(agent + 1)))
    for (const attempts of fleet) {
      const inMinute = attempts.filter((at) => at < awayMs).length
      assert.ok(inMinute <= 20, `${inMinute} attempts in a minute`)
      assert.ok((attempts.at(-1) ?? 0) <= awayMs + 9000, `found after ${attempts.at(-1)} ms`)
    }
    const perSecond = new Map<number, number>()
    for (const attempts of fleet) {
      const second = Math.floor((attempts.at(-1) ?? 0) / 1000)
      perSecond.set(second, (perSecond.get(second) ?? 0) + 1)
    }
    const most = Math.max(...perSecond.values())
    assert.ok(most <= agents / 4, `${most} of ${agents} agents in one second`)
  })
})

describe('an outage after another one whose end no link reported', () => {
  it('begins with short times again', () => {
    const clock = new HandClock(() => undefined)
    const outage = new Outage({ clock, random: () => 0 })
    assert.equal(outage.takeTurn(), 1000)
    clock.pass(3_600_000)
    assert.equal(outage.takeTurn(), 1000)
  })
})

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
    const retry = new LinkRetry({ outage, isUrgent: true, clock, random, signal: end.signal })
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

/** Lets four links wait in an outage of 60 s, two of them urgent. Returns the time of each after the first one had its answer. */
function wakeTimes(
  outage: Outage,
  clock: HandClock,
): { readonly urgent: number[]; readonly later: number[] } {
  const times = { urgent: new Array<number>(), later: new Array<number>() }
  outage.takeTurn()
  clock.pass(awayMs)
  for (const name of ['urgent', 'later'] as const)
    for (let i = 0; i < 2; i++) outage.onEnd((delayMs) => times[name].push(delayMs), name === 'urgent')
  outage.end()
  return times
}

/** The random number of the longest times. */
const longest = (): number => 1

describe('the end of a long outage', () => {
  // Before, the second answer woke all links that still waited, at once.
  it('wakes each link once, first Services and EndpointSlices, each at a time of its own', () => {
    const clock = new HandClock(() => undefined)
    const outage = new Outage({ clock, random: seeded(1) })
    const { urgent, later } = wakeTimes(outage, clock)
    outage.end()
    assert.deepEqual([urgent.length, later.length], [2, 2])
    assert.ok(
      urgent.every((ms) => ms >= 500 && ms < 1500),
      String(urgent),
    )
    assert.ok(
      later.every((ms) => ms >= 1800 && ms < 6000),
      String(later),
    )
  })

  it('delays lists after a lost version for ten seconds', () => {
    const clock = new HandClock(() => undefined)
    const outage = new Outage({ clock, random: () => 0.5 })
    assert.equal(outage.relistDelay(), 0)
    wakeTimes(outage, clock)
    assert.equal(outage.relistDelay(), 600)
    clock.pass(10_001)
    assert.equal(outage.relistDelay(), 0)
  })

  // Before, the longest times were 9.8 s, and the list and the sync of a large cluster came on top.
  it('leaves half a second of ten for the list and the sync, also with the longest random times', async () => {
    const clock = new HandClock(() => undefined)
    const outage = new Outage({ clock, random: longest })
    let turnMs = 0
    while (clock.now() < awayMs) {
      turnMs = outage.takeTurn()
      clock.pass(turnMs)
    }
    const wakes: number[] = []
    outage.onEnd((delayMs) => wakes.push(delayMs), true)
    outage.end()
    const { signal } = new AbortController()
    const retry = new LinkRetry({ outage, isUrgent: true, clock, random: longest, signal })
    const beganMs = clock.now()
    const waiting = retry.wait('relist', 0)
    clock.fireNext()
    await waiting
    const longestMs = turnMs + Math.max(...wakes) + clock.now() - beganMs
    assert.ok(longestMs <= 9500, `${longestMs} ms`)
  })

  // Before, the timer of such a link began again.
  it('does not postpone a link whose turn comes sooner', async () => {
    const clock = new HandClock(() => undefined)
    const outage = new Outage({ clock, random: () => 0 })
    const { signal } = new AbortController()
    const retry = new LinkRetry({ outage, isUrgent: false, clock, random: () => 0, signal })
    outage.takeTurn()
    clock.pass(25_000)
    const waiting = retry.wait('away', 0)
    const dueMs = clock.nextMs ?? 0
    clock.pass(dueMs - clock.now() - 100)
    outage.end()
    assert.equal(clock.nextMs, dueMs)
    clock.fireNext()
    await waiting
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

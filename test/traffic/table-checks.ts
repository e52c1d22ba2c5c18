// Tests whether a check of the traffic table holds. A check that does not hold returns a sentence with what was seen instead.
import { randomInt } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { ProbeOutcome, Prober } from '../support/probes.js'
import {
  type AffinityCheck,
  type AskCheck,
  type Check,
  describeCheck,
  describeExpectation,
  type Expectation,
  type ExpiryCheck,
  type FlowCheck,
  type HttpCheck,
  sourceSeen,
  type StrayCheck,
} from './table/case.js'
import type { Place } from './table/world.js'

export interface Probers {
  prober(place: Place): Probes
}

/** The operations of a prober that the checks need. */
type Probes = Pick<Prober, 'probe' | 'ask' | 'stray' | 'exchange'>

export interface Patience {
  /** How long silence must last to count as dropped. */
  readonly silenceMs: number
  /** How long an answer may take; met by broken runs only. */
  readonly answerMs: number
}

/** Chances that one of n servers, chosen at random, is still missing after this many rounds of n: below one in a million. */
const roundsPerServer = 20
/** More than enough for a client without affinity to meet another of several servers. */
const affinityRounds = 12

/** undefined: it holds; else one line that names the check, what was expected and what was seen. */
export async function failureOf(
  probers: Probers,
  check: Check,
  patience: Patience,
): Promise<string | undefined> {
  const problem = await problemOf(probers, check, patience)
  return problem === undefined ? undefined : `${describeCheck(check)}: ${problem}`
}

function problemOf(probers: Probers, check: Check, patience: Patience): Promise<string | undefined> {
  switch (check.kind) {
    case 'flow':
      return flowProblem(probers.prober(check.from), check, patience)
    case 'ask':
      return askProblem(probers.prober(check.from), check, patience)
    case 'affinity':
      return affinityProblem(probers.prober(check.from), check, patience)
    case 'expiry':
      return expiryProblem(probers.prober(check.from), check, patience)
    case 'stray':
      return strayProblem(probers.prober(check.from), check, patience)
    case 'http':
      return httpProblem(probers.prober(check.from), check, patience)
  }
}

function limitOf({ expect }: FlowCheck | AskCheck, { silenceMs, answerMs }: Patience): number {
  return expect.kind === 'dropped' ? silenceMs : answerMs
}

async function flowProblem(
  prober: Probes,
  check: FlowCheck,
  patience: Patience,
): Promise<string | undefined> {
  const { expect } = check
  const target = { ...check.to, ...check.source }
  const missing = new Set(expect.kind === 'answer' ? expect.by : [])
  const round = Math.max(1, missing.size)
  const tries = Math.max(1, missing.size * roundsPerServer)
  for (let count = 1; count <= tries; count++) {
    const started = performance.now()
    const outcome = await prober.probe(target, limitOf(check, patience))
    const problem = outcomeProblem(check, outcome)
    if (problem !== undefined) return problem
    if (outcome.kind === 'answer') missing.delete(outcome.by)
    if (missing.size === 0 && count >= Math.min(tries, 2)) return undefined
    if (missing.size > 0 && count % round === 0) await loseStep(performance.now() - started)
  }
  return missing.size === 0
    ? undefined
    : `expected ${describeExpectation(expect)}; in ${tries} connections never ${[...missing].join(', ')}`
}

/**
 * Pauses for a random time of up to two probes. A server that chooses in turns (IPVS round robin) may be shared by two checks that run
 * side by side. While they take turns too, each of them always meets the same of two servers.
 */
async function loseStep(probeMs: number): Promise<void> {
  const pauseMs = randomInt(2 + Math.floor(2 * probeMs))
  if (pauseMs > 0) await pause(pauseMs)
}

async function askProblem(prober: Probes, check: AskCheck, patience: Patience): Promise<string | undefined> {
  const outcome = await prober.ask(check.session, { ...check.to, ...check.source }, limitOf(check, patience))
  return outcomeProblem(check, outcome)
}

function outcomeProblem(check: FlowCheck | AskCheck, outcome: ProbeOutcome): string | undefined {
  const { expect } = check
  const expected = `expected ${describeExpectation(expect)}`
  if (kindOf(outcome) !== expect.kind) return `${expected}; saw ${describeOutcome(outcome)}`
  if (expect.kind !== 'answer' || outcome.kind !== 'answer') return undefined
  if (!expect.by.includes(outcome.by)) return `${expected}; saw ${describeOutcome(outcome)}`
  const [address = ''] = outcome.by.split(' ')
  const source = sourceSeen({ ...check, sees: expect.sees }, address)
  return outcome.sees === source ? undefined : `${expected} (${source}); saw ${describeOutcome(outcome)}`
}

function kindOf(outcome: ProbeOutcome): Expectation['kind'] | 'error' {
  return outcome.kind === 'error' && outcome.code === 'ECONNRESET' ? 'reset' : outcome.kind
}

function describeOutcome(outcome: ProbeOutcome): string {
  if (outcome.kind === 'answer') return `an answer by ${outcome.by} that sees ${outcome.sees}`
  return outcome.kind === 'error' ? `error ${outcome.code}` : outcome.kind
}

async function affinityProblem(
  prober: Probes,
  { to, by }: AffinityCheck,
  { answerMs }: Patience,
): Promise<string | undefined> {
  const answered = new Set<string>()
  for (let count = 0; count < Math.max(affinityRounds, 2 * to.length); count++) {
    const target = to[count % to.length]
    if (target === undefined) return 'has no target'
    const outcome = await prober.probe(target, answerMs)
    if (outcome.kind !== 'answer' || !by.includes(outcome.by))
      return `expected an answer by one of ${by.join(', ')}; saw ${describeOutcome(outcome)}`
    answered.add(outcome.by)
  }
  return answered.size === 1 ? undefined : `expected one server; saw ${[...answered].join(', ')}`
}

async function expiryProblem(
  prober: Probes,
  check: ExpiryCheck,
  { answerMs }: Patience,
): Promise<string | undefined> {
  const answered = new Set<string>()
  for (let count = 0; count < affinityRounds; count++) {
    const outcome = await prober.probe(check.to, answerMs)
    if (outcome.kind !== 'answer') return `expected an answer; saw ${describeOutcome(outcome)}`
    answered.add(outcome.by)
    if (answered.size > 1) return undefined
    await pause(check.pauseMs)
  }
  return `expected another server after a pause of ${check.pauseMs} ms; ${affinityRounds} times it was ${[...answered].join()}`
}

async function strayProblem(
  prober: Probes,
  check: StrayCheck,
  patience: Patience,
): Promise<string | undefined> {
  const limitMs = check.expect === 'dropped' ? patience.silenceMs : patience.answerMs
  const outcome = await prober.stray(check.to.address, check.to.port, limitMs)
  const seen = outcome.kind === 'refused' ? 'arrives' : outcome.kind
  return seen === check.expect ? undefined : `expected: ${check.expect}; saw: ${seen}`
}

/** Servers open after the rules are in force: a reply that is not there yet is waited for. */
async function httpProblem(
  prober: Probes,
  check: HttpCheck,
  { answerMs }: Patience,
): Promise<string | undefined> {
  const limit = performance.now() + answerMs
  for (;;) {
    const problem = await replyProblem(prober, check)
    if (problem === undefined || performance.now() > limit) return problem
  }
}

async function replyProblem(prober: Probes, check: HttpCheck): Promise<string | undefined> {
  const request = `${check.method} /anything HTTP/1.1\r\nHost: node\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`
  let text: string
  try {
    text = await prober.exchange(check.to.address, check.to.port, request)
  } catch (error) {
    return String(error)
  }
  const [head = '', body = ''] = text.split(/\r\n\r\n(.*)/s)
  const [statusLine = '', ...lines] = head.split('\r\n')
  const headers = new Map(
    lines.map((line) => [line.split(':')[0]?.toLowerCase(), line.replace(/^[^:]*:\s*/, '')]),
  )
  const wrong = Object.entries(check.headers).filter(([name, value]) => headers.get(name) !== value)
  const isRight = statusLine.split(' ')[1] === `${check.status}` && wrong.length === 0 && body === check.body
  return isRight
    ? undefined
    : `expected ${check.status} ${JSON.stringify(check.headers)} ${JSON.stringify(check.body)}; saw ${JSON.stringify(text)}`
}

// Parts that several snapshots have.
import type { IpFamily } from '../address.js'
import type { FirstNames, OperationCount, PassReason, PassRecord, PassStages } from '../engine/index.js'
import type { PresentProblem } from '../log.js'

/** A pass that has ended. */
export interface PassSnapshot {
  readonly family: 'IPv4' | 'IPv6'
  readonly reason: PassReason
  /** RFC 3339, UTC. */
  readonly start: string
  readonly durationMs: number
  /** Compile, plan and kernel add up to `durationMs`. */
  readonly stages: PassStages
  /** `stages.compileMs`, for older commands: one before stages (commit b6d12a71) ends with a TypeError without it. */
  readonly compiledMs?: number
  /** The objects whose events the pass was for; none: it was for no event, as in a retry. */
  readonly objects: FirstNames
  /** The changed service ports. */
  readonly changed: FirstNames
  readonly isComplete: boolean
  /** Counts by kind of kernel object, then by operation. */
  readonly operations: Readonly<Record<string, Readonly<Record<string, OperationCount>>>>
  /** The first operations, a line each. */
  readonly firstOperations: readonly string[]
  readonly failures: readonly string[]
}

/** A problem that is present now. */
export interface ProblemSnapshot {
  readonly level: 'error' | 'warn'
  readonly problem: string
  /** The objects of the problem by kind, such as `service`. */
  readonly fields: Readonly<Record<string, string>>
}

export function familyName(family: IpFamily): 'IPv4' | 'IPv6' {
  return family === 'ipv4' ? 'IPv4' : 'IPv6'
}

export function passSnapshot(pass: PassRecord): PassSnapshot {
  const { family, startSeconds, firstOperations, ...rest } = pass
  const start = timeText(startSeconds * 1000)
  return {
    family: familyName(family),
    start,
    ...rest,
    compiledMs: rest.stages.compileMs,
    firstOperations: firstOperations(),
  }
}

export function problemSnapshot({ level, line, fields }: PresentProblem): ProblemSnapshot {
  const texts = Object.entries(fields).map(([key, value]) => [key, fieldText(value)])
  return { level, problem: line, fields: Object.fromEntries(texts) }
}

/** RFC 3339, UTC, of Unix milliseconds. */
export function timeText(unixMs: number): string {
  return new Date(unixMs).toISOString()
}

function fieldText(value: unknown): string {
  if (value instanceof Error) return value.message
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '')
}

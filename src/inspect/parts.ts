// Parts that several snapshots have.
import type { IpFamily } from '../address.js'
import type { OperationCount, PassReason, PassRecord } from '../engine/index.js'
import type { PresentProblem } from '../log.js'

/** A pass that has ended. */
export interface PassSnapshot {
  readonly family: 'IPv4' | 'IPv6'
  readonly reason: PassReason
  /** RFC 3339, UTC. */
  readonly start: string
  readonly durationMs: number
  /** Time until all changed service ports were compiled. The rest went to the kernel. */
  readonly compiledMs: number
  /** The changed service ports: their number, and the first ones. */
  readonly changed: { readonly count: number; readonly first: readonly string[] }
  readonly isComplete: boolean
  /** Counts by kind of kernel object, then by operation. */
  readonly operations: Readonly<Record<string, Readonly<Record<string, OperationCount>>>>
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
  const { family, reason, startSeconds, durationMs, compiledMs, changed, isComplete, operations, failures } =
    pass
  return {
    family: familyName(family),
    reason,
    start: timeText(startSeconds * 1000),
    durationMs,
    compiledMs,
    changed,
    isComplete,
    operations,
    failures,
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

// Expectations of the traffic table that a mode replaces, each with its reason.
import type { Check, Expectation, Step, TrafficCase } from './table/index.js'

export interface Difference {
  readonly reason: string
  /** The expectations that replace a check of the case. Absent: the mode cannot do what the case shows. */
  readonly instead?: (check: Check) => readonly Check[]
}

/** By the names of cases. */
export type Differences = Readonly<Record<string, Difference>>

export const refused: Expectation = { kind: 'refused' }
export const dropped: Expectation = { kind: 'dropped' }

/** Replaces the expectation of the flows that `isConcerned` selects. */
export function flowsExpect(
  expect: Expectation,
  isConcerned: (check: Check & { readonly kind: 'flow' }) => boolean,
): (check: Check) => readonly Check[] {
  return (check) => [check.kind === 'flow' && isConcerned(check) ? { ...check, expect } : check]
}

/** Expects a refusal where the table expects silence. */
export function refusedIf(
  isConcerned: (check: Check & { readonly kind: 'flow' }) => boolean,
): (check: Check) => readonly Check[] {
  return flowsExpect(refused, (check) => check.expect.kind === 'dropped' && isConcerned(check))
}

/** The kernel remembers clients per frontend (F-041). */
export const affinityOfEach: Difference = {
  reason: 'a client keeps its server on each frontend; two of them may lead it to different ones',
  instead: (check) =>
    check.kind === 'affinity' ? check.to.map((target) => ({ ...check, to: [target] })) : [check],
}

/** The case as the mode has to meet it: none where the mode cannot do what it shows. */
export function caseIn(row: TrafficCase, difference: Difference | undefined): readonly TrafficCase[] {
  if (difference === undefined) return [row]
  const { instead } = difference
  return instead === undefined
    ? []
    : [
        {
          ...row,
          checks: row.checks.flatMap(instead),
          ...(row.steps === undefined ? {} : { steps: row.steps.map((step) => stepIn(step, instead)) }),
        },
      ]
}

/** The expectations of a step are the first expectations, unless the mode differs. */
function stepIn(step: Step, instead: (check: Check) => readonly Check[]): Step {
  return 'checks' in step ? { ...step, checks: step.checks.flatMap(instead) } : step
}

// The values in use that chains and sets depend on, and a chain with the expressions of its rules.
import type { NfHook } from '../../../kernel/index.js'
import type { Expressions } from './expressions.js'

/** The endpoints of connections that no short circuit takes, or those for pods and for the node itself. */
export type OwnList = 'endpoints' | 'shortCircuit'

/** The values in use by the frontends of one kind. */
export interface FrontendUse {
  /** Numbers of endpoints of connections that no short circuit takes, from 1 to maxEndpoints. */
  readonly counts: ReadonlySet<number>
  /** Numbers of endpoints for pods and for the node itself. */
  readonly shortCircuitCounts: ReadonlySet<number>
  /** The lists of endpoints for which frontends lead to chains of their service ports. */
  readonly ownLists: ReadonlySet<OwnList>
}

/** The values for which the table has chains and sets. A value that no element uses any more does no harm. */
export interface StructureUse {
  readonly services: FrontendUse
  readonly nodePorts: FrontendUse
  /** Prefix lengths of the allowed sources. */
  readonly prefixLengths: ReadonlySet<number>
}

export interface RulePlan {
  readonly expressions: Expressions
  readonly comment?: string
}

/** A chain of the mode's table. */
export interface ChainPlan {
  readonly chain: string
  readonly hook?: NfHook
  readonly rules: readonly RulePlan[]
}

/** In ascending order. */
export function sorted(numbers: ReadonlySet<number>): readonly number[] {
  return [...numbers].toSorted((a, b) => a - b)
}

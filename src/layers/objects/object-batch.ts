// Batches of operations on tracked objects: planned in bounded parts, and confirmed by the kernel's answers.
import type { KernelError } from '../../errors.js'
import type { BatchOutcome, OperationFailure } from '../../kernel/index.js'
import type { TrackedObject } from './object-table.js'

/** Operations in the order in which the kernel gets them. An array, or packed records. */
interface OperationList<Op> {
  readonly length: number
  at(index: number): Op | undefined
}

/**
 * The meaning of a failed operation for its object. `done`: the object already has the target state. `refused`: the kernel changed
 * nothing. `stale`: only a reading shows the state. `consequence`: an earlier failed operation caused this failure.
 */
export type Meaning = 'done' | 'refused' | 'stale' | 'consequence'

/** A kind of kernel objects, for each of whose operations the kernel sends an answer. The mode that owns the kind supplies it. */
export interface ObjectKind<
  T extends TrackedObject<unknown, State>,
  State,
  Op,
  Ops extends OperationList<Op>,
> {
  /**
   * Appends the operations that lead from the acknowledged state to `target`; none if both are equal. Returns their cost, in the unit
   * of the limit of `planBatch`.
   */
  plan(ops: Ops, object: T, target: State): number
  /** The state after an operation that the kernel accepted. */
  advance(state: State, op: Op): State
  /** The meaning of a failure for the object; `state` is the one before the operation. */
  meaningOf(object: T, op: Op, failure: OperationFailure, state: State): Meaning
  /** Whether two states are equal. */
  isSame(a: State, b: State): boolean
}

/** The operations of one object: [from, to) of a batch. `target` is the object's state when the kernel accepts all of them. */
interface BatchPart<T, State> {
  readonly object: T
  readonly from: number
  readonly to: number
  readonly target: State
}

export interface ObjectBatch<T, State, Ops> {
  readonly ops: Ops
  readonly parts: readonly BatchPart<T, State>[]
}

/** A batch for a prefix of the objects to plan; `rest` is for the next one. */
export interface Cut<Batch, T> {
  readonly batch: Batch
  readonly rest: readonly T[]
}

/** An operation that was not applied, and the object that it was for. */
export interface Failed<T> {
  readonly target: T
  readonly error: KernelError
}

/** The failures of a batch. */
export interface Confirmation<T> {
  readonly refusals: readonly Failed<T>[]
  /** Answers that were lost, or contradict the acknowledged state: their objects are stale, so reconcile soon. */
  readonly surprises: readonly Failed<T>[]
}

interface PlanOptions<T, State, Ops> {
  /** Empty; gets the operations. */
  readonly ops: Ops
  /** Cost at which the batch is closed. The last object may exceed it. */
  readonly limit: number
  /** The desired state of the object; its acknowledged state if nothing is to be done. */
  readonly targetOf: (object: T) => State
}

/** Plans a prefix of the objects as one batch. Stale objects get no operation. */
export function planBatch<T extends TrackedObject<unknown, State>, State, Op, Ops extends OperationList<Op>>(
  kind: ObjectKind<T, State, Op, Ops>,
  objects: readonly T[],
  { ops, limit, targetOf }: PlanOptions<T, State, Ops>,
): Cut<ObjectBatch<T, State, Ops>, T> {
  const parts: BatchPart<T, State>[] = []
  let planned = 0
  let cost = 0
  for (const object of objects) {
    if (cost >= limit) break
    planned++
    if (object.isStale) continue
    const target = targetOf(object)
    if (target === object.acknowledged) continue
    const from = ops.length
    cost += kind.plan(ops, object, target)
    if (ops.length > from) parts.push({ object, from, to: ops.length, target })
  }
  return { batch: { ops, parts }, rest: objects.slice(planned) }
}

/** Advances the acknowledged state of each object by exactly the operations that the kernel accepted. Returns the failures. */
export function confirmBatch<
  T extends TrackedObject<unknown, State>,
  State,
  Op,
  Ops extends OperationList<Op>,
>(
  kind: ObjectKind<T, State, Op, Ops>,
  { ops, parts }: ObjectBatch<T, State, Ops>,
  { failures }: BatchOutcome,
): Confirmation<T> {
  const into = { refusals: new Array<Failed<T>>(), surprises: new Array<Failed<T>>() }
  let next = 0
  for (const part of parts) {
    const first = next
    while ((failures[next]?.index ?? part.to) < part.to) next++
    if (first === next) part.object.acknowledged = part.target
    else confirmPart(kind, part, { ops, failures: failures.slice(first, next), into })
  }
  return into
}

/** The batch could not be sent, or its answers were lost: the states of its objects are unknown. */
export function disownBatch<T extends TrackedObject<unknown, State>, State>({
  parts,
}: ObjectBatch<T, State, unknown>): void {
  for (const { object } of parts) object.isStale = true
}

/** Replays the operations of a part one by one, as some failed. */
function confirmPart<T extends TrackedObject<unknown, State>, State, Op, Ops extends OperationList<Op>>(
  kind: ObjectKind<T, State, Op, Ops>,
  { object, from, to, target }: BatchPart<T, State>,
  {
    ops,
    failures,
    into,
  }: {
    readonly ops: Ops
    readonly failures: readonly OperationFailure[]
    readonly into: { readonly refusals: Failed<T>[]; readonly surprises: Failed<T>[] }
  },
): void {
  const byIndex = new Map(failures.map((failure) => [failure.index, failure]))
  let state = object.acknowledged
  for (let index = from; index < to; index++) {
    const op = ops.at(index)
    if (op === undefined) continue
    const failure = byIndex.get(index)
    const meaning = failure === undefined ? 'done' : kind.meaningOf(object, op, failure, state)
    if (meaning === 'done') state = kind.advance(state, op)
    if (failure === undefined) continue
    if (meaning === 'stale') {
      object.isStale = true
      into.surprises.push({ target: object, error: failure.error })
    } else if (meaning === 'refused') into.refusals.push({ target: object, error: failure.error })
  }
  // Equal to the target when each failure meant `done`: one object for both states is enough.
  object.acknowledged = kind.isSame(state, target) ? target : state
}

/** A planned batch for a prefix of some work. `rest`: the remaining work. */
interface PlannedCut<T> {
  readonly rest: readonly T[]
}

interface OverlapOptions<T, C extends PlannedCut<T>, A> {
  readonly plan: (items: readonly T[]) => C
  /** NB: it must encode the cut before it first waits, and calls must be answered in order. */
  readonly send: (cut: C) => Promise<A>
  /** Waits for the answer to a cut, and enters it. */
  readonly enter: (cut: C, answer: Promise<A>) => Promise<void>
  readonly isStopping: () => boolean
}

/**
 * Works through `items` a cut at a time, with two cuts in flight: it plans and encodes the next cut while the kernel works on the
 * one before. Plans must not depend on the results of other cuts. After a stop or a failure it waits for the cuts in flight and
 * ends.
 */
export async function inOverlappingCuts<T, C extends PlannedCut<T>, A>(
  items: readonly T[],
  { plan, send, enter, isStopping }: OverlapOptions<T, C, A>,
): Promise<void> {
  let inFlight: readonly [C, Promise<A>] | undefined
  try {
    for (let rest = items; rest.length > 0 && !isStopping();) {
      const cut = plan(rest)
      const answer = send(cut)
      // `enter` throws this failure too.
      answer.catch(() => undefined)
      const before = inFlight
      inFlight = [cut, answer]
      rest = cut.rest
      if (before !== undefined) await enter(...before)
    }
  } finally {
    // Also after a failure: no cut may still run when this function ends.
    if (inFlight !== undefined) await enter(...inFlight)
  }
}

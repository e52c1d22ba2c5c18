// Operations of a plan, each with the errno that the kernel would answer.
import {
  nameFailures,
  type Operations,
  type OpWords,
  type RecordFailure,
  type BatchOutcome,
} from '../batch.js'

/** Applies each operation by itself, in order. `applyOne` returns an errno, or 0. */
export function planBatch<Op extends { readonly op: string }>(
  ops: Operations<Op>,
  words: OpWords<Op>,
  applyOne: (op: Op) => number,
): BatchOutcome {
  const failures: RecordFailure[] = []
  for (let index = 0; index < ops.length; index++) {
    const op = ops.at(index)
    const errno = op === undefined ? 0 : applyOne(op)
    if (errno !== 0) failures.push({ index, errno, unknown: false, text: '' })
  }
  return nameFailures(ops, failures, words)
}

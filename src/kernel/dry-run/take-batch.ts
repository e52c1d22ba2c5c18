// The answer of a dry run to a batch, and the members of a part that it replaces.
import {
  type BatchOutcome,
  nameFailures,
  type Operations,
  type OpWords,
  type RecordFailure,
} from '../batch.js'

/** Answers each operation with an errno, or 0: then it is taken. `take` gets those, if there are any. */
export function takeBatch<Op extends { readonly op: string }>(
  ops: Operations<Op>,
  words: OpWords<Op>,
  answer: (op: Op) => number,
  take: (taken: readonly Op[]) => void,
): BatchOutcome {
  const failures: RecordFailure[] = []
  const taken: Op[] = []
  for (let index = 0; index < ops.length; index++) {
    const op = ops.at(index)
    if (op === undefined) continue
    const errno = answer(op)
    if (errno === 0) taken.push(op)
    else failures.push({ index, errno, unknown: false, text: '' })
  }
  if (taken.length > 0) take(taken)
  return nameFailures(ops, failures, words)
}

/** The object with some members replaced. Methods run on `target` itself. */
export function withMembers<T extends object>(target: T, members: Partial<T>): T {
  return new Proxy(target, {
    get: (_, name) => {
      if (Object.hasOwn(members, name)) return Reflect.get(members, name)
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** Reads at the first call. A read that failed is made again by the next call. */
export function readOnce<T>(read: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined
  return async () => {
    answer ??= read()
    try {
      return await answer
    } catch (error) {
      answer = undefined
      throw error
    }
  }
}

/** A watch that sees nothing: a dry run is made at one moment. */
export class QuietWatch {
  #end: () => void = () => {}
  readonly #ended = new Promise<undefined>((resolve) => {
    this.#end = () => resolve(undefined)
  })

  /** Resolves with undefined after close(). */
  next(): Promise<undefined> {
    return this.#ended
  }

  async close(): Promise<void> {
    this.#end()
  }
}

import type { ApiAnswer, ListEnd, WireObject } from '../../api/index.js'
import type { Clock } from '../../clock.js'
import type { Resource } from './resources.js'

/** After this time of reading, other work gets a turn: chunks that are already buffered come without a pause. */
const turnMs = 10

/** The turns of one reader of an answer. */
export class Turns {
  readonly #clock: Clock
  #beganMs: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#beganMs = clock.now()
  }

  get isOver(): boolean {
    return this.#clock.now() - this.#beganMs >= turnMs
  }

  /** Resolves after other work has had its turn. */
  async next(): Promise<void> {
    await new Promise<void>((resolve) => this.#clock.schedule(0, resolve))
    this.#beganMs = this.#clock.now()
  }
}

/**
 * Passes the objects of a list to `take` while they arrive, so that a list needs no memory of its length. Rejects with ApiError,
 * FormatError, FrameError, and what `take` throws.
 */
export async function readList(
  { chunks, format }: Pick<ApiAnswer, 'chunks' | 'format'>,
  resource: Resource,
  { clock, take }: { readonly clock: Clock; readonly take: (items: readonly WireObject[]) => void },
): Promise<ListEnd> {
  const reader = format.openList(resource)
  const turns = new Turns(clock)
  for await (const chunk of chunks) {
    take(reader.push(chunk))
    if (turns.isOver) await turns.next()
  }
  const end = reader.end()
  take(end.items)
  return end
}

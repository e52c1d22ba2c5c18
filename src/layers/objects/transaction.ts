// Kernel objects that are written as one transaction: the kernel takes the whole transaction, or nothing.
import { KernelError, orRefusal } from '../../errors.js'
import { FailedObjects, type FailedObjectsOptions } from './failed-objects.js'

export interface TransactionOptions<Outcome> {
  /** Sends everything that is pending. Throws KernelError when the kernel took nothing. */
  readonly send: () => Promise<Outcome>
  /**
   * Finds the objects that the kernel refuses and takes them out of the transaction. False: no object was found that causes the error.
   * May throw KernelError.
   */
  readonly leaveOut: (error: KernelError) => Promise<boolean>
  /** Greatest number of searches. One search finds every refused object, unless there are thousands. */
  readonly mostSearches: number
}

/** Sends a transaction without the objects that the kernel refuses. Throws KernelError when the transaction fails without them too. */
export async function sendTransaction<Outcome>({
  send,
  leaveOut,
  mostSearches,
}: TransactionOptions<Outcome>): Promise<Outcome> {
  for (let searches = 0; ; searches++) {
    const outcome = await orRefusal(send)
    if (!(outcome instanceof KernelError)) return outcome
    if (searches === mostSearches || !(await leaveOut(outcome))) throw outcome
  }
}

export interface LeftOutOptions<Key> extends Pick<
  FailedObjectsOptions<unknown, Key>,
  'family' | 'clock' | 'metrics' | 'problems'
> {
  /** Key of the problem. */
  readonly nameOf: (key: Key) => string
  /** Names of the Services that need the object; empty: no Service needs it any more. */
  readonly servicesOf: (key: Key) => readonly string[]
}

interface LeftOut<Key> {
  readonly key: Key
  readonly isStale: false
}

/**
 * Objects that were left out of a transaction: the kernel has no part of them. Each is reported by its name, and tried again with
 * back-off or when it changes.
 */
export class LeftOutObjects<Key> {
  readonly #failed: FailedObjects<LeftOut<Key>, Key>
  /** Objects that were left out, until the kernel has them or they are removed. */
  readonly #known = new Set<Key>()
  /** Those that were claimed or released since. */
  readonly #tried = new Set<Key>()

  constructor({ nameOf, servicesOf, ...options }: LeftOutOptions<Key>) {
    this.#failed = new FailedObjects({
      ...options,
      keyOf: ({ key }) => key,
      nameOf: ({ key }) => nameOf(key),
      servicesOf: ({ key }) => servicesOf(key),
    })
  }

  /** Objects to claim again now. */
  due(): readonly Key[] {
    return this.#failed.due()
  }

  /** Milliseconds until an object is due; undefined: none is left out. */
  nextInMs(): number | undefined {
    return this.#failed.nextInMs()
  }

  /** The object was claimed, or released. */
  noteClaim(key: Key): void {
    if (this.#known.has(key)) this.#tried.add(key)
  }

  /** The kernel refused the object, which was taken out of the transaction. */
  add(key: Key, error: KernelError): void {
    const target: LeftOut<Key> = { key, isStale: false }
    this.#known.add(key)
    this.#tried.delete(key)
    this.#failed.note({ refusals: [{ target, error }], surprises: [] })
    this.#failed.settle([target])
  }

  /** The kernel has everything that is claimed: objects that were claimed again have recovered. */
  settle(): void {
    for (const key of this.#tried) this.#known.delete(key)
    this.#failed.settle([...this.#tried].map((key): LeftOut<Key> => ({ key, isStale: false })))
    this.#tried.clear()
  }
}

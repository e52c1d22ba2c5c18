import type { IpFamily } from '../../address.js'
import type { Confirmation, Failed } from '../objects/index.js'
import { wildcardAddress } from '../../kernel/index.js'
import type { ListenerObject, WantedListener } from './relay-objects.js'

/** One listener on all addresses in place of those of one address each; none in place of none. */
export function joined(listeners: readonly WantedListener[], family: IpFamily): readonly WantedListener[] {
  const [first] = listeners
  if (first === undefined) return []
  const listener = { ...first.listener, address: wildcardAddress[family] }
  return [{ ...first, listener, addresses: listeners.map((one) => one.listener.address) }]
}

/** Codes that single addresses may not have: another program has the port at one, or the kernel lacks what sockets on all addresses need. */
const blockingCodes: ReadonlySet<string> = new Set(['EADDRINUSE', 'EOPNOTSUPP'])

/**
 * The listeners on all addresses that cannot open, since another program has the port at some address. Each has a listener for each
 * address in its place, so that only that address fails. A retry tries the listener on all addresses first. If the program has the port at
 * every address, the listener on all addresses alone is wanted, and reported.
 */
export class SplitListeners {
  /** By the id of the listener on all addresses. */
  readonly #parts = new Map<string, readonly WantedListener[]>()
  /** Those that the write in progress found blocked. */
  readonly #blocked = new Map<ListenerObject, Failed<ListenerObject>>()

  /** Takes in the refusals of listeners on all addresses. Returns the other refusals. */
  note({ refusals, surprises }: Confirmation<ListenerObject>): Confirmation<ListenerObject> {
    for (const failed of refusals) if (isBlocked(failed)) this.#blocked.set(failed.target, failed)
    return { refusals: refusals.filter((failed) => !isBlocked(failed)), surprises }
  }

  /** The listeners that these objects no longer have in their place, and those that they have now. Clears the blocked ones. */
  take(listeners: readonly ListenerObject[]): readonly Split[] {
    const splits: Split[] = []
    for (const object of listeners) {
      const refusal = this.#blocked.get(object)
      const former = this.#parts.get(object.id) ?? []
      const present = refusal === undefined ? [] : partsOf(object)
      if (former.length + present.length === 0) continue
      if (present.length === 0) this.#parts.delete(object.id)
      else this.#parts.set(object.id, present)
      splits.push({ object, refusal, former, present })
    }
    this.#blocked.clear()
    return splits
  }

  /** No listener is in the place of this one any more. */
  forget({ id }: ListenerObject): void {
    this.#parts.delete(id)
  }
}

function isBlocked({ target, error }: Failed<ListenerObject>): boolean {
  return target.wanted?.addresses !== undefined && blockingCodes.has(error.code)
}

/** A listener on all addresses, and the listeners in its place. `refusal`: why it is not open. */
export interface Split {
  readonly object: ListenerObject
  readonly refusal: Failed<ListenerObject> | undefined
  readonly former: readonly WantedListener[]
  readonly present: readonly WantedListener[]
}

function partsOf({ id, wanted }: ListenerObject): readonly WantedListener[] {
  if (wanted?.addresses === undefined) return []
  const { addresses, listener } = wanted
  return addresses.map((address) => ({
    ...wanted,
    listener: { ...listener, address },
    addresses: undefined,
    partOf: id,
  }))
}

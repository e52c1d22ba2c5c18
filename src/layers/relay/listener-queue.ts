import type { Confirmation } from '../objects/index.js'
import { isFirstService } from '../shared/index.js'
import type { ListenerObject } from './relay-objects.js'

/**
 * The order in which listeners open: those of the API server and the cluster's DNS, then by the creation of their Services, then by
 * arrival. Also holds the listeners that wait for a file descriptor.
 */
export class ListenerQueue {
  readonly #waiting = new Set<ListenerObject>()

  /** Takes in the refusals of a batch. */
  note({ refusals }: Confirmation<ListenerObject>): void {
    for (const { target, error } of refusals) {
      if (error.code === 'EMFILE') this.#waiting.add(target)
      else this.#waiting.delete(target)
    }
  }

  /** The listeners that wait, oldest first; at most `count`. They get the descriptors of listeners that close. */
  oldest(count: number): readonly ListenerObject[] {
    if (count === 0 || this.#waiting.size === 0) return []
    for (const listener of this.#waiting)
      if (listener.wanted === undefined || listener.isAcknowledged) this.#waiting.delete(listener)
    return inOrder([...this.#waiting]).slice(0, count)
  }
}

/** A new list in the order in which the listeners open. */
export function inOrder(listeners: readonly ListenerObject[]): readonly ListenerObject[] {
  return listeners.toSorted((a, b) => rankOf(a) - rankOf(b) || ageOf(a) - ageOf(b) || a.number - b.number)
}

function rankOf({ wanted }: ListenerObject): 0 | 1 {
  return wanted !== undefined && isFirstService(wanted.serviceName) ? 0 : 1
}

/** A Service without a time of creation, from a manifest, comes after the others. */
function ageOf({ wanted }: ListenerObject): number {
  return wanted?.createdSeconds ?? Number.MAX_SAFE_INTEGER
}

// The objects of the tables: frontends, and elements that several holders share.
import { KernelObject } from '../../objects/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import { absent, type FrontendState } from './frontend-state.js'
import type { OwnPortEntry } from './own-ports.js'
import { type FrontendId, nodePortIdLength, type PackedBytes } from './packed.js'

/** The elements of a frontend, as a service port wants them. */
export interface WantedFrontend {
  /** The service port. */
  readonly holder: ServicePortKey
  readonly isClusterIP: boolean
  readonly state: FrontendState
  /** Number of endpoints, of both lists. */
  readonly endpoints: number
}

/** An object that a reading may find before it has a holder. */
abstract class FoundObject<State> extends KernelObject<PackedBytes, State> {
  /** The first reading found it, and it stays until all objects are known. */
  #isLeftover = false

  override get isLeftover(): boolean {
    return this.#isLeftover
  }

  keepLeftover(): void {
    this.#isLeftover = true
  }

  override dropLeftover(): void {
    this.#isLeftover = false
  }
}

/** One frontend: its KEY, the service port that wants it, and the elements that the kernel has for it. */
export class FrontendEntry extends FoundObject<FrontendState> {
  readonly kind = 'frontend'
  /** As the last claim wants it; undefined: no service port has it. */
  wanted: WantedFrontend | undefined

  constructor(id: FrontendId) {
    super(id, absent)
  }

  get isNodePort(): boolean {
    return this.id.length === nodePortIdLength
  }

  /** The state to write; its endpoints are in no particular order. */
  get desired(): FrontendState {
    if (this.isLeftover) return this.acknowledged
    return this.wanted?.state ?? absent
  }

  get isAcknowledged(): boolean {
    return this.acknowledged !== absent
  }

  get isUnused(): boolean {
    return this.wanted === undefined && !this.isAcknowledged
  }
}

/** An element without data of a set that frontends or routes share: it exists while it has a holder. */
export class HeldEntry extends FoundObject<boolean> {
  readonly kind = 'held'
  holders = 0

  constructor(id: PackedBytes) {
    super(id, false)
  }

  get desired(): boolean {
    return this.holders > 0 || (this.isLeftover && this.acknowledged)
  }

  get isAcknowledged(): boolean {
    return this.acknowledged
  }

  get isUnused(): boolean {
    return this.holders === 0 && !this.acknowledged
  }
}

/** The object that an element is a part of. */
export type ElementOwner = FrontendEntry | HeldEntry | OwnPortEntry

// One entry of a set, and the operations that change it.
import type { Meaning, ObjectKind, TrackedObject } from '../../../layers/objects/index.js'
import type { IpsetEntry, IpsetOp, OperationFailure } from '../../../kernel/index.js'
import type { CarriedMark, EntryId } from './ipset-id.js'
import type { SetState } from './ipset-set.js'

/** Acknowledged state of an entry that the kernel does not have. */
export const absent: CarriedMark = -1

/** One entry: its number of holders, and the state that the kernel acknowledged. */
export class Member implements TrackedObject<EntryId, CarriedMark> {
  readonly set: SetState
  readonly id: EntryId
  /** The entry as its holders desire it; without holders, as the kernel has it. */
  entry: IpsetEntry
  /** Number of claims: several virtual servers may desire one entry. */
  holders = 0
  /** The entry's mark in the kernel; `absent`: the kernel does not have the entry. */
  acknowledged: CarriedMark = absent
  /** Always false: a set is stale as a whole (`SetState.isStale`). */
  isStale = false
  isLeftover = false
  isCounted = false
  seenIn = 0

  constructor(set: SetState, id: EntryId, entry: IpsetEntry) {
    this.set = set
    this.id = id
    this.entry = entry
  }

  get isAcknowledged(): boolean {
    return this.acknowledged !== absent
  }

  get isMissing(): boolean {
    return this.holders > 0 && this.acknowledged !== markOf(this.entry)
  }

  get isSurplus(): boolean {
    return this.holders === 0 && this.isAcknowledged && !this.isLeftover
  }

  get isUnused(): boolean {
    return this.holders === 0 && !this.isAcknowledged
  }

  dropLeftover(): void {
    this.isLeftover = false
  }
}

export function markOf({ mark }: IpsetEntry): CarriedMark {
  return mark?.value ?? 0
}

/** Entries as a kind of kernel objects. The set of the entry records each failure. */
export const entryKind: ObjectKind<Member, CarriedMark, IpsetOp, IpsetOp[]> = {
  plan: (ops, { entry, set }, target) => {
    const op = target === absent ? 'delete-entry' : 'add-entry'
    ops.push({ op, set: set.presentSettings, entry })
    return 1
  },
  advance: (state, op) =>
    op.op === 'add-entry' ? markOf(op.entry) : op.op === 'delete-entry' ? absent : state,
  meaningOf: (member, _op, failure: OperationFailure): Meaning => {
    member.set.noteRefusal(member, failure)
    return 'refused'
  },
  isSame: (a, b) => a === b,
}

import type { IpsetOp } from '../../../kernel/index.js'
import type { Member, SetState } from './ipset-set.js'

/** One operation for the kernel, and what follows from it. */
export interface SetStep {
  readonly op: IpsetOp
  /** Whose problem it is when the kernel refuses. */
  readonly set: SetState
  /** What is acknowledged when the kernel took it. */
  readonly done: () => void
  /** The entry that it is for; else it is for the set itself. */
  readonly member?: Member
  /** ENOENT is as good. */
  readonly mayBeAbsent?: true
}

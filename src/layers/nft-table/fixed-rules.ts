import type { KnownObjects, Pass } from '../../engine/index.js'
import type { NftChange } from '../../kernel/index.js'
import type { PacketTotals } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'
import type { IpAddress } from '../../address.js'
import type { NodeFacts } from '../../node/index.js'

/**
 * Rules of a mode outside of the table, which the pipeline keeps together with it. Calls with a promise must not overlap. Only `open`
 * rejects with a KernelError: other refusals are reported as problems, and tried again.
 */
export interface FixedRules {
  /** Reads what the first write depends on; required before all other calls. Later calls do nothing. Throws KernelError. */
  open(known: Exclude<KnownObjects, 'nothing'>): Promise<void>
  /** The facts that the rules depend on may have changed. */
  setNode(state: NodeState): void
  /** Replaces the rules of the route; undefined removes them. */
  claim(key: ServicePortKey, served: Route | undefined): void
  /** Service ports that the kernel refused, to be claimed again now. */
  dueRoutes(): readonly ServicePortKey[]
  /** Takes in changes of other programs. True: they may concern the rules, and a look (`partial`) is due. */
  noteChanges(changes: readonly NftChange[]): boolean
  /** Compares the kernel with the desired rules: `partial` only after `noteChanges`. True: it differs, and a write is due. */
  look(kind: 'partial' | 'full'): Promise<boolean>
  /** Writes what the table needs to serve. Rules of a former owner that serve stay. True: everything is in the kernel. */
  write(pass: Pass, options: { readonly isComplete: boolean }): Promise<boolean>
  /** The table serves, and all objects are known: removes the rules of a former owner. True: everything is in the kernel. */
  takeOver(pass: Pass): Promise<boolean>
  /**
   * There are rules of a former owner, or of a former version, that masquerade: they stay until the table does. False after the first
   * write.
   */
  readonly isAfterTable: boolean
  /** The rules were in the kernel once. */
  readonly isInForce: boolean
  /** The last write failed, no write was made yet, or a look found a difference. */
  readonly isBehind: boolean
  /** A write is due although no claim changed. */
  readonly isWriteDue: boolean
  /** Milliseconds until a write or a route is due; undefined: none is. */
  nextInMs(): number | undefined
  /** The rules that the kernel lacks or has otherwise, a sentence each. Throws KernelError. */
  differences(): Promise<readonly string[]>
  /** Packets that the rules have counted. */
  countPackets(): Promise<PacketTotals>
}

/** This node and the machine's own addresses. */
export interface NodeState {
  readonly node: NodeFacts
  readonly machine: readonly IpAddress[]
}

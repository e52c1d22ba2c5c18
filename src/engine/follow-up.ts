import type { IpAddress } from '../address.js'
import type { FamilyTracker, ServicePortKey } from '../model/index.js'
import type { FrontendConflict, Route } from '../routing/index.js'
import type { FamilyContext } from './family-context.js'
import type { ConflictReports } from './frontend-conflict.js'

/** A state of the kernel that has everything. */
export interface SyncedState {
  /** Conflicts since the last call, and conflicts that ended. */
  readonly conflicts: readonly FrontendConflict[]
  /** All objects are known. Until then flows stay: those to endpoints that were not read yet are not stale. */
  readonly isComplete: boolean
  /** The machine's own addresses of this family. */
  readonly machine: readonly IpAddress[]
}

/** The work of a family, in every mode, once everything is in the kernel. */
export interface FollowUp {
  /** The service port was compiled again, for the route as the mode serves it; undefined: it was removed. */
  note(key: ServicePortKey, served: Route | undefined): void
  /** Another program removed rules for a while: the next run checks the flows of every frontend. */
  recheckFlows(): void
  /** The last run is so long ago. A run retries what failed. */
  isOlderThan(ms: number): boolean
  run(state: SyncedState): Promise<void>
  stop(): Promise<void>
}

export interface FollowUpParts extends FamilyContext {
  readonly tracker: FamilyTracker
  readonly reports: ConflictReports
  /** The addresses that serve node ports now, read from the kernel. Throws KernelError. */
  readonly nodePortAddresses: () => Promise<readonly IpAddress[]>
}

export type OpenFollowUp = (parts: FollowUpParts) => FollowUp

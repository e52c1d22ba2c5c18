// The table of one family: its desired state, the state that the kernel acknowledged, and the way from one to the other.
import type { Cidr, IpFamily } from '../../../address.js'
import type { Clock } from '../../../clock.js'
import type { Pass } from '../../../engine/index.js'
import { BugError } from '../../../errors.js'
import type { NftChange, Nftables } from '../../../kernel/index.js'
import type { Log, StateReporter } from '../../../log.js'
import type { FamilyMetrics } from '../../../metrics/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import type { FrontendConflict } from '../../../routing/index.js'
import type { DesiredRoute } from '../compile/desired.js'
import type { NftModeSettings } from '../compile/settings.js'

export interface NftTablesOptions {
  readonly family: IpFamily
  /** Only this object writes to the table with it: `watch()` of it leaves out these writes. */
  readonly nftables: Nftables
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FamilyMetrics
  /** Gets the objects that cannot be programmed now, of both families. */
  readonly problems: StateReporter
  /** `namespace/name:port`; undefined: the service port does not exist (any more). */
  readonly portNameOf: (route: ServicePortKey) => string | undefined
}

export interface NftWriteOptions {
  /** All objects are known: leftovers go, and the objects of another owner of the table are replaced. */
  readonly isComplete: boolean
}

/** Numbers of objects that routes claim, by kind. */
export type NftSizes = Readonly<Record<'frontend' | 'endpoint', number>>

/**
 * The table of one family. Calls with a promise must not overlap. No method rejects with a KernelError: a refusal is reported as a
 * problem, and tried again.
 */
export class NftTables {
  readonly #options: NftTablesOptions

  constructor(options: NftTablesOptions) {
    this.#options = options
  }

  /** The settings of the whole mode; required before the first `write`. Routes that depend on them must be claimed again. */
  setSettings(settings: NftModeSettings): void {
    throw new BugError(`${this.#options.family} ${settings.family}`)
  }

  /** Networks of cluster IPs, of this family: connections to their unknown addresses are dropped. Empty: none is. */
  setServiceCidrs(cidrs: readonly Cidr[]): void {
    throw new BugError(`${cidrs.length}`)
  }

  /**
   * Replaces all claims of the route; undefined releases it. `service`: `namespace/name`. The next write brings the change to the
   * kernel. Keeps no reference to the backends.
   */
  claim(route: ServicePortKey, service: string, desired: DesiredRoute | undefined): void {
    throw new BugError(`${route} ${service} ${desired?.frontends.length}`)
  }

  /** Conflicts of the claims and releases since the last call, and conflicts that ended. */
  takeConflicts(): readonly FrontendConflict[] {
    return []
  }

  get sizes(): NftSizes {
    return { frontend: 0, endpoint: 0 }
  }

  /** Takes in changes of other programs. True: they concern our table, and a look (`suspect`) is due. */
  noteChanges(changes: readonly NftChange[]): boolean {
    return changes.length > 0
  }

  /**
   * Compares the kernel with the last acknowledged state: only what `noteChanges` named, or everything (nothing is read when the
   * ruleset's generation shows that nothing changed). True: the kernel differs, and a write is due. False before the first write.
   */
  async look(kind: 'suspect' | 'full'): Promise<boolean> {
    throw new BugError(kind)
  }

  /**
   * Writes what differs from the acknowledged state; the first write reads the kernel before. True: everything is in the kernel,
   * except service ports that the kernel refuses (`dueRoutes`). False: the rest is tried again (`nextInMs`), or another owner of
   * the table serves until all objects are known.
   */
  async write(pass: Pass, { isComplete }: NftWriteOptions): Promise<boolean> {
    throw new BugError(`${isComplete} ${pass.reason}`)
  }

  /** The last write failed, no write was made yet, or a look found a difference. */
  get isBehind(): boolean {
    return true
  }

  /** A write is due although no claim or setting changed: a retry, a repair, or the removal of leftovers. */
  get isWriteDue(): boolean {
    return true
  }

  /** Milliseconds until a write or a route is due; undefined: none is, or the next write waits until all objects are known. */
  nextInMs(): number | undefined {
    return undefined
  }

  /** Service ports that the kernel refused, to be claimed again now. */
  dueRoutes(): readonly ServicePortKey[] {
    return []
  }
}

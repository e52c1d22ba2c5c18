// The table of one family, and the fixed rules that the mode has beside it, as the loop of the engine calls them.
import type { IpFamily } from '../../address.js'
import type {
  Claim,
  FamilyContext,
  FamilyFacts,
  FamilyParts,
  Layer,
  LayerState,
  Look,
  Pass,
  PassPause,
  WriteOptions,
  Written,
} from '../../engine/index.js'
import type { NftChange, Nftables } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { DesiredRoute } from './compile/desired.js'
import { tableName } from './compile/schema.js'
import { EndpointLimit } from './endpoint-limit.js'
import type { NftFamilySettings } from './compile/settings.js'
import type { FixedRules } from './fixed-rules.js'
import { NftLookSchedule } from './look-schedule.js'
import { OtherAgents } from './other-agents.js'
import { NftTable } from './tables/table.js'
import type { WatchedTable } from './watch.js'

export interface NftLayerOptions extends FamilyContext, FamilyParts {
  readonly nftables: Nftables
  /** Gets the generation of each transaction, for the layer of the other family. */
  readonly onApplied: (generation: number) => void
  /** Rules outside of the table that the mode needs as well. Absent: none. */
  readonly fixedRules?: FixedRules | undefined
  /** Shortest time between two syncs. */
  readonly minSyncPeriodMs: number
  /** Ends when the table was made or removed. Absent: passes follow each other at any time. */
  readonly pause?: Pick<PassPause, 'hurry'> | undefined
}

export class NftLayer implements Layer<NftFamilySettings, DesiredRoute>, WatchedTable {
  readonly #options: NftLayerOptions
  readonly table: NftTable
  readonly #lookSchedule: NftLookSchedule
  readonly #otherAgents: OtherAgents
  readonly #endpointLimit: EndpointLimit
  readonly firstSync: Promise<void>
  #endFirstSync = (): void => {}

  constructor(options: NftLayerOptions) {
    this.#options = options
    this.firstSync = new Promise((resolve) => {
      this.#endFirstSync = resolve
    })
    this.#endpointLimit = new EndpointLimit(options.family, options.warnings)
    const { clock, lookClock = clock, syncPeriodMs } = options
    this.#lookSchedule = new NftLookSchedule(lookClock, syncPeriodMs)
    this.#otherAgents = new OtherAgents({ ...options, mode: 'table' })
    this.table = new NftTable({
      ...options,
      onForeign: (found) => this.#otherAgents.noteForeign(found),
    })
  }

  async open(known: 'listed' | 'synced'): Promise<void> {
    await this.#options.fixedRules?.open(known)
  }

  async look(): Promise<Look> {
    const { table } = this
    const { fixedRules, stages } = this.#options
    const due = await this.#dueLook()
    if (due === 'none' && !table.isComparing) return due
    const isDifferent = await table.look(due === 'none' ? 'next' : due)
    const isFixedDifferent =
      due !== 'none' && (await stages.inKernel(async () => (await fixedRules?.look(due)) === true))
    if (isDifferent || isFixedDifferent) return 'different'
    const isFull = due === 'full' || table.isComparisonWhole
    return isFull && !table.isComparing ? 'full' : 'partial'
  }

  async #dueLook(): Promise<'none' | 'partial' | 'full'> {
    const schedule = this.#lookSchedule
    schedule.setOther(this.#otherAgents.runningNow())
    const look = schedule.take()
    if (look !== 'flush') return look
    if (!(await this.table.isFlushed())) return 'none'
    schedule.noteFlush()
    return 'partial'
  }

  configure({ serviceCidrs, ...settings }: NftFamilySettings, { node, machine }: FamilyFacts): void {
    this.table.setSettings(settings)
    if (serviceCidrs !== undefined) this.table.setServiceCidrs(serviceCidrs)
    this.#options.fixedRules?.setNode({ node, machine })
  }

  claim(key: ServicePortKey, claim: Claim<DesiredRoute> | undefined): void {
    const { decided, served, desired } = claim ?? {}
    this.table.claim(key, desired)
    this.#options.fixedRules?.claim(key, served)
    this.#endpointLimit.note(key, decided)
  }

  async write(pass: Pass, options: WriteOptions): Promise<Written> {
    const isComplete = await this.#writeAll(pass, options)
    if (this.table.isLookWanted) this.#lookSchedule.noteChange()
    if (options.isComplete || isComplete) this.#endFirstSync()
    return { isComplete, sizes: this.table.sizes }
  }

  /**
   * The fixed rules come first, since the firewall accepts what the table serves with them only. What a former owner serves by comes
   * later, or goes when the table is in force.
   */
  async #writeAll(pass: Pass, options: WriteOptions): Promise<boolean> {
    const { fixedRules, stages } = this.#options
    if (fixedRules === undefined) return await this.table.write(pass, options)
    if (fixedRules.isAfterTable && !(await this.table.write(pass, options))) return false
    const isFixed = await stages.inKernel(async () => await fixedRules.write(pass, options))
    if (!fixedRules.isInForce || !(await this.table.write(pass, options))) return false
    if (!options.isComplete) return isFixed
    return (await stages.inKernel(async () => await fixedRules.takeOver(pass))) && isFixed
  }

  dueRoutes(): readonly ServicePortKey[] {
    return [...this.table.dueRoutes(), ...(this.#options.fixedRules?.dueRoutes() ?? [])]
  }

  noteChanges(changes: readonly NftChange[]): boolean {
    const { family, fixedRules, pause } = this.#options
    this.#otherAgents.note(changes)
    if (concernsTable(changes, family)) pause?.hurry()
    const isFixedConcerned = fixedRules?.noteChanges(changes) === true
    const isConcerned = this.table.noteChanges(changes) || isFixedConcerned
    if (isConcerned) this.#lookSchedule.noteChange()
    return isConcerned
  }

  noteWatch(): void {
    this.#lookSchedule.noteWatch()
  }

  stopSoon(): void {
    this.table.stopSoon()
  }

  async differences(): Promise<readonly string[]> {
    return [
      ...(await this.table.chainDifferences()),
      ...((await this.#options.fixedRules?.differences()) ?? []),
    ]
  }

  get state(): LayerState {
    const { table } = this
    const { fixedRules } = this.#options
    // A write reaches the table only when fixed rules are in force: until then, only their retry is due.
    const isTableNext = fixedRules === undefined || fixedRules.isInForce || fixedRules.isAfterTable
    return {
      isWriteDue: (isTableNext && table.isWriteDue) || fixedRules?.isWriteDue === true,
      isBehind: table.isBehind || fixedRules?.isBehind === true,
      hasRefusals: table.hasRefusals,
      isLooking: table.isComparing,
      // Changes that wait go first: each pass compares one slice.
      nextInMs: Math.min(
        table.isComparing ? 0 : this.#lookSchedule.nextInMs(),
        (isTableNext ? table.nextInMs() : undefined) ?? Infinity,
        fixedRules?.nextInMs() ?? Infinity,
        this.#otherAgents.nextInMs() ?? Infinity,
      ),
      isDenied: table.isDenied,
    }
  }
}

/** Whether a change made or removed the whole table of this family: without it, no Service is served. */
function concernsTable(changes: readonly NftChange[], family: IpFamily): boolean {
  return changes.some(
    (change) =>
      change.kind === 'transaction' &&
      change.objects.some(
        (object) => object.kind === 'table' && object.family === family && object.table === tableName,
      ),
  )
}

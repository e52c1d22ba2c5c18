// The tables nat and filter of one family, with a chain for each Service and each endpoint.
import type {
  ChainNames,
  Claim,
  FamilyContext,
  FamilyParts,
  Layer,
  LayerState,
  Look,
  Pass,
  WriteOptions,
  Written,
} from '../../engine/index.js'
import type { ServicePortKey } from '../../model/index.js'
import { BugError } from '../../errors.js'
import type { DesiredRoute, Skeleton } from './desired.js'
import { IptablesLedger } from './ledger.js'
import { LookSchedule } from './look-schedule.js'
import { type IptablesXtables, IptablesTables, type WriteReport } from './tables.js'
import { dispatchChains } from './names.js'

/** The settings of a mode on which the layer itself depends. */
export interface XtablesSettings {
  /** Node ports are served on loopback addresses. */
  readonly localhostNodePorts: boolean
}

interface XtablesLayerOptions<S> extends FamilyContext, FamilyParts {
  /** The rules of the mode itself. Pure. */
  readonly skeletonOf: (settings: S) => Skeleton
  readonly tables: IptablesXtables
  /**
   * Makes the kernel route packets from loopback addresses to endpoints. Called after the write of the guard. It reports its own
   * problems.
   */
  readonly routeLocalnet: () => Promise<void>
  readonly formerChains: ChainNames
}

interface State {
  readonly ledger: IptablesLedger
  readonly tables: IptablesTables
}

/**
 * The first sync has no order of importance: a table is replaced as a whole, so the API server's Service and the cluster's DNS are served
 * at the same moment as all others. Without a difference, full comparisons become less frequent than `syncPeriodMs` (`LookSchedule`).
 */
export class XtablesLayer<S extends XtablesSettings> implements Layer<S, DesiredRoute> {
  readonly #options: XtablesLayerOptions<S>
  /** When to look at the tables. The watch of the kernel tells it what it sees. */
  readonly lookSchedule: LookSchedule
  #opened: State | undefined
  #hasTakenOver = false
  #isLocalhostDue = false
  /** The outcome of the last write; undefined: not everything is in force. */
  #report: WriteReport | undefined

  constructor(options: XtablesLayerOptions<S>) {
    this.#options = options
    const { clock, lookClock = clock, syncPeriodMs } = options
    this.lookSchedule = new LookSchedule(lookClock, syncPeriodMs)
  }

  /** The kernel's unit is a table. */
  get writesAll(): boolean {
    return true
  }

  async open(known: 'listed' | 'synced'): Promise<void> {
    if (this.#opened !== undefined) return
    const isBeside = known === 'listed' && (await hasFormerOwner(this.#options.tables))
    const ledger = new IptablesLedger({ isBeside })
    this.#opened = { ledger, tables: new IptablesTables({ ...this.#options, source: ledger }) }
  }

  async look(): Promise<Look> {
    const { tables } = this.#state
    const look = this.lookSchedule.take()
    if (look === 'none') return look
    const isDifferent = await tables.look(look)
    if (look === 'full') this.lookSchedule.endComparison()
    if (isDifferent) return 'different'
    return look === 'full' ? 'full' : 'partial'
  }

  configure(settings: S): void {
    this.#isLocalhostDue = settings.localhostNodePorts
    this.#state.ledger.setSkeleton(this.#options.skeletonOf(settings))
  }

  claim(key: ServicePortKey, claim: Claim<DesiredRoute> | undefined): void {
    const { ledger, tables } = this.#state
    ledger.claim(key, claim?.desired)
    tables.noteClaim(key)
  }

  async stage(pass: Pass): Promise<void> {
    await this.#state.tables.stage(pass)
  }

  async write(pass: Pass, options: WriteOptions): Promise<Written> {
    const isComplete = await this.#writeTables(pass, options)
    const { ledger } = this.#state
    return {
      isComplete,
      sizes: ledger.sizes,
      logFields: {
        numFilterRules: ledger.countRules('filter'),
        numNATRules: ledger.countRules('nat'),
        tables: this.#report,
      },
    }
  }

  async #writeTables(pass: Pass, { isComplete }: WriteOptions): Promise<boolean> {
    const { ledger, tables } = this.#state
    if (isComplete && !this.#hasTakenOver) {
      this.#hasTakenOver = true
      ledger.standAlone()
      tables.pruneSoon()
    }
    this.#report = await tables.write(pass, { mayPrune: isComplete })
    this.lookSchedule.noteChange()
    if (this.#report === undefined) return false
    if (!this.#isLocalhostDue) return true
    this.#isLocalhostDue = false
    await this.#options.routeLocalnet()
    return true
  }

  dueRoutes(): readonly ServicePortKey[] {
    return this.#state.tables.dueRoutes()
  }

  get state(): LayerState {
    const tables = this.#opened?.tables
    return {
      isWriteDue: tables?.isWriteDue === true,
      // Before the tables were opened, nothing is in the kernel.
      isBehind: tables?.isBehind !== false,
      hasRefusals: tables?.hasRefusals === true,
      nextInMs: Math.min(this.lookSchedule.nextInMs(), tables?.nextInMs() ?? Infinity),
    }
  }

  /** The tables are as desired, without chains of a former owner. */
  get isInOrder(): boolean {
    return this.#hasTakenOver && this.#opened?.tables.isBehind === false
  }

  get tables(): IptablesXtables {
    return this.#options.tables
  }

  /** undefined: no pass has begun. */
  get ledger(): IptablesLedger | undefined {
    return this.#opened?.ledger
  }

  get #state(): State {
    if (this.#opened === undefined) throw new BugError('a call before open()')
    return this.#opened
  }
}

/** Whether base chains of kube-proxy or of a former run exist. Throws KernelError. */
export async function hasFormerOwner(tables: IptablesXtables): Promise<boolean> {
  const wanted = Object.values(dispatchChains)
  for (const table of ['nat', 'filter'] as const) {
    const present = new Set((await tables[table].chains()).map(({ chain }) => chain))
    if (wanted.some((base) => base.table === table && present.has(base.chain))) return true
  }
  return false
}

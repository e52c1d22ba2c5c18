import type { IpAddress } from '../address.js'
import { KernelError } from '../errors.js'
import type { LinkEvent } from '../kernel/index.js'
import type { PacketTotals } from '../metrics/index.js'
import type { FamilyTracker, ServicePort, ServicePortKey, ServiceView, Share } from '../model/index.js'
import type { NodeChange } from '../node/index.js'
import type { Frontend, LostFrontend, Route } from '../routing/index.js'
import type { FamilyHealth } from './backlog.js'
import type { RunTerms } from './bounded-runner.js'
import { claimDirty } from './claim-dirty.js'
import { type FamilyContext, readAgainMs } from './family-context.js'
import type { FamilyMode, OpenFamilyMode } from './family-mode.js'
import { FamilySettings } from './family-settings.js'
import type { FollowUp, OpenFollowUp } from './follow-up.js'
import { ConflictReports } from './frontend-conflict.js'
import { FullSync, Pass, PassHistory, type PassReason, type PassRecord } from './pass.js'
import { InForceTimes } from './in-force-times.js'
import type { FamilyIntake } from './family-intake.js'
import type { Intake } from './intake.js'
import { KernelQuestions } from './kernel-questions.js'
import type { Claim, Layer, Look } from './layer.js'
import { LookTurns } from './look-turns.js'
import type { Pipeline } from './pipeline.js'
import { RouteDecisions } from './route-decisions.js'
import { ServedRoutes } from './served-routes.js'
import { ShareSize, shareMs } from './share-size.js'
import type { PassPause } from './pass-pause.js'
import type { PacketRules } from './packet-rules.js'
import { StageTimes } from './stage-times.js'
import { worldSize } from './sync-report.js'

export interface FamilyOptions<S, D> extends FamilyContext {
  /** Has the objects of the family. */
  readonly intake: Pick<Intake, 'openFamily'>
  readonly openMode: OpenFamilyMode<S, D>
  readonly openFollowUp: OpenFollowUp
  /** The settings of the mode depend on the machine's addresses, even if node ports are served at all of them. */
  readonly needsMachine?: boolean
  /** Metrics and the log tell syncs that compare or rewrite everything from those that write changes. */
  readonly hasPartialSyncs?: boolean
  /** A sync that wrote only changes has failed. Absent: nothing counts them. */
  readonly onPartialFailure?: () => void
  /** The work of one pass. Absent: it is learned. */
  readonly shareSize?: Pick<ShareSize, 'units' | 'note'>
  /** Keeps times without transactions, for other programs. Absent: passes follow each other at any time. */
  readonly pause?: PassPause | undefined
}

/** A look that did not fail. */
type Looked = Exclude<Look, 'failed'>

/** Facts about a pass that decide on what it writes, and on its metrics. */
interface Work {
  readonly look: Looked
  readonly routes: number
  readonly isRenewed: boolean
  /** All objects are known for the first time: what a former owner left goes. */
  readonly isTakeover: boolean
}

/** The loop of one family: from events to the layer of a mode, and back. */
export class Family<S, D> implements Pipeline {
  readonly #options: FamilyOptions<S, D>
  readonly #mode: FamilyMode<S, D>
  readonly #layer: Layer<S, D>
  readonly #questions: KernelQuestions
  readonly #intake: FamilyIntake
  readonly #settings: FamilySettings<S, D>
  readonly #decisions: RouteDecisions
  readonly #served: ServedRoutes<S>
  readonly #followUp: FollowUp
  readonly #stages: StageTimes
  readonly #history = new PassHistory()
  readonly #fullSync = new FullSync()
  readonly #shareSize: Pick<ShareSize, 'units' | 'note'>
  #isUnfinished = false
  readonly #lookTurns: LookTurns
  readonly #inForce = new InForceTimes({
    isKnown: (key) => this.#tracker.servicePort(key) !== undefined,
    hasFailures: () => this.#wereRefused,
  })
  #hasTakenOver = false
  /** Everything was in the kernel once, after all objects were known. */
  #isComplete = false
  #isInForce = false
  #isWatchable = false
  /** The kernel refused objects of the last write. */
  #wereRefused = false
  /** The machine's addresses that `Admission` has. */
  #admitted: readonly IpAddress[] | undefined
  #isStopping = false
  /** The pass in progress has called the layer's write. */
  #hasWritten = false
  /** The pass in progress. It never rejects. */
  #run: Promise<unknown> | undefined
  readonly readFlows?: NonNullable<Pipeline['readFlows']>
  readonly readCounters?: NonNullable<Pipeline['readCounters']>

  constructor(options: FamilyOptions<S, D>) {
    this.#options = options
    this.#shareSize = options.shareSize ?? new ShareSize(shareMs)
    this.#lookTurns = new LookTurns(options.clock)
    const stages = new StageTimes(options.clock)
    this.#stages = stages
    this.#questions = new KernelQuestions({ ...options, stages })
    this.#intake = options.intake.openFamily(options)
    const reports = new ConflictReports(options)
    const tracker = this.#tracker
    this.#decisions = new RouteDecisions({ ...options, tracker, reports, stages })
    this.#settings = new FamilySettings({ ...options, tracker, mode: () => this.#mode })
    this.#served = new ServedRoutes({
      tracker,
      mode: () => this.#mode,
      settings: () => this.#settings.current,
      reports,
    })
    this.#followUp = options.openFollowUp({
      ...options,
      tracker,
      reports,
      nodePortAddresses: this.#settings.nodePortAddresses,
    })
    this.#mode = options.openMode({
      ...options,
      stages,
      questions: this.#questions,
      portNameOf: tracker.portName.bind(tracker),
      hasEndpoint: (key, { address, port }) =>
        tracker
          .withEndpoints(key)
          ?.endpoints.some((each) => each.address === address && each.port === port) === true,
    })
    this.#layer = this.#mode.layer
    const { view } = this.#mode
    if (view.readFlows !== undefined) this.readFlows = view.readFlows.bind(view)
    if (view.readCounters !== undefined) this.readCounters = async () => await this.#readCounters()
  }

  get #tracker(): FamilyTracker {
    return this.#intake.tracker
  }

  needsRun(): boolean {
    return this.#intake.needsRun(
      (known) => this.#settings.areDue || (known === 'synced' && !this.#hasTakenOver),
    )
  }

  applyNode(change: NodeChange): boolean {
    const { routing, places, modeSettings, vipBinding } = change
    const { admission } = this.#mode
    if (routing) this.#tracker.markAll()
    if (places || modeSettings) admission?.note()
    const isDecisionConcerned = places && this.#decisions.applyPlaces()
    const isLayerConcerned = vipBinding && this.#layer.noteVipBinding?.() === true
    const isAdmissionConcerned = places && admission?.isRenewDue === true
    const isRenewDue = this.#settings.applyNode(change)
    return isRenewDue || isDecisionConcerned || isLayerConcerned || isAdmissionConcerned
  }

  applyLinks(events: readonly LinkEvent[]): boolean {
    const isDecisionConcerned = this.#decisions.applyLinks(events)
    const isLayerConcerned = this.#layer.noteLinks?.(events) === true
    return this.#settings.applyLinks(events) || isDecisionConcerned || isLayerConcerned
  }

  stopSoon(): void {
    this.#isStopping = true
    this.#layer.stopSoon?.()
    this.#options.pause?.hurry()
  }

  get isUnfinished(): boolean {
    return this.#isUnfinished
  }

  get knowsObjects(): boolean {
    return this.#intake.known !== 'nothing'
  }

  get isInForce(): boolean {
    return this.#isInForce && this.#layer.state.isDenied !== true
  }

  get hasRefusals(): boolean {
    return this.#layer.state.hasRefusals
  }

  get isWatchable(): boolean {
    return this.#isWatchable
  }

  get services(): ServiceView {
    return this.#intake.currentTracker
  }

  inForceSince(key: ServicePortKey): number | undefined {
    if (this.#tracker.isDirty(key)) return undefined
    return this.#inForce.since(key)
  }

  ownerOf(frontend: Frontend): ServicePortKey | undefined {
    return this.#served.ownerOf(frontend)
  }

  lostFrontends(port: ServicePort): readonly LostFrontend[] {
    return this.#served.lostFrontends(port)
  }

  get passes(): readonly PassRecord[] {
    return this.#history.records
  }

  get health(): FamilyHealth {
    const { health } = this.#intake.backlog
    const { isDenied = false, lacksRight = false } = this.#layer.state
    return { ...health, isHealthy: health.isHealthy && !isDenied, lacksRight }
  }

  async countPackets(): Promise<PacketTotals | undefined> {
    return await this.#mode.view.countPackets?.(this.#settings.current)
  }

  async #readCounters(): ReturnType<NonNullable<Pipeline['readCounters']>> {
    // Before the first complete write, the objects in these places may belong to another program.
    const settings = this.#settings.current
    if (settings === undefined || !this.#isInForce) return undefined
    const wasInForce = this.#inForce.asOfNow()
    const isOfReading = ({ key }: Pick<Route, 'key'>): boolean =>
      !this.#tracker.isDirty(key) && wasInForce(key)
    const reading = await this.#mode.view.readCounters?.(settings, isOfReading)
    if (reading === undefined) return undefined
    return (decided) => {
      const served = this.#served.serveWhole(decided)
      return served && reading(served)
    }
  }

  describe(decided: Route): readonly string[] {
    const settings = this.#settings.current
    if (settings === undefined) return []
    const claim = this.#viewOf(decided, settings)
    return claim === undefined ? [] : this.#mode.view.describe(claim, settings)
  }

  packetRules(): PacketRules | undefined {
    const settings = this.#settings.current
    return settings && this.#mode.view.packetRules(settings)
  }

  async differences(decided: Route): Promise<readonly string[] | undefined> {
    // A pass hands its write over in parts: between them an object may name one that does not exist yet.
    while (this.#run !== undefined) await this.#run
    const settings = this.#settings.current
    // The kernel has its former route until its share is written.
    if (settings === undefined || this.#tracker.isDirty(decided.key)) return undefined
    const claim = this.#viewOf(decided, settings)
    const own = claim === undefined ? [] : await this.#mode.view.differences(claim)
    return [...own, ...((await this.#layer.differences?.()) ?? [])]
  }

  async close(): Promise<void> {
    await this.#followUp.stop()
  }

  get mayRunInRest(): boolean {
    return this.#isDivisible && !this.#settings.areDue
  }

  async runOnce(terms: RunTerms = { isResting: false }): Promise<number | undefined> {
    const { pause } = this.#options
    await pause?.begin()
    this.#hasWritten = false
    this.#isUnfinished = false
    try {
      const run = this.#pass(terms)
      this.#run = run.catch(() => undefined).finally(() => (this.#run = undefined))
      return await run
    } finally {
      pause?.end({ hasWritten: this.#hasWritten, isUnfinished: this.#isUnfinished })
    }
  }

  async #pass({ isResting }: RunTerms): Promise<number | undefined> {
    // Read before `#claimDirty` takes the events. A `synced` that arrives later counts in the next pass: objects that came before it
    // may not be claimed in this one.
    const { known, backlog } = this.#intake
    if (known === 'nothing') return undefined
    const { metrics, syncPeriodMs } = this.#options
    const pass = new Pass({
      ...this.#options,
      events: this.#intake.beginRun(),
      stages: this.#stages,
      inForce: this.#inForce,
    })
    const look = await this.#readKernel(known)
    this.#admitMachine()
    const isRenewed = look === 'failed' ? 'failed' : await this.#settings.renew()
    if (look === 'failed' || isRenewed === 'failed') {
      backlog.waitOn()
      return readAgainMs
    }
    pass.reason = this.#reasonOf(look, isRenewed)
    const due = this.#layer.dueRoutes?.() ?? []
    if (due.length > 0) this.#tracker.mark(due)
    const startMs = this.#options.clock.now()
    const share = this.#shareOf({ isRenewed, isResting })
    const routes = await this.#claimAll(pass, share)
    metrics.dirtyRoutes.inc(routes)
    if (this.#isStopping) return undefined
    const isTakeover = known === 'synced' && !this.#hasTakenOver
    this.#hasTakenOver ||= isTakeover
    const hasNews = routes > 0 || isRenewed || isTakeover
    const state = hasNews ? undefined : this.#layer.state
    if (state === undefined || state.isWriteDue)
      await this.#write(pass, { look, routes, isRenewed, isTakeover })
    else if (!state.isBehind && this.#followUp.isOlderThan(syncPeriodMs)) await this.#settle()
    const { hasLeft } = this.#intake
    const { isBehind, nextInMs } = this.#layer.state
    // The next try is due when the layer says so, and takes everything.
    this.#isUnfinished = hasLeft && !isBehind
    if (this.#isUnfinished && share?.isSmall === false)
      this.#shareSize.note(this.#options.clock.now() - startMs)
    if (isBehind || this.#settings.isReadDue) backlog.waitOn()
    else backlog.settle(this.#intake.left)
    // The former addresses stay in force until the kernel answers.
    if (this.#settings.isReadDue) return Math.min(nextInMs ?? Infinity, readAgainMs)
    return hasLeft && isBehind ? (nextInMs ?? readAgainMs) : nextInMs
  }

  /** Looks at the kernel, and reads what the settings depend on. */
  async #readKernel(known: 'listed' | 'synced'): Promise<Looked | 'failed'> {
    const layer = this.#layer
    if (layer.open !== undefined) {
      const question = { key: 'read', subject: 'state of the kernel' }
      const opened = await this.#questions.ask(question, async () => await layer.open?.(known))
      if (opened instanceof KernelError) return 'failed'
    }
    const { isBehind, isLooking } = layer.state
    const mayLook = this.#lookTurns.take(this.#isComplete && this.#intake.hasChanges && !isBehind, isLooking)
    const look = (mayLook ? await layer.look?.(known) : undefined) ?? 'none'
    if (look === 'different') this.#followUp.recheckFlows()
    // Immediately before the settings: an event during the look makes the last addresses invalid.
    const addresses = { key: 'read addresses', subject: 'addresses of this machine' }
    const read = await this.#questions.ask(addresses, async () => await this.#settings.read())
    return read instanceof KernelError && this.#settings.current === undefined ? 'failed' : look
  }

  /** Addresses of this machine belong to no other machine. */
  #admitMachine(): void {
    const { machine } = this.#settings
    if (machine === this.#admitted) return
    this.#admitted = machine
    this.#mode.admission?.setMachine(machine)
  }

  /** The reason of the pass in progress. Called before the service ports to retry become dirty. */
  #reasonOf(look: Looked, isRenewed: boolean): PassReason {
    if (!this.#isComplete) return 'start'
    if (this.#tracker.hasDirty || isRenewed) return 'change'
    if (isComparison(look)) return 'reconcile'
    const { isBehind, hasRefusals } = this.#layer.state
    return isBehind || hasRefusals ? 'retry' : 'change'
  }

  /** undefined: the node serves no frontend of the route. */
  #viewOf(decided: Route, settings: S): Claim<D> | undefined {
    const served = this.#served.serveWhole(decided)
    return served && { decided, served, desired: this.#mode.compile(served, settings) }
  }

  /**
   * The work of one pass; undefined: all. Until everything was in the kernel once, and after a change that concerns all service ports, nothing
   * is gained by shares, and the whole takes longer. What the kernel refused is sent again as a whole: in shares, each one would send it.
   */
  #shareOf({ isRenewed, isResting }: RunTerms & { readonly isRenewed: boolean }): Share | undefined {
    if (isRenewed || !this.#isDivisible) return undefined
    return { units: this.#shareSize.units, isSmall: isResting }
  }

  get #isDivisible(): boolean {
    const { writesAll = false, state } = this.#layer
    return this.#isComplete && !writesAll && !this.#tracker.areAllDirty && !state.isBehind
  }

  /** Resolves with the number of service ports that changed. */
  async #claimAll(pass: Pass, share: Share | undefined): Promise<number> {
    const { admission } = this.#mode
    const claimed = await this.#claimDirty(pass, share)
    if (admission === undefined) return claimed
    const changed = await admission.renew()
    if (changed.length === 0) return claimed
    // They are in the next share: this one is as long as it may be.
    if (share !== undefined) this.#intake.leave(changed)
    else this.#tracker.mark(changed)
    return share === undefined ? claimed + (await this.#claimDirty(pass, share)) : claimed
  }

  async #claimDirty(pass: Pass, share: Share | undefined): Promise<number> {
    const staged: Promise<void>[] = []
    const routes = await claimDirty({
      ...this.#options,
      pass,
      share,
      intake: this.#intake,
      unmark: (key) => this.#intake.unmark(key),
      decisions: this.#decisions,
      claim: (key, decided) => this.#prepareAndClaim(key, decided),
      claimFrontends: (key, decided) => this.#served.claim(key, decided),
      takeConcerned: () => this.#served.takeConcerned(),
      onSlice: () => {
        // Stages this part while the next one is compiled.
        const staging = this.#layer.stage?.(pass)
        // A later await throws its error.
        staging?.catch(() => {})
        if (staging !== undefined) staged.push(staging)
      },
      isStopping: () => this.#isStopping,
    })
    await Promise.all(staged)
    return routes
  }

  #prepareAndClaim(key: ServicePortKey, decided: Route | undefined): void | Promise<void> {
    const served = decided && this.#served.serve(decided)
    // Without a frontend, nothing of the service port depends on the kernel.
    const preparation = served && this.#mode.prepare?.(served)
    if (preparation === undefined) return this.#claim(key, decided, served)
    return preparation.then(() => this.#claim(key, decided, served))
  }

  #claim(key: ServicePortKey, decided: Route | undefined, served: Route | undefined): void {
    const settings = this.#settings.current
    const desired = served && settings && this.#mode.compile(served, settings)
    this.#layer.claim(key, decided && served && desired && { decided, served, desired })
    this.#followUp.note(key, served)
  }

  async #write(pass: Pass, { look, routes, isRenewed, isTakeover }: Work): Promise<void> {
    const { log, hasPartialSyncs = false } = this.#options
    this.#hasWritten = true
    const isFull = this.#fullSync.begin(isTakeover || isRenewed || isComparison(look))
    const written = await this.#layer.write(pass, { isComplete: this.#hasTakenOver })
    this.#wereRefused = this.#layer.state.hasRefusals
    const { isComplete, sizes, logFields } = written
    if (written.isFlowDoubtful === true) this.#followUp.recheckFlows()
    if (isComplete) this.#fullSync.noteWritten()
    else pass.fail()
    const kind = hasPartialSyncs ? { full: isFull } : {}
    const world = log.writes('debug') ? worldSize(this.#tracker) : {}
    const fields = { ...kind, routes, ...world, ...sizes, ...logFields }
    // An object that the kernel refuses does not make the sync of the others older.
    const oldestInForceMs = (): number | undefined => this.#intake.backlog.oldestInForce(this.#intake.left)
    const record = pass.end({
      hasRefusals: false,
      oldestInForceMs,
      sizes,
      fields,
      logged: written.loggedOperations,
    })
    this.#history.add(record)
    if (hasPartialSyncs) this.#count(record, isFull)
    if (!isComplete) return
    await this.#settle()
    this.#isWatchable = true
    this.#isComplete ||= this.#hasTakenOver
    // Without a right, what another mode left still serves: it stays as long as this mode is not in force.
    this.#isInForce ||= this.#isComplete && this.#layer.state.lacksRight !== true
  }

  #count({ durationMs, isComplete }: PassRecord, isFull: boolean): void {
    const { metrics, onPartialFailure } = this.#options
    const duration = isFull ? metrics.fullSyncDurationSeconds : metrics.partialSyncDurationSeconds
    duration.observe(durationMs / 1000)
    if (!isComplete && !isFull) onPartialFailure?.()
  }

  /** The work that follows a complete write, and recurs every sync period. A new owner of a frontend is reported only now. */
  async #settle(): Promise<void> {
    await this.#followUp.run({
      conflicts: this.#served.takeConflicts((key) => this.#tracker.isDirty(key)),
      isComplete: this.#hasTakenOver,
      machine: this.#settings.machine,
    })
  }
}

/** Whether our objects were compared, or differ. A partial look without a difference compared only what has certainly changed. */
function isComparison(look: Looked): boolean {
  return look === 'full' || look === 'different'
}

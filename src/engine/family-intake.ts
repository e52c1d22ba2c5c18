// The intake of one family: since when its events wait, and when they need a run.
import type { IpFamily } from '../address.js'
import { type Log, type Problem, StateReporter } from '../log.js'
import {
  type FamilyTracker,
  type ReportProblems,
  serviceOfPort,
  type ServicePortKey,
  type Share,
} from '../model/index.js'
import { Backlog, type BacklogOptions, type RunEvents } from './backlog.js'
import type { Change, LeftPorts } from './event-list.js'
import type { NameList } from './name-list.js'
import { logFamily } from './sync-report.js'

/** `listed`: all objects except some that cannot be read. `synced`: all objects. */
export type KnownObjects = 'nothing' | 'listed' | 'synced'

export interface FamilyIntakeOptions extends BacklogOptions {
  /** Gets objects that are not programmed, or not completely; of both families. */
  readonly problems: StateReporter
  readonly log: Log
}

/** The part of the intake that all families share. */
export interface SharedIntake {
  readonly known: KnownObjects
  /** The number of changes that wait for a run. */
  readonly waitingCount: number
  /** Applies the oldest changes that wait, at most `count`. */
  applyWaiting(count: number): void
}

/** Longest time for which changes that waited are applied before other work gets its turn. */
const sliceMs = 8

/** Which objects are known, which service ports of the family changed, and since when its events wait. */
export class FamilyIntake {
  readonly family: IpFamily
  /** NB: without the changes that wait. Readers use `currentTracker`. */
  readonly tracker: FamilyTracker
  readonly backlog: Backlog
  readonly #options: FamilyIntakeOptions
  readonly #shared: SharedIntake
  /** The changes of the present delivery. */
  #arrived: Change[] = []
  /** The present delivery concerns the family. */
  #isConcerned = false
  /** A change of the present delivery that concerns the family waits. */
  #mustApply = false
  #hasLeft = false
  /** `known` at the start of the run in progress. */
  #knownInRun: KnownObjects = 'nothing'

  /** `firstObjects`: those of events that came, or come still, before the first listing is complete. */
  constructor(
    options: FamilyIntakeOptions,
    tracker: FamilyTracker,
    shared: SharedIntake,
    firstObjects: NameList,
  ) {
    this.#options = options
    this.family = options.family
    this.tracker = tracker
    this.#shared = shared
    this.backlog = new Backlog(options, firstObjects)
  }

  get known(): KnownObjects {
    return this.#shared.known
  }

  /** The tracker with all changes. */
  get currentTracker(): FamilyTracker {
    this.#shared.applyWaiting(this.#shared.waitingCount)
    return this.tracker
  }

  /** Reports the problems of the family's objects from now on. */
  reportProblems(): void {
    this.tracker.reportTo(reporterOf(this.#options))
  }

  /** An event of the present delivery concerns the family, and changed these facts. */
  note(changes: readonly Change[]): void {
    this.#isConcerned = true
    this.#arrived.push(...changes)
  }

  /**
   * A change of the present delivery concerns the family, and waits for the run that `needsRun` asks for. `service`: the Service,
   * `namespace/name`, that it is of; undefined: unknown. `facts`: of the change that it replaces.
   */
  noteWaiting(service: string | undefined, facts: readonly Change[] = []): void {
    this.note([...facts, { type: 'waiting', service }])
    this.#mustApply = true
  }

  /**
   * Ends the present delivery. Returns whether it needs a run: objects were listed, and a service port changed, or may change by what
   * waits, or `isUnsettled` returns true for the objects that are known now.
   */
  needsRun(isUnsettled: (known: KnownObjects) => boolean): boolean {
    const { known } = this.#shared
    if (known === 'nothing' || !this.#isConcerned) return false
    const isWork = this.#mustApply || this.tracker.hasDirty || isUnsettled(known)
    if (isWork) this.backlog.note(this.#arrived)
    this.#arrived = []
    this.#isConcerned = false
    this.#mustApply = false
    return isWork
  }

  /** A run begins, for the events that wait. */
  beginRun(): RunEvents {
    this.#knownInRun = this.#shared.known
    return this.backlog.begin()
  }

  /** The last `takeDirty` left service ports for another share. */
  get hasLeft(): boolean {
    return this.#hasLeft
  }

  /** Changes wait for a run. */
  get hasChanges(): boolean {
    return this.tracker.hasDirty || this.#shared.waitingCount > 0
  }

  /** The service ports wait for another share. */
  leave(keys: Iterable<ServicePortKey>): void {
    this.tracker.mark(keys)
    this.#hasLeft = this.tracker.hasDirty
  }

  /** The run takes the service port although it is not in its share: it is dirty no more. */
  unmark(key: ServicePortKey): void {
    this.tracker.unmark(key)
    this.backlog.noteTaken([serviceOfPort(key)])
  }

  /** The service ports that wait for another share; undefined: there are none. */
  get left(): LeftPorts | undefined {
    return this.tracker.hasDirty ? this.tracker : undefined
  }

  /**
   * The run takes the changed service ports, those of events that came since it began included. Such events join the run. If a
   * milestone was among them, they wait for the next run, which does what the milestone allows. `share`: it takes a part of the service
   * ports, as `FamilyTracker.take` does.
   */
  async takeDirty(share?: Share): Promise<{
    readonly dirty: ReadonlySet<ServicePortKey>
    readonly events: RunEvents | undefined
  }> {
    const { clock } = this.#options
    const shared = this.#shared
    let sliceStartMs = clock.now()
    for (let waiting = shared.waitingCount; waiting > 0; waiting--) {
      shared.applyWaiting(1)
      if (clock.now() - sliceStartMs < sliceMs) continue
      await clock.pause()
      sliceStartMs = clock.now()
    }
    // Those that came during the pauses.
    shared.applyWaiting(shared.waitingCount)
    const generation = this.tracker.dirtyGeneration
    const dirty = this.tracker.take(share)
    this.backlog.noteTaken(servicesOf(dirty))
    const events = shared.known === this.#knownInRun ? this.backlog.join(generation) : undefined
    this.#hasLeft = this.tracker.hasDirty
    return { dirty, events }
  }
}

/** The Services of the ports, `namespace/name`; one may be repeated. */
function* servicesOf(ports: Iterable<ServicePortKey>): Iterable<string> {
  for (const key of ports) yield serviceOfPort(key)
}

/** Problems are errors. A Service without a cluster IP that is served at other frontends is none. */
function reporterOf({ family, problems, log }: FamilyIntakeOptions): ReportProblems {
  const withoutClusterIP = new StateReporter({
    log,
    level: 'info',
    problemLine: 'Service has no cluster IP',
    recovery: 'Service has a cluster IP now',
  })
  return ({ kind, name }, found, servedAt) => {
    const object = `${kind} ${name}`
    const key = `${family} ${object}`
    if (servedAt !== undefined) withoutClusterIP.report(key, servedWithout(name, servedAt, family))
    else if (found?.length === 0) withoutClusterIP.report(key, undefined)
    else withoutClusterIP.forget(key)
    if (found === undefined) problems.forget(key)
    else problems.report(key, found.length === 0 ? undefined : { text: `${object}: ${found.join('; ')}` })
  }
}

function servedWithout(service: string, servedAt: string, family: IpFamily): Problem {
  return {
    text: `${service} is served at ${servedAt} only`,
    fields: { service, ipFamily: logFamily(family) },
  }
}

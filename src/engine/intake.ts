import type { Clock } from '../clock.js'
import { type ServicePortKey, Tracker } from '../model/index.js'
import { type KubernetesObject, type ObjectChange, type ObjectEvent, objectOf } from '../source/index.js'
import type { IpFamily } from '../address.js'
import type { FeatureGates } from '../config/index.js'
import { type Log, type Problem, StateReporter } from '../log.js'
import { Backlog, type BacklogOptions, type Change, type RunEvents } from './backlog.js'
import { logFamily } from './sync-report.js'

/** `listed`: all objects except some that cannot be read. `synced`: all objects. */
export type KnownObjects = 'nothing' | 'listed' | 'synced'

/** Longest time for which changes that waited are applied before other work gets its turn. */
const sliceMs = 8

/**
 * Takes in the events of one family: which objects are known, which service ports changed, and since when events wait. While changed
 * service ports wait for a run, the changes of objects wait too, the newest one of each object, and the run applies them: however often
 * an object changes, a run pays for it twice at most.
 */
export class Intake {
  /** NB: without the changes that wait. Readers use `currentTracker`. */
  readonly tracker: Tracker
  readonly backlog: Backlog
  readonly #clock: Pick<Clock, 'now' | 'pause'>
  /** Empty unless service ports are dirty. */
  readonly #queue = new EventQueue()
  #known: KnownObjects = 'nothing'
  /** `known` at the start of the run in progress. */
  #knownInRun: KnownObjects = 'nothing'

  constructor(options: OpenTrackerOptions & BacklogOptions) {
    this.tracker = openTracker(options)
    this.backlog = new Backlog(options)
    this.#clock = options.clock
  }

  get known(): KnownObjects {
    return this.#known
  }

  /** The tracker with all changes. */
  get currentTracker(): Tracker {
    this.#applyQueued(this.#queue.size)
    return this.tracker
  }

  /**
   * Takes events in. Returns whether a run is needed: objects were listed, and a service port changed or `isUnsettled` returns true
   * for the objects that are known now.
   */
  apply(events: readonly ObjectEvent[], isUnsettled: (known: KnownObjects) => boolean): boolean {
    const changes: Change[] = []
    for (const event of events) {
      if (event.type === 'set' || event.type === 'delete') {
        changes.push(...this.#takeIn(event))
        continue
      }
      this.tracker.apply(event)
      if (event.type === 'listed' || event.type === 'synced') this.#known = event.type
    }
    const isWork = this.#known !== 'nothing' && (isUnsettled(this.#known) || this.tracker.hasDirty)
    if (isWork) this.backlog.note(changes)
    // The first run begins with everything that came before the listing was complete.
    else if (this.#known === 'nothing') this.backlog.noteObjects(changes)
    return isWork
  }

  /** A run begins, for the events that wait. */
  beginRun(): RunEvents {
    this.#knownInRun = this.#known
    return this.backlog.begin()
  }

  /**
   * The run takes the changed service ports, those of events that came since it began included. Such events join the run. If a
   * milestone was among them, they wait for the next run, which does what the milestone allows.
   */
  async takeDirty(): Promise<{
    readonly dirty: ReadonlySet<ServicePortKey>
    readonly events: RunEvents | undefined
  }> {
    const clock = this.#clock
    let sliceStartMs = clock.now()
    for (let waiting = this.#queue.size; waiting > 0; waiting--) {
      this.#applyQueued(1)
      if (clock.now() - sliceStartMs < sliceMs) continue
      await clock.pause()
      sliceStartMs = clock.now()
    }
    // Those that came during the pauses.
    this.#applyQueued(this.#queue.size)
    const events = this.#known === this.#knownInRun ? this.backlog.join() : undefined
    return { dirty: this.tracker.take(), events }
  }

  /**
   * Applies the change, or lets it wait. Before the first listing is over, no run is due, and nothing waits. Nor does a ServiceCIDR: the
   * settings of a run depend on it.
   */
  #takeIn(change: ObjectChange): readonly Change[] {
    const mayWait = this.#known !== 'nothing' && kindOf(change) !== 'ServiceCIDR'
    if (!mayWait || !this.tracker.hasDirty) return applyChange(this.tracker, change)
    const replaced = this.#queue.put(change)
    return replaced === undefined ? [] : replacedChange(replaced, change)
  }

  #applyQueued(count: number): void {
    for (const change of this.#queue.take(count)) this.backlog.noteApplied(applyChange(this.tracker, change))
  }
}

/** Changes that wait, at most one per object: the newest one replaces the one that waits, and takes its place. */
class EventQueue {
  /** By object, oldest first. */
  readonly #changes = new Map<string, ObjectChange>()

  /** Number of objects with a change that waits. */
  get size(): number {
    return this.#changes.size
  }

  /** Returns the change that this one replaces; undefined: none of its object waited. */
  put(change: ObjectChange): ObjectChange | undefined {
    const object = objectOf(change)
    const replaced = this.#changes.get(object)
    this.#changes.set(object, change)
    return replaced
  }

  /** Removes and returns the oldest changes, at most `count`. */
  take(count: number): readonly ObjectChange[] {
    const taken: ObjectChange[] = []
    for (const [object, change] of this.#changes) {
      if (taken.length >= count) break
      this.#changes.delete(object)
      taken.push(change)
    }
    return taken
  }
}

/** Applies the event to the tracker. Returns what it changed, in order; empty: nothing. */
function applyChange(tracker: Tracker, event: ObjectChange): readonly Change[] {
  // Before the slice is removed: afterwards the tracker does not know its Service.
  const service =
    event.type === 'delete' && event.kind === 'EndpointSlice' ? tracker.serviceOf(event.key) : undefined
  const changes: Change[] = service === undefined ? [] : [{ type: 'slice-gone', service }]
  if (tracker.apply(event)) changes.push(event)
  return changes
}

/** The facts that remain of `event` when `newer` replaces it before it was applied; empty: none. */
function replacedChange(event: ObjectChange, newer: ObjectChange): readonly Change[] {
  if (event.type !== 'set' || event.object.kind !== 'EndpointSlice') return []
  if (newer.type === 'set') return [{ type: 'replaced', object: event.object }]
  const { namespace, serviceName } = event.object
  return serviceName === undefined ? [] : [{ type: 'slice-gone', service: `${namespace}/${serviceName}` }]
}

function kindOf(change: ObjectChange): KubernetesObject['kind'] {
  return change.type === 'set' ? change.object.kind : change.kind
}

interface OpenTrackerOptions {
  readonly family: IpFamily
  readonly config: { readonly featureGates: Pick<FeatureGates, 'AllowServiceExternalIPs'> }
  /** Gets objects that are not programmed, or not completely; of both families. */
  readonly problems: StateReporter
  readonly log: Log
}

/** The tracker of one family, as every mode needs it. */
export function openTracker({ family, config, problems, log }: OpenTrackerOptions): Tracker {
  const withoutClusterIP = new StateReporter({
    log,
    level: 'info',
    problemLine: 'Service has no cluster IP',
    recovery: 'Service has a cluster IP now',
  })
  return new Tracker(
    family,
    ({ kind, name }, found, servedAt) => {
      const object = `${kind} ${name}`
      const key = `${family} ${object}`
      if (servedAt !== undefined) withoutClusterIP.report(key, servedWithout(name, servedAt, family))
      else if (found?.length === 0) withoutClusterIP.report(key, undefined)
      else withoutClusterIP.forget(key)
      if (found === undefined) problems.forget(key)
      else problems.report(key, found.length === 0 ? undefined : { text: `${object}: ${found.join('; ')}` })
    },
    { allowsExternalIPs: config.featureGates.AllowServiceExternalIPs },
  )
}

function servedWithout(service: string, servedAt: string, family: IpFamily): Problem {
  return {
    text: `${service} is served at ${servedAt} only`,
    fields: { service, ipFamily: logFamily(family) },
  }
}

import type { ServicePortKey, Tracker } from '../model/index.js'
import type { ObjectEvent } from '../source/index.js'
import { Backlog, type BacklogOptions, type RunEvents } from './backlog.js'
import { applyEvents } from './changes.js'
import { openTracker, type OpenTrackerOptions } from './open-tracker.js'

/** `listed`: all objects except some that cannot be read. `synced`: all objects. */
export type KnownObjects = 'nothing' | 'listed' | 'synced'

/** Takes in the events of one family: which objects are known, which service ports changed, and since when events wait. */
export class Intake {
  readonly tracker: Tracker
  readonly backlog: Backlog
  #known: KnownObjects = 'nothing'
  /** `known` at the start of the run in progress. */
  #knownInRun: KnownObjects = 'nothing'

  constructor(options: OpenTrackerOptions & BacklogOptions) {
    this.tracker = openTracker(options)
    this.backlog = new Backlog(options)
  }

  get known(): KnownObjects {
    return this.#known
  }

  /**
   * Takes events in. Returns whether a run is needed: objects were listed, and a service port changed or `isUnsettled` returns true
   * for the objects that are known now.
   */
  apply(events: readonly ObjectEvent[], isUnsettled: (known: KnownObjects) => boolean): boolean {
    const changes = applyEvents(this.tracker, events)
    for (const event of events) {
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
  takeDirty(): { readonly dirty: ReadonlySet<ServicePortKey>; readonly events: RunEvents | undefined } {
    const events = this.#known === this.#knownInRun ? this.backlog.join() : undefined
    return { dirty: this.tracker.take(), events }
  }
}

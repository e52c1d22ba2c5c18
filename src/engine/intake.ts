// Events of the source enter the engine here, once per agent: into the tracker, and from there into the runs of each family.
import type { IpFamily } from '../address.js'
import type { Config } from '../config/index.js'
import { type Applied, Tracker } from '../model/index.js'
import { mergeNodeChanges, noNodeChange, type NodeChange } from '../node/index.js'
import { type ObjectChange, type ObjectEvent, objectOf } from '../source/index.js'
import { EventCounts, type EventMetrics, type ChangeCounts } from './event-counts.js'
import { type Change, serviceOf } from './event-list.js'
import {
  FamilyIntake,
  type FamilyIntakeOptions,
  type KnownObjects,
  type SharedIntake,
} from './family-intake.js'
import { NameList, noteObject } from './name-list.js'

/** The facts of this node, and the decision when they are sufficient. */
export interface NodeGate {
  /** Applies the event to the facts of the node. */
  note(event: ObjectEvent): NodeChange
  /**
   * Called while a `listed` or a `synced` waits. Returns whether it counts now: the node has the facts that the rules need. If not, the
   * gate delivers when that may have changed.
   */
  mayProceed(): boolean
  /** `families`: those that are programmed. `deliver`: gets events that the gate makes; no event when a wait is over. */
  open(families: readonly IpFamily[], deliver: (events: readonly ObjectEvent[]) => void): void
  /** The agent ends: no event counts any more. */
  readonly hasEnded: boolean
}

export interface IntakeOptions {
  readonly config: Pick<Config, 'featureGates'>
  readonly node: NodeGate
  readonly metrics: EventMetrics
}

/** Events that came together: they are in the tracker, or wait there for a run. */
export interface Delivery {
  readonly nodeChange: NodeChange
  readonly counts: ChangeCounts
}

type Milestone = Extract<ObjectEvent, { readonly type: 'listed' | 'synced' }>

/**
 * Takes in the events of an agent. Objects go to the tracker at once, also while the mode is not open yet; `listed` and `synced`, without
 * which no run writes, count when the families are open and the node has the facts that the rules need. While changed service ports of a
 * family wait for a run, the changes of its objects wait too, the newest one of each object, and the next run of a family applies them:
 * however often an object changes, the agent pays for it twice at most.
 */
export class Intake implements SharedIntake {
  readonly #node: NodeGate
  readonly #counts: EventCounts
  readonly #tracker: Tracker
  /** Empty unless service ports are dirty. */
  readonly #queue = new ChangeQueue()
  readonly #families: FamilyIntake[] = []
  /** The objects that came before the first listing was complete. The first run of the family begins with them. */
  readonly #firstObjects: Readonly<Record<IpFamily, NameList>> = {
    ipv4: new NameList(),
    ipv6: new NameList(),
  }
  #known: KnownObjects = 'nothing'
  /** Those that do not count yet. */
  readonly #milestones: Milestone[] = []
  /** A change of the node's facts that the families do not know yet. */
  #nodeChange = noNodeChange
  #take: ((delivery: Delivery) => void) | undefined

  constructor({ config, node, metrics }: IntakeOptions) {
    this.#node = node
    this.#counts = new EventCounts(metrics)
    this.#tracker = new Tracker({ allowsExternalIPs: config.featureGates.AllowServiceExternalIPs })
  }

  get known(): KnownObjects {
    return this.#known
  }

  get waitingCount(): number {
    return this.#queue.size
  }

  applyWaiting(count: number): void {
    for (const change of this.#queue.take(count)) {
      const applied = this.#tracker.apply(change)
      for (const { family, backlog } of this.#families)
        backlog.noteApplied(changesIn(family, applied, change))
    }
  }

  /** Opens the intake of one family. NB: before `open`. */
  openFamily(options: FamilyIntakeOptions): FamilyIntake {
    const { family } = options
    const tracker = this.#tracker.of(family)
    const opened = new FamilyIntake(options, tracker, this, this.#firstObjects[family])
    this.#families.push(opened)
    return opened
  }

  /** The families are open: the objects of others are forgotten. `take` gets each delivery from now on, with the former ones as the first. */
  open(take: (delivery: Delivery) => void): void {
    this.#take = take
    const families = this.#families.map(({ family }) => family)
    this.#tracker.keepOnly(families)
    for (const family of this.#families) family.reportProblems()
    this.#node.open(families, (events) => this.deliver(events))
    this.deliver([])
  }

  /** Takes in events that were seen together. `listed` and `synced` count after all objects. */
  deliver(events: readonly ObjectEvent[]): void {
    for (const event of events) this.#nodeChange = mergeNodeChanges(this.#nodeChange, this.#node.note(event))
    if (this.#node.hasEnded) return
    for (const event of events) this.#takeIn(event)
    const counts = this.#counts.count(events)
    if (this.#take === undefined) return
    if (this.#milestones.length > 0 && this.#node.mayProceed()) this.#passMilestones()
    const nodeChange = this.#nodeChange
    this.#nodeChange = noNodeChange
    this.#take({ nodeChange, counts })
  }

  #takeIn(event: ObjectEvent): void {
    if (event.type === 'listed' || event.type === 'synced') this.#milestones.push(event)
    else if (event.type === 'set' || event.type === 'delete') this.#takeInChange(event)
    else this.#applyToAll(event)
  }

  #passMilestones(): void {
    for (const event of this.#milestones.splice(0)) {
      this.#known = event.type
      this.#applyToAll(event)
    }
  }

  #applyToAll(event: ObjectEvent): void {
    this.#tracker.apply(event)
    for (const family of this.#families) family.note([])
  }

  /**
   * Applies the change, or lets it wait. Before the first listing is over, no run is due, and nothing waits. Nor does a ServiceCIDR: the
   * settings of a run depend on it.
   */
  #takeInChange(change: ObjectChange): void {
    if (this.#known === 'nothing') {
      for (const family of this.#tracker.apply(change).families)
        noteObject(this.#firstObjects[family], change)
    } else if (isOfFamilies(change)) this.#applyOrKeep(change)
    else this.#note(this.#tracker.apply(change), change)
  }

  #applyOrKeep(change: ObjectChange): void {
    // NB: the changes of an object are applied in their order.
    const applied = this.#queue.has(change) ? undefined : this.#tracker.applyUnlessDirty(change)
    if (applied === undefined) this.#keep(change)
    else this.#note(applied, change)
  }

  #note(applied: Applied, change: ObjectChange): void {
    for (const family of this.#families) {
      const changes = changesIn(family.family, applied, change)
      if (changes.length > 0) family.note(changes)
    }
  }

  #keep(change: ObjectChange): void {
    const replaced = this.#queue.put(change)
    const changes = replaced === undefined ? [change] : [change, replaced]
    const concerned = new Set(changes.flatMap((each) => this.#tracker.concerned(each)))
    for (const family of this.#families)
      if (concerned.has(family.family))
        family.noteWaiting(this.#serviceOf(change), replaced && replacedFacts(replaced, change))
  }

  /** As `serviceOf`; for a slice that was removed, the Service that has it now. */
  #serviceOf(change: ObjectChange): string | undefined {
    if (change.type === 'set' || change.kind !== 'EndpointSlice') return serviceOf(change)
    const slice = `${change.key.namespace}/${change.key.name}`
    const owners = this.#families.map(({ tracker }) => tracker.serviceOf(slice))
    return owners.find((owner) => owner !== undefined)
  }
}

/** Changes that wait, at most one per object: the newest one replaces the one that waits, and takes its place. */
class ChangeQueue {
  /** By object, oldest first. */
  readonly #changes = new Map<string, ObjectChange>()

  /** Number of objects with a change that waits. */
  get size(): number {
    return this.#changes.size
  }

  /** Whether a change of the same object waits. */
  has(change: ObjectChange): boolean {
    return this.#changes.size > 0 && this.#changes.has(objectOf(change))
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

/** The facts of this family that the event changed, in order; empty: none. */
function changesIn(family: IpFamily, { families, lost }: Applied, event: ObjectChange): readonly Change[] {
  const changes: Change[] = []
  if (lost?.family === family) changes.push({ type: 'slice-gone', service: lost.service })
  if (families.includes(family)) changes.push(event)
  return changes
}

/** The facts that remain of `change` when `newer` replaces it before it was applied; empty: none. */
function replacedFacts(change: ObjectChange, newer: ObjectChange): readonly Change[] {
  if (change.type !== 'set' || change.object.kind !== 'EndpointSlice') return []
  if (newer.type === 'set') return [{ type: 'replaced', object: change.object }]
  const { namespace, serviceName } = change.object
  return serviceName === undefined ? [] : [{ type: 'slice-gone', service: `${namespace}/${serviceName}` }]
}

/** Whether some families may have the object, and others not. */
function isOfFamilies(change: ObjectChange): boolean {
  const { kind } = change.type === 'set' ? change.object : change
  return kind === 'Service' || kind === 'EndpointSlice'
}

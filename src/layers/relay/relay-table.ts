// The services and listeners of one family: what service ports want, and what the relay has.
import { KernelQuestions, type Pass, type StageTimes } from '../../engine/index.js'
import {
  type Confirmation,
  confirmBatch,
  type Failed,
  FailedObjects,
  Holdings,
  type ObjectKind,
  ObjectTable,
  planBatch,
  type TrackedObject,
} from '../objects/index.js'
import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import { isDenied, KernelError } from '../../errors.js'
import {
  describeRelayListener,
  type Relay,
  type RelayOp,
  type RelayProtocol,
  wildcardAddress,
} from '../../kernel/index.js'
import type { StateReporter } from '../../log.js'
import type { FamilyMetrics } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import { type DesiredRoute, takesNewClients } from './compile/compile.js'
import { inOrder, ListenerQueue } from './listener-queue.js'
import {
  listenerKind,
  ListenerObject,
  serviceKind,
  ServiceObject,
  type WantedListener,
  relayOperations,
} from './relay-objects.js'
import { joined, type Split, SplitListeners } from './split-listeners.js'

export interface RelayTableOptions {
  readonly family: IpFamily
  readonly relay: Pick<Relay, 'apply'>
  /** An id that no service of the relay has. */
  readonly nextId: () => number
  readonly clock: Clock
  readonly metrics: FamilyMetrics
  /** Gets the listeners that cannot be opened now, of both families. */
  readonly problems: StateReporter
  /** This process may not bind lower ports; undefined: it may, or that is not known. */
  readonly firstFreePort?: number | undefined
  /** Counts the waits for the kernel as such a stage of the pass. Absent: nothing counts them. */
  readonly stages?: StageTimes
}

/** Gets the outcome of a write. */
export type RelayPass = Pick<Pass, 'count' | 'fail'>

/** Cost of a batch, in operations and endpoints: a stop waits for one batch, which takes milliseconds. */
const maxBatchCost = 4096

/**
 * The relay is part of this process. Its state changes only by these operations, so it is never read: the outcome of each operation is
 * the whole truth.
 */
export class RelayTable {
  readonly #options: RelayTableOptions
  readonly #questions: KernelQuestions
  readonly #listenersOf = new Holdings<ServicePortKey, WantedListener>()
  readonly #services = new ObjectTable<ServicePortKey, ServiceObject>()
  readonly #listeners = new ObjectTable<string, ListenerObject>()
  readonly #failedServices: FailedObjects<ServiceObject, ServicePortKey>
  readonly #failedListeners: FailedObjects<ListenerObject, string>
  readonly #queue = new ListenerQueue()
  readonly #splits = new SplitListeners()
  /** Listeners that this process has no right to open, as of the last write of each. */
  readonly #denied = new Set<ListenerObject>()
  /** Those of the write in progress. */
  readonly #deniedNow = new Set<ListenerObject>()
  #lastListener = 0
  #isStopping = false

  constructor(options: RelayTableOptions) {
    this.#options = options
    this.#questions = new KernelQuestions(options)
    this.#failedServices = new FailedObjects({
      ...options,
      keyOf: ({ id }) => id,
      nameOf: ({ name }) => `relay service ${name}`,
      servicesOf: ({ id, desired }) => (desired === undefined ? [] : [serviceNameOf(id)]),
    })
    this.#failedListeners = new FailedObjects({
      ...options,
      keyOf: ({ id }) => id,
      nameOf: ({ id }) => `listener ${id}`,
      servicesOf: ({ services }) => services,
    })
  }

  /** Replaces what a service port wants; undefined: it was removed. `service`: `namespace/name`, for messages. */
  claim(key: ServicePortKey, service: string, desired: DesiredRoute | undefined): void {
    const hasListener = desired?.frontends.some(({ listeners }) => listeners.length > 0) === true
    const number = this.#claimService(key, hasListener ? desired.service : undefined)
    const claimed = (desired?.frontends ?? []).flatMap(({ frontend, listeners, isOnAllAddresses }) => {
      const single = listeners.map((listener) => ({
        listener: { ...listener, service: number },
        serviceName: service,
        createdSeconds: desired?.createdSeconds,
        isNodePort: frontend.kind === 'node-port',
      }))
      return isOnAllAddresses ? joined(single, this.#options.family) : single
    })
    for (const wanted of this.#listenersOf.replace(key, claimed)) this.#want(wanted, 'remove')
    for (const wanted of claimed) this.#want(wanted, 'add')
  }

  /** Something is to be sent now. */
  get isWriteDue(): boolean {
    const isDirty = this.#services.dirty.size + this.#listeners.dirty.size > 0
    return isDirty || this.nextInMs() === 0
  }

  /** Milliseconds until an object that failed is tried again; undefined: none failed. */
  nextInMs(): number | undefined {
    const times = [this.#failedServices.nextInMs(), this.#failedListeners.nextInMs()]
    const next = Math.min(...times.map((ms) => ms ?? Infinity))
    return next === Infinity ? undefined : next
  }

  /** Some object is not in the relay as desired. */
  get hasFailures(): boolean {
    return this.nextInMs() !== undefined
  }

  /** Some listeners are not open because this process lacks CAP_NET_BIND_SERVICE. */
  get lacksRight(): boolean {
    return this.#denied.size > 0
  }

  /** Whether a listener on all addresses takes new clients of the port now. */
  listensAtAll(protocol: RelayProtocol, port: number): boolean {
    const address = wildcardAddress[this.#options.family]
    const open = this.#listeners.get(describeRelayListener({ protocol, address, port }))?.acknowledged
    return open !== undefined && takesNewClients(open)
  }

  /** Numbers of objects in the relay. */
  get sizes(): Readonly<Record<'relay-service' | 'relay-listener', number>> {
    return {
      'relay-service': this.#services.acknowledgedCount,
      'relay-listener': this.#listeners.acknowledgedCount,
    }
  }

  /** The write in progress ends at its next batch. */
  stopSoon(): void {
    this.#isStopping = true
  }

  /**
   * Sends all changes: new services, then listeners, then the removal of services. `bindAddresses` makes the addresses of the listeners
   * local, before they open.
   */
  async write(pass: RelayPass, bindAddresses: () => Promise<void>): Promise<void> {
    // Also of objects that the table has forgotten meanwhile: the end of the write settles them.
    for (const key of this.#failedServices.due()) this.#services.markDirty(this.#serviceOf(key))
    for (const id of this.#failedListeners.due()) this.#retry(this.#listenerOf(id))
    const services = this.#services.takeDirty()
    const changed = this.#listeners.takeDirty()
    const former = changed.filter(({ wanted }) => wanted === undefined)
    // Each listener that closes leaves its descriptor to the oldest one that waits.
    const next = this.#queue.oldest(former.length)
    const present = inOrder([...new Set([...changed.filter(({ wanted }) => wanted !== undefined), ...next])])
    const listeners = [...former, ...present]
    const upserts = this.#servicePart(services, ({ desired, acknowledged }) => desired ?? acknowledged)
    const removals = this.#servicePart(services, ({ desired }) => desired)
    const isSent = [await this.#send(upserts, pass)]
    await bindAddresses()
    // Former listeners first: sockets may be short.
    for (const part of [this.#listenerPart(former), this.#listenerPart(present)])
      isSent.push(await this.#send(part, pass))
    const parts = isSent.includes(false) ? undefined : await this.#writeParts(listeners, pass)
    isSent.push(parts !== undefined, await this.#send(removals, pass))
    // Nothing is known about an object that was not sent. One that was refused is not settled: it is tried again.
    if (parts === undefined || isSent.includes(false)) {
      for (const service of services) this.#services.markDirty(service)
      for (const listener of listeners) this.#listeners.markDirty(listener)
      return
    }
    this.#failedServices.settle(services)
    this.#failedListeners.settle(new Set([...listeners, ...parts]))
    for (const listener of listeners)
      this.#denied[this.#deniedNow.delete(listener) ? 'add' : 'delete'](listener)
  }

  /** Of a listener in the place of one on all addresses, that one is tried again. */
  #retry(object: ListenerObject): void {
    const { partOf } = object.wanted ?? {}
    this.#listeners.markDirty(partOf === undefined ? object : this.#listenerOf(partOf))
  }

  /**
   * Replaces the listeners on all addresses that are blocked by listeners of one address each, and those by the one on all addresses when
   * it is open. Returns the objects that it has touched; undefined: some were not sent.
   */
  async #writeParts(
    listeners: readonly ListenerObject[],
    pass: RelayPass,
  ): Promise<readonly ListenerObject[] | undefined> {
    const splits = this.#splits.take(listeners)
    for (const { object, former, present } of splits) {
      for (const wanted of former) {
        const part = this.#want(wanted, 'remove')
        part.servedFor = object.isAcknowledged ? wanted.serviceName : undefined
      }
      for (const wanted of present) this.#want(wanted, 'add')
    }
    const parts = this.#listeners.takeDirty()
    const refusals: Failed<ListenerObject>[] = []
    const part = this.#listenerPart(inOrder(parts), (confirmation) => refusals.push(...confirmation.refusals))
    if (!(await this.#send(part, pass))) return undefined
    const left = this.#dropUseless(splits, refusals)
    this.#noteListeners({ refusals: left, surprises: [] })
    return parts
  }

  /**
   * Gives up the listeners of one address each if another program has the port at every address. Returns the refusals that are to be
   * reported: then that of the listener on all addresses.
   */
  #dropUseless(
    splits: readonly Split[],
    refusals: readonly Failed<ListenerObject>[],
  ): readonly Failed<ListenerObject>[] {
    const left = new Map(refusals.map((failed) => [failed.target, failed]))
    for (const { object, refusal, present } of splits) {
      const parts = present.map((wanted) => {
        const one = this.#listenerOf(describeRelayListener(wanted.listener))
        // An external IP may be the same address: then the listener and its refusal are those of the external IP.
        return { wanted, one, isOwn: one.wanted === wanted }
      })
      const isTaken = parts.every(({ one, isOwn }) => !isOwn || left.get(one)?.error.code === 'EADDRINUSE')
      if (refusal === undefined || !isTaken) continue
      for (const { wanted, one, isOwn } of parts) {
        one.remove(wanted)
        if (isOwn) left.delete(one)
        if (isOwn) this.#listeners.settle(one)
      }
      left.set(object, refusal)
      this.#splits.forget(object)
    }
    return [...left.values()]
  }

  #needsRight({ wanted }: ListenerObject): boolean {
    const { firstFreePort } = this.#options
    return wanted !== undefined && firstFreePort !== undefined && wanted.listener.port < firstFreePort
  }

  /** Returns the id of the service in the relay. */
  #claimService(key: ServicePortKey, desired: DesiredRoute['service'] | undefined): number {
    if (desired === undefined && this.#services.get(key) === undefined) return 0
    const object = this.#serviceOf(key)
    object.desired = desired && { id: object.number, ...desired }
    this.#services.markDirty(object)
    return object.number
  }

  #want(wanted: WantedListener, change: 'add' | 'remove'): ListenerObject {
    const object = this.#listenerOf(describeRelayListener(wanted.listener))
    object[change](wanted)
    this.#listeners.markDirty(object)
    return object
  }

  #serviceOf(key: ServicePortKey): ServiceObject {
    const { family, nextId } = this.#options
    return this.#services.get(key) ?? this.#services.add(new ServiceObject(key, family, nextId()))
  }

  #listenerOf(id: string): ListenerObject {
    return this.#listeners.get(id) ?? this.#listeners.add(new ListenerObject(id, ++this.#lastListener))
  }

  #servicePart(
    objects: readonly ServiceObject[],
    targetOf: (object: ServiceObject) => ServiceObject['acknowledged'],
  ): Part<ServiceObject, ServiceObject['acknowledged']> {
    return { kind: serviceKind, table: this.#services, objects, targetOf, failed: this.#failedServices }
  }

  #listenerPart(
    objects: readonly ListenerObject[],
    note = (confirmation: Confirmation<ListenerObject>): void =>
      this.#noteListeners(this.#splits.note(confirmation)),
  ): Part<ListenerObject, ListenerObject['acknowledged']> {
    const table = this.#listeners
    return { kind: listenerKind, table, objects, targetOf: wantedListener, failed: { note } }
  }

  #noteListeners(confirmation: Confirmation<ListenerObject>): void {
    this.#failedListeners.note(confirmation)
    this.#queue.note(confirmation)
    for (const { target, error } of confirmation.refusals)
      if (isDenied(error) && this.#needsRight(target)) this.#deniedNow.add(target)
  }

  /**
   * Sends the changes of these objects, in batches. In between, other work gets its turn, and a stop ends the work. False: some were not
   * sent; they stay dirty.
   */
  async #send<T extends TrackedObject<unknown, State>, State>(
    part: Part<T, State>,
    pass: RelayPass,
  ): Promise<boolean> {
    const { relay, clock } = this.#options
    const { kind, table, objects, targetOf, failed } = part
    for (let rest = objects; rest.length > 0;) {
      if (this.#isStopping) {
        pass.fail()
        return false
      }
      const cut = planBatch(kind, rest, { ops: [], limit: maxBatchCost, targetOf })
      const { batch } = cut
      if (batch.ops.length > 0) {
        const outcome = await this.#questions.ask({ key: 'kernel relay' }, () => relay.apply(batch.ops))
        if (outcome instanceof KernelError) {
          for (const object of rest) table.markDirty(object)
          pass.fail(outcome)
          return false
        }
        pass.count(relayOperations, batch.ops, outcome)
        failed.note(confirmBatch(kind, batch, outcome))
      }
      for (const object of rest.slice(0, rest.length - cut.rest.length)) table.settle(object)
      rest = cut.rest
      if (rest.length > 0) await clock.pause()
    }
    return true
  }
}

/** Objects of one kind, and the state that each is to get. */
interface Part<T extends TrackedObject<unknown, State>, State> {
  readonly kind: ObjectKind<T, State, RelayOp, RelayOp[]>
  readonly table: ObjectTable<T['id'], T>
  readonly objects: readonly T[]
  readonly targetOf: (object: T) => State
  readonly failed: Pick<FailedObjects<T, unknown>, 'note'>
}

function wantedListener({ wanted }: ListenerObject): ListenerObject['acknowledged'] {
  return wanted?.listener
}

/** `namespace/name` of the Service. */
function serviceNameOf(key: ServicePortKey): string {
  return key.slice(0, key.indexOf(':'))
}

import type { LinkEvent } from '../kernel/index.js'
import type { ServicePortKey } from '../model/index.js'
import type { Route } from '../routing/index.js'
import type { FamilyFacts } from './family-context.js'
import type { KnownObjects } from './family-intake.js'
import type { AnyKind, Pass } from './pass.js'

/** The request of a service port. */
export interface Claim<D> {
  /** The route. */
  readonly decided: Route
  /** The route as this node serves it: without the addresses of other machines, and without the frontends that other service ports have. */
  readonly served: Route
  /** The compiled route. */
  readonly desired: D
}

/**
 * The result of a look at the kernel. `none`: no look was due. `partial` and `full`: it found no difference. `different`: another program
 * changed something. `failed`: the kernel could not be read, and the pass ends.
 */
export type Look = 'none' | 'partial' | 'full' | 'different' | 'failed'

export interface WriteOptions {
  /** All objects are known: what a former owner left goes. */
  readonly isComplete: boolean
}

/** The outcome of a write. */
export interface Written {
  /** False: something is not there. */
  readonly isComplete: boolean
  /** Flows may have gone where they should not. */
  readonly isFlowDoubtful?: boolean
  /** Numbers of objects by kind, for metrics and the log. */
  readonly sizes: Readonly<Record<string, number>>
  /** Further fields of the log line of a pass. */
  readonly logFields?: Readonly<Record<string, unknown>>
  /** The log line counts the operations of these kinds. Absent: of none. */
  readonly loggedOperations?: readonly AnyKind[]
}

/** The state of a layer, for the loop and for people. */
export interface LayerState {
  /** A write is due although no claim changed. */
  readonly isWriteDue: boolean
  /** Something is not in the kernel, except objects that it refuses. */
  readonly isBehind: boolean
  /** The kernel refuses objects, which wait for a retry. */
  readonly hasRefusals: boolean
  /** Milliseconds until there is work without an event; undefined: there is none. */
  readonly nextInMs: number | undefined
  /** A look goes on, a slice in each pass. */
  readonly isLooking?: boolean
  /** Another program keeps the objects from us. */
  readonly isDenied?: boolean
  /** Frontends are not served because the process lacks a right. */
  readonly lacksRight?: boolean
}

/**
 * The kernel objects of a mode, of one family: what service ports want, what the kernel acknowledged, and the way from one to the other.
 * The engine calls it; calls with a promise do not overlap. Unless a method says otherwise, none rejects with a KernelError: a refusal is
 * reported as a problem, and tried again. An absent method does nothing.
 */
export interface Layer<S, D> {
  /**
   * Replaces what the service port wants; undefined: nothing. Each frontend has one owner. When it gets a new one, that one may claim it
   * before the former owner gives it up, in the same pass: the last claim counts, and the former owner removes no object of the new one.
   */
  claim(key: ServicePortKey, claim: Claim<D> | undefined): void
  /** Brings all claims to the kernel. */
  write(pass: Pass, options: WriteOptions): Promise<Written>
  /** Begins each pass: reads what the first write depends on, and requests what a new state of knowledge needs. Throws KernelError. */
  open?(known: Exclude<KnownObjects, 'nothing'>): Promise<void>
  /** Looks at the kernel, if a look is due. Comes before any operation of the pass: a missing object was removed by another program. */
  look?(known: Exclude<KnownObjects, 'nothing'>): Promise<Look>
  /** Takes in changed settings, before claims that depend on them. False: the kernel refused them; they come again. */
  configure?(settings: S, facts: FamilyFacts): Promise<boolean> | void
  /** Hands the claims so far to the kernel's side, while the next ones are compiled. Rejects only with a defect. */
  stage?(pass: Pass): Promise<void>
  /** The service ports that the kernel refused, to be claimed again now. */
  dueRoutes?(): readonly ServicePortKey[]
  /** Takes in that the node's IPs differ, and with them the preferred source of VIP routes. True: a pass is needed. */
  noteVipBinding?(): boolean
  /** Takes in changes of interfaces and addresses. True: a pass is needed. */
  noteLinks?(events: readonly LinkEvent[]): boolean
  /** The write in progress ends at its next batch. */
  stopSoon?(): void
  /** The objects that the kernel lacks or has otherwise, beside those of a route; a sentence each. Throws KernelError. */
  differences?(): Promise<readonly string[]>
  /** One write costs as much as all objects together, regardless of the changes: a pass takes all dirty service ports. Absent: as its changes. */
  readonly writesAll?: boolean
  /** The state now. It may be read at any time. */
  readonly state: LayerState
}

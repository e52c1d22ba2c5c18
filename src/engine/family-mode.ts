import type { IpAddress } from '../address.js'
import type { PacketTotals } from '../metrics/index.js'
import type { ServicePortKey } from '../model/index.js'
import type { Backend, Route } from '../routing/index.js'
import type { FamilyContext, FamilyFacts } from './family-context.js'
import type { KernelQuestions } from './kernel-questions.js'
import type { Claim, Layer } from './layer.js'
import type { PacketRules } from './packet-rules.js'
import type { ExternalAddresses } from './packet-rules.js'
import type { FlowSource, CounterReading } from './traffic-counters.js'
import type { StageTimes } from './stage-times.js'

/** The place of an endpoint. */
type Endpoint = Pick<Backend, 'address' | 'port'>

/** The family's parts that the layer of its mode uses. */
export interface FamilyParts {
  /** Counts the waits for the kernel as such a stage of the pass. */
  readonly stages: StageTimes
  /** Asks the kernel, and counts the waits for it in `stages`. */
  readonly questions: KernelQuestions
  /** `namespace/name:port`; undefined: the service port does not exist (any more). */
  readonly portNameOf: (key: ServicePortKey) => string | undefined
  /** The service port exists, and has this endpoint, ready or not. */
  readonly hasEndpoint: (key: ServicePortKey, endpoint: Endpoint) => boolean
}

/** Leaves addresses of Services to other machines (docs/adr/0028). */
export interface Admission {
  /** The route as the mode serves it. */
  admit(decided: Route): Route
  /** As `admit`, without a note of the service port. */
  view(decided: Route): Route
  /** The service port was removed. */
  forget(key: ServicePortKey): void
  setMachine(machine: readonly IpAddress[]): void
  /** Facts about other machines, or about the networks of pods, changed. */
  note(): void
  readonly isRenewDue: boolean
  /** Returns the service ports whose answer changed. */
  renew(): Promise<readonly ServicePortKey[]>
  holderOf(port: ExternalAddresses, address: IpAddress): string | undefined
}

/** Tells which readings of the kernel are those of a service port as it is now. */
export type IsOfReading = (route: Pick<Route, 'key'>) => boolean

/** Answers people about the kernel objects of a mode. It changes nothing. */
export interface ModeView<S, D> {
  /** As `Pipeline.describe`. */
  describe(claim: Claim<D>, settings: S): readonly string[]
  /** As `Pipeline.packetRules`. */
  packetRules(settings: S): PacketRules | undefined
  /** The objects of a route that the kernel lacks or has otherwise, a sentence each. Throws KernelError. */
  differences(claim: Claim<D>): Promise<readonly string[]>
  /** As `Pipeline.readCounters`. `isInForce`: the mode's objects are in the kernel. */
  readCounters?(settings: S, isOfReading: IsOfReading): Promise<CounterReading | undefined>
  readFlows?(): Promise<FlowSource>
  /** undefined: the mode does not have its rules in the kernel now. */
  countPackets?(settings: S | undefined): Promise<PacketTotals>
}

/** A proxy mode, for one family. The engine reads it. */
export interface FamilyMode<S, D> {
  /** The settings on which its rules depend. The engine compares them: a difference is brought to the layer. */
  settings(facts: FamilyFacts): S
  /** The part of the settings on which compiled routes depend: a difference compiles all routes again. */
  routeSettings(settings: S): unknown
  /** The addresses of this machine that serve node ports. Absent: those that the configuration names, as the kernel has them now. */
  nodePortAddresses?(settings: S): readonly IpAddress[]
  /** The mode has an object for a node port at each of these addresses, and each has its own owner. Absent: a node port has one owner. */
  nodePortPlaces?(settings: S): readonly IpAddress[]
  /** Asks the kernel what the compilation of this route depends on; undefined: nothing, as nearly always. Never rejects with a KernelError. */
  prepare?(served: Route): Promise<void> | undefined
  /** Pure: no clock, no kernel. */
  compile(route: Route, settings: S): D
  readonly layer: Layer<S, D>
  readonly view: ModeView<S, D>
  /** Absent: the mode makes no address local, and serves all. */
  readonly admission?: Admission
}

/** Opens the mode of one family. */
export type OpenFamilyMode<S, D> = (context: FamilyContext & FamilyParts) => FamilyMode<S, D>

import type { LinkEvent } from '../kernel/index.js'
import type { PacketTotals } from '../metrics/index.js'
import type { ServicePort, ServicePortKey, ServiceView } from '../model/index.js'
import type { NodeChange } from '../node/index.js'
import type { Frontend, LostFrontend, Route } from '../routing/index.js'
import type { FamilyHealth } from './backlog.js'
import type { RunTerms } from './bounded-runner.js'
import type { PacketRules } from './packet-rules.js'
import type { PassRecord } from './pass.js'
import type { FlowSource, CounterReading } from './traffic-counters.js'

/** The parts of a pipeline for readers that change nothing. They may be read at any time. */
export type PipelineView = Pick<
  Pipeline,
  | 'services'
  | 'health'
  | 'passes'
  | 'isInForce'
  | 'hasRefusals'
  | 'inForceSince'
  | 'ownerOf'
  | 'lostFrontends'
  | 'describe'
  | 'packetRules'
  | 'differences'
  | 'readCounters'
  | 'readFlows'
>

/**
 * The way of one family from events to the kernel, in one proxy mode. A mode supplies it. The engine calls `runOnce` for one run at a
 * time; it may call everything else at any time, during a run too. `needsRun`, `applyNode` and `applyLinks` return whether a run
 * is needed. No method throws KernelError: a refusal of the kernel is reported, and tried again.
 */
export interface Pipeline {
  /** Events came together: the intake has them all. */
  needsRun(): boolean
  /** Takes in that facts about this node changed; the mode's options have the new ones. */
  applyNode(change: NodeChange): boolean
  /** Takes in changes of interfaces and addresses. */
  applyLinks(events: readonly LinkEvent[]): boolean
  /** Lets the run in progress end at its next batch. */
  stopSoon(): void
  /**
   * One pass: plan, apply, report. It takes all changed service ports, or a share of them (`isUnfinished`). It does nothing before the
   * objects were listed. Until all objects are known, it removes nothing that the kernel had at the start. Resolves with the milliseconds until there is work without a new event; undefined: there is none.
   */
  runOnce(terms?: RunTerms): Promise<number | undefined>
  /** The last run left changed service ports: the next one begins without `minSyncPeriod` between them. */
  readonly isUnfinished: boolean
  /** A run now could take the changes of small Services alone (`RunTerms.isResting`). */
  readonly mayRunInRest: boolean
  /** The objects were listed: a run may write. */
  readonly knowsObjects: boolean
  /** Everything was in the kernel once, after all objects were known. */
  readonly isInForce: boolean
  /** Some objects are not in the kernel as desired: it refused them at the last try. */
  readonly hasRefusals: boolean
  /**
   * Unix milliseconds since when the last change of a service port is in force; undefined: it is not, or that is not known, as while
   * the kernel refuses an object of the family.
   */
  inForceSince(key: ServicePortKey): number | undefined
  /** The service port that has the frontend, as of the last pass (docs/adr/0007); undefined: none of those that a pass has claimed. */
  ownerOf(frontend: Frontend): ServicePortKey | undefined
  /** The frontends that the service port names and does not get, as of the last pass, each with who has it instead; nearly always none. */
  lostFrontends(port: ServicePort): readonly LostFrontend[]
  /** A watch of the kernel can begin: the first sync is over. Some objects may be unknown still. */
  readonly isWatchable: boolean
  /** The last passes, oldest first: some 60. */
  readonly passes: readonly PassRecord[]
  /** The objects that the pipeline knows. */
  readonly services: ServiceView
  /** Whether the kernel follows the events. */
  readonly health: FamilyHealth
  /** Counts packets; absent, or undefined, in a mode whose rules do not count them. */
  countPackets?(): Promise<PacketTotals | undefined>
  /**
   * The present connections of the family, of Services and possibly of others. Absent: conntrack has them. Throws KernelError, also while they
   * are read.
   */
  readFlows?(): Promise<FlowSource>
  /**
   * Reads the figures of all kernel objects of the mode's routes, at once and only when asked. Absent: the mode's objects count nothing, and
   * the present connections are counted. undefined: nothing is programmed yet. Throws KernelError.
   */
  readCounters?(): Promise<CounterReading | undefined>
  /**
   * The kernel objects that the mode desires for a route now, a line each, in the syntax of the tools that list them. It changes
   * nothing and reads no kernel. Empty before the first run that knows the node's addresses. At most 1001 lines. A
   * frontend that another service port has, has no line.
   */
  describe(route: Route): readonly string[]
  /** How the mode treats packets now; undefined before the first run that knows the node's addresses. */
  packetRules(): PacketRules | undefined
  /**
   * Reads those kernel objects of a route that the mode can read, and compares them with the desired ones: a sentence per difference;
   * undefined: nothing is known to compare with yet, or a
   * change of the service port waits for its share. It changes nothing. Throws KernelError.
   */
  differences(route: Route): Promise<readonly string[] | undefined>
  /** Frees its resources, after the last run. Idempotent. */
  close(): Promise<void>
}

// A proxy that the traffic table can check.
import type { Topology } from '../support/topology.js'
import type { Explain } from './explain-checks.js'
import type { TrafficGroup } from './table/case.js'

/** A program that programs node-a. */
export interface Subject {
  /** Resolves when everything in the folder is in effect. */
  start(topology: Topology, group: TrafficGroup, folder: string): Promise<void>
  /** Leaves the traffic as it is. Idempotent. */
  stop(): Promise<void>
  /** Explains a packet; absent: it explains none. */
  readonly explain?: Explain
}

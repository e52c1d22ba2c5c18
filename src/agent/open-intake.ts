// The part of an agent that takes in events. It needs no kernel, and works while the kernel is prepared.
import { hostname } from 'node:os'
import type { Clock } from '../clock.js'
import type { Config } from '../config/index.js'
import { Intake } from '../engine/index.js'
import { outgoingAddresses } from '../host/index.js'
import type { Kernel } from '../kernel/index.js'
import type { Log } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import { nodeName, NodeTracker, NodeWatch, servedPlaces } from '../node/index.js'

export interface OpenIntakeOptions {
  readonly config: Config
  readonly kernel: Kernel
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** As `NodeWatchOptions.doesNotWait`. */
  readonly doesNotWait?: boolean
}

export interface OpenedIntake {
  /** Takes the events of the source, from now on. */
  readonly intake: Intake
  readonly node: NodeTracker
  readonly nodeWatch: NodeWatch
}

/** Throws ConfigError if the node has no name. */
export function openIntake({
  config,
  kernel,
  clock,
  log,
  metrics,
  doesNotWait,
}: OpenIntakeOptions): OpenedIntake {
  const node = new NodeTracker(nodeName(config, hostname()), config.bindAddress, servedPlaces(config.servers))
  const nodeWatch = new NodeWatch({
    node,
    config,
    machineAddresses:
      config.manifests === undefined ? undefined : async () => await outgoingAddresses(kernel),
    doesNotWait,
    clock,
    log,
  })
  return { intake: new Intake({ config, node: nodeWatch, metrics }), node, nodeWatch }
}

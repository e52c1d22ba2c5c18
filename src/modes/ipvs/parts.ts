// The parts of one family's pipeline, each with those that it uses.
import { ConflictReports, Intake, RouteDecisions, StageTimes } from '../../engine/index.js'
import { natGuardTables, type RealServerKey } from '../../kernel/index.js'
import type { ServicePortKey, Tracker } from '../../model/index.js'
import { OtherAgents } from '../../layers/nft-table/index.js'

import { ForeignAddresses, NatGuard, VipTable } from '../../layers/vips/index.js'
import { IpvsApplier } from './applier.js'
import { CheapLook } from './cheap-look.js'
import { DirtyWriter } from './dirty-writer.js'
import { DrainChoice } from './drain-choice.js'
import { Draining } from './draining.js'
import { Failures } from './failures.js'
import { IpvsInspection } from './inspection.js'
import type { IpvsPipelineOptions } from './pipeline-options.js'
import { IpvsPolicies } from './policies.js'
import { Reconciler } from './reconciler.js'
import { RouteClaims } from './route-claims.js'
import { IpvsLedger } from './tables/ledger.js'

export type IpvsParts = ReturnType<typeof openParts>

/** Opens them. None reads the kernel yet. */
export function openParts(options: IpvsPipelineOptions) {
  const { family, clock, problems, metrics, kernel, flavour, vipBinding, isExcluded } = options
  const { ipvs, sysctl, routes } = kernel
  const stages = new StageTimes(clock)
  const intake = new Intake(options)
  const { tracker } = intake
  const reports = new ConflictReports(options)
  const common = { ...options, stages, reports, tracker }
  const decisions = new RouteDecisions({ ...common, ...kernel })
  const policies = new IpvsPolicies(common)
  const foreign = new ForeignAddresses({ ...common, routes })
  const guard = new NatGuard({
    ...common,
    ...kernel,
    table: natGuardTables.ipvs,
    ownFlavour: flavour,
    mayGuard: () => policies.isMarking,
  })
  const vips = new VipTable({
    binding: vipBinding,
    onNeed: (address, isVip) => guard.put(address, isVip),
  })
  const drainChoice = new DrainChoice({ ...options, sysctl })
  const ledger = new IpvsLedger(vips, isExcluded, drainChoice.drains)
  const failures = new Failures({ family, clock, problems, metrics })
  const reconciler = new Reconciler({ ...options, stages, ledger, vips })
  const isGone = (key: ServicePortKey | undefined, endpoint: RealServerKey): boolean =>
    !hasEndpoint(tracker, key, endpoint)
  const draining = new Draining({ ...options, ipvs, ledger, isGone })
  const applier = new IpvsApplier({ ...common, ledger, vips, guard, failures, reconciler })
  const isStopping = (): boolean => applier.isStopping
  return {
    stages,
    intake,
    tracker,
    decisions,
    policies,
    foreign,
    guard,
    vips,
    drainChoice,
    ledger,
    failures,
    reconciler,
    draining,
    applier,
    claims: new RouteClaims({ ...options, intake, decisions, policies, foreign, guard, ledger, isStopping }),
    writer: new DirtyWriter({ applier, ledger, vips, policies, guard, reconciler }),
    inspection: new IpvsInspection({ ...options, ledger, policies, foreign, guard }),
    cheapLook: new CheapLook({ ...options, ipvs, ledger, policies }),
    otherAgents: new OtherAgents({ ...options, mode: 'ipvs' }),
  }
}

/** Whether the service port has this endpoint, ready or not. */
function hasEndpoint(
  tracker: Tracker,
  key: ServicePortKey | undefined,
  { address, port }: RealServerKey,
): boolean {
  const servicePort = key === undefined ? undefined : tracker.servicePort(key)
  if (servicePort === undefined) return false
  const endpoints = tracker.endpoints(servicePort)
  return endpoints.some((endpoint) => endpoint.address === address && endpoint.port === port)
}

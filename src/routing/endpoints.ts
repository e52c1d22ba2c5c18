// The endpoints that may take traffic: readiness, the fallback to terminating ones, and topology hints; and the rules by which routing
// decides.
import type { Endpoint } from '../model/index.js'

/** Facts about this node that routing depends on. */
export interface NodeView {
  readonly name: string
  /** Label topology.kubernetes.io/zone; undefined: none. */
  readonly zone: string | undefined
}

/** For traffic policy Cluster (F-032): the ready endpoints that the hints allow. Without a ready endpoint, the serving terminating ones. */
export function usableClusterEndpoints(
  endpoints: readonly Endpoint[],
  node: NodeView,
  note?: NoteStep,
): readonly Endpoint[] {
  const ready = keep(endpoints, isReadyNow, endpointRules.clusterReady, note)
  if (ready.length === 0) return keep(endpoints, isServingTerminating, endpointRules.clusterTerminating, note)
  return keepHinted(ready, node, note)
}

/** For traffic policy Local (F-033): the same choice among the endpoints of this node, without hints. */
export function usableLocalEndpoints(
  endpoints: readonly Endpoint[],
  node: NodeView,
  note?: NoteStep,
): readonly Endpoint[] {
  const isLocal = ({ nodeName }: Endpoint): boolean => nodeName !== undefined && nodeName === node.name
  const local = keep(endpoints, isLocal, endpointRules.onThisNode, note)
  const ready = keep(local, isReadyNow, endpointRules.localReady, note)
  if (ready.length > 0) return ready
  return keep(local, isServingTerminating, endpointRules.localTerminating, note)
}

/** The endpoints that keep their UDP flows: the serving ones on any node; all while none serves. */
export function endpointsOfFlows(endpoints: readonly Endpoint[], note?: NoteStep): readonly Endpoint[] {
  const serving = keep(endpoints, isServingNow, endpointRules.flowsServing, note)
  return serving.length > 0 ? serving : keep(endpoints, isAny, endpointRules.flowsOfAll, note)
}

/** One step of a choice. The result is the list itself when the rule keeps every endpoint. */
function keep(
  endpoints: readonly Endpoint[],
  isKept: (endpoint: Endpoint) => boolean,
  rule: EndpointRule,
  note: NoteStep | undefined,
): readonly Endpoint[] {
  note?.(endpoints, isKept, rule)
  return endpoints.every(isKept) ? endpoints : endpoints.filter(isKept)
}

function isReadyNow({ isReady }: Endpoint): boolean {
  return isReady
}

function isServingNow({ isServing }: Endpoint): boolean {
  return isServing
}

function isServingTerminating({ isServing, isTerminating }: Endpoint): boolean {
  return isServing && isTerminating
}

function isAny(): boolean {
  return true
}

/** F-036: hints count only if every ready endpoint has them and one names this node or its zone. */
function keepHinted(
  ready: readonly Endpoint[],
  node: NodeView,
  note: NoteStep | undefined,
): readonly Endpoint[] {
  const isForNode = ({ nodeHints }: Endpoint): boolean => nodeHints.includes(node.name)
  if (ready.every(({ nodeHints }) => nodeHints.length > 0) && ready.some(isForNode))
    return keep(ready, isForNode, endpointRules.nodeHints, note)
  const { zone } = node
  if (zone === undefined) return ready
  const isForZone = ({ zoneHints }: Endpoint): boolean => zoneHints.includes(zone)
  if (ready.every(({ zoneHints }) => zoneHints.length > 0) && ready.some(isForZone))
    return keep(ready, isForZone, endpointRules.zoneHints, note)
  return ready
}

/** F-034, for a Service that uses local endpoints: whether an endpoint on any node could take traffic. */
export function hasAnyEndpoint(endpoints: readonly Endpoint[]): boolean {
  return endpoints.some((endpoint) => endpoint.isReady || isServingTerminating(endpoint))
}

/** The number of a rule of kube-proxy's behaviour, as in docs/traffic.md and docs/parity.md. */
export type RuleNumber = `F-${number}`

/** One rule and what it means for one endpoint or frontend. */
export interface Reason {
  readonly rule: RuleNumber
  /** A clause without a full stop: `on another node, under policy Local`. */
  readonly text: string
}

/** A rule that keeps some endpoints of a list and drops the others. */
export interface EndpointRule {
  readonly rule: RuleNumber
  readonly kept: string
  readonly dropped: string
}

/**
 * Observes one step of a choice: the endpoints before the step, and which of them the rule keeps. Steps of one list come in
 * order. The last step that has an endpoint decides about it.
 */
export type NoteStep = (
  endpoints: readonly Endpoint[],
  isKept: (endpoint: Endpoint) => boolean,
  rule: EndpointRule,
) => void

export const endpointRules = {
  clusterReady: { rule: 'F-032', kept: 'ready', dropped: 'not ready' },
  clusterTerminating: {
    rule: 'F-032',
    kept: 'serves while it terminates, and no endpoint is ready',
    dropped: 'neither ready nor serving while it terminates',
  },
  nodeHints: {
    rule: 'F-036',
    kept: 'ready, and its hints name this node',
    dropped: 'its hints name other nodes',
  },
  zoneHints: {
    rule: 'F-036',
    kept: 'ready, and its hints name the zone of this node',
    dropped: 'its hints name other zones',
  },
  noCluster: {
    rule: 'F-015',
    kept: '',
    dropped: 'no traffic has policy Cluster: the internal policy is Local, and no frontend is external',
  },
  onThisNode: { rule: 'F-033', kept: 'on this node', dropped: 'not on this node' },
  localReady: { rule: 'F-033', kept: 'on this node and ready', dropped: 'on this node, but not ready' },
  localTerminating: {
    rule: 'F-033',
    kept: 'serves on this node while it terminates, and no endpoint here is ready',
    dropped: 'on this node, but neither ready nor serving while it terminates',
  },
  noLocal: { rule: 'F-016', kept: '', dropped: 'no traffic has policy Local' },
  flowsServing: { rule: 'F-071', kept: 'serves', dropped: 'does not serve, while another endpoint does' },
  flowsOfAll: { rule: 'F-071', kept: 'no endpoint serves', dropped: '' },
} as const satisfies Readonly<Record<string, EndpointRule>>

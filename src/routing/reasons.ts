// The rules by which routing decides, and what they say about endpoints and frontends.
import type { Endpoint } from '../model/index.js'

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

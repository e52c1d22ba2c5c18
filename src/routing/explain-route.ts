import { hasAddress } from '../address.js'
import { BugError } from '../errors.js'
import type { Endpoint, ServicePort } from '../model/index.js'
import type { NodeView, NoteStep, Reason } from './endpoints.js'
import { type Frontend, frontendsOf } from './frontend.js'
import { route, type Route, type Verdict, verdictOf } from './route.js'

/** Whether a list of a route has an endpoint, and the rule that decided it. */
export interface EndpointChoice extends Reason {
  readonly isUsed: boolean
}

interface EndpointReasons {
  readonly endpoint: Endpoint
  /** For `clusterBackends`. */
  readonly cluster: EndpointChoice
  /** For `localBackends`. */
  readonly local: EndpointChoice
  /** For `flowBackends`; undefined: the protocol is not UDP. */
  readonly flows: EndpointChoice | undefined
}

export interface FrontendReasons {
  readonly frontend: Frontend
  /** The verdict on new connections; for a frontend that is not the cluster IP, on those from outside. */
  readonly verdict: Verdict
  /** Why the frontend exists, which policy it has, and why the verdict is what it is. */
  readonly reasons: readonly Reason[]
}

/** A route with the rule behind each choice of an endpoint. */
export interface ExplainedRoute {
  readonly route: Route
  /** In the order of the endpoints. */
  readonly endpoints: readonly EndpointReasons[]
}

/** `route` with the reasons for its endpoints. They come from the decisions themselves: `route` reports every step. */
export function explainRoute(
  port: ServicePort,
  endpoints: readonly Endpoint[],
  node: NodeView,
): ExplainedRoute {
  const [cluster, local, flows] = [new Choices(endpoints), new Choices(endpoints), new Choices(endpoints)]
  const decided = route(port, endpoints, node, {
    cluster: cluster.note,
    local: local.note,
    flows: flows.note,
  })
  return {
    route: decided,
    endpoints: endpoints.map((endpoint) => ({
      endpoint,
      cluster: cluster.of(endpoint),
      local: local.of(endpoint),
      flows: port.protocol === 'UDP' ? flows.of(endpoint) : undefined,
    })),
  }
}

/** The frontends of a route with the reasons for each verdict, in the order of `frontendsOf`. */
export function explainFrontends(decided: Route): readonly FrontendReasons[] {
  return frontendsOf(decided).map((frontend) => explainFrontend(decided, frontend))
}

/** One step of a choice, and what it says about the endpoints that it keeps and drops. */
interface Step {
  readonly endpoints: readonly Endpoint[]
  readonly isKept: (endpoint: Endpoint) => boolean
  readonly kept: EndpointChoice
  readonly dropped: EndpointChoice
  /** The endpoints as a set; made when an endpoint is looked for. */
  members?: ReadonlySet<Endpoint>
}

/** The choices of one list. A list of all endpoints of a cluster asks for many of them: most have one step, and need no set. */
class Choices {
  readonly #all: readonly Endpoint[]
  readonly #steps: Step[] = []

  constructor(all: readonly Endpoint[]) {
    this.#all = all
  }

  readonly note: NoteStep = (endpoints, isKept, { rule, kept, dropped }) => {
    this.#steps.push({
      endpoints,
      isKept,
      kept: { isUsed: true, rule, text: kept },
      dropped: { isUsed: false, rule, text: dropped },
    })
  }

  of(endpoint: Endpoint): EndpointChoice {
    const step = this.#steps.findLast((each) => this.#has(each, endpoint))
    if (step === undefined) throw new BugError(`no rule decided about ${endpoint.address}`)
    return step.isKept(endpoint) ? step.kept : step.dropped
  }

  #has(step: Step, endpoint: Endpoint): boolean {
    if (step.endpoints === this.#all) return true
    step.members ??= new Set(step.endpoints)
    return step.members.has(endpoint)
  }
}

function explainFrontend(decided: Route, frontend: Frontend): FrontendReasons {
  const isClusterIP = frontend.kind === 'address' && frontend.address === decided.clusterIP
  const side = isClusterIP ? 'internal' : 'external'
  const verdict = verdictOf(decided, side)
  const isLocal = isClusterIP ? decided.isInternalLocal : decided.isExternalLocal
  const policy: Reason = isClusterIP
    ? { rule: 'F-013', text: `internalTrafficPolicy is ${isLocal ? 'Local' : 'Cluster'}` }
    : { rule: 'F-012', text: `externalTrafficPolicy is ${isLocal ? 'Local' : 'Cluster'}` }
  const shortCircuit: readonly Reason[] =
    !isClusterIP && isLocal && decided.clusterBackends.length > 0
      ? [{ rule: 'F-015', text: 'pods and this node reach the endpoints of policy Cluster' }]
      : []
  return {
    frontend,
    verdict,
    reasons: [originOf(decided, frontend), policy, verdictReason(verdict, isLocal), ...shortCircuit],
  }
}

function originOf(decided: Route, frontend: Frontend): Reason {
  if (frontend.kind !== 'address') return { rule: 'F-008', text: 'node port' }
  if (frontend.address === decided.clusterIP) return { rule: 'F-007', text: 'cluster IP' }
  if (hasAddress(decided.loadBalancerIPs, frontend.address))
    return { rule: 'F-009', text: 'load-balancer IP' }
  return { rule: 'F-010', text: 'external IP' }
}

function verdictReason(verdict: Verdict, isLocal: boolean): Reason {
  switch (verdict) {
    case 'serve':
      return isLocal
        ? { rule: 'F-033', text: 'endpoints of this node serve it' }
        : { rule: 'F-032', text: 'endpoints of the cluster serve it' }
    case 'refuse':
      return { rule: 'F-053', text: 'no endpoint can serve it' }
    case 'drop':
      return { rule: 'F-054', text: 'only endpoints of other nodes can serve it' }
  }
}

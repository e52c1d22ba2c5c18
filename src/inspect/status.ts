// The replies of the control socket by name, and the short ones: status, configuration and history.
import { resolve } from 'node:path'
import type { PipelineView } from '../engine/index.js'
import { type Config, formatConfig, type ProxyMode } from '../config/index.js'
import type { Connections } from './connections.js'
import {
  type PassSnapshot,
  familyName,
  passSnapshot,
  type ProblemSnapshot,
  problemSnapshot,
  timeText,
  type Inspected,
} from './inspected.js'
import type { EndpointRow, RouteRow, ServiceRow } from './rows.js'
import type { Explanation } from './explain.js'
import type { Rows } from './services.js'

/** The replies of the control socket by the name of their page: `status` is that of /v1/status. */
export interface Snapshots {
  readonly status: StatusSnapshot
  readonly configuration: ConfigurationSnapshot
  readonly services: { readonly items: readonly ServiceRow[] }
  readonly endpoints: { readonly items: readonly EndpointRow[] }
  readonly routes: { readonly items: readonly RouteRow[] }
  /** The last passes, oldest first. */
  readonly history: { readonly items: readonly PassSnapshot[] }
  readonly connections: Connections
  readonly explain: Explanation
  /** The last lines of the agent's log, oldest first. */
  readonly log: { readonly items: readonly string[] }
  /** The values of all flags as text. */
  readonly flags: Readonly<Record<string, string>>
  /** In the text format of Prometheus. */
  readonly metrics: { readonly text: string }
}

/** The state of an agent on one screen. */
export interface StatusSnapshot {
  readonly version: string
  /** The commit of the build, with `-dirty` if the sources differed from it; `unknown`. */
  readonly commit: string
  readonly node: string
  /** RFC 3339, UTC. */
  readonly start: string
  readonly uptimeSeconds: number
  readonly mode: {
    readonly active: string
    readonly configured: string
    /** The flavour of iptables; absent: the mode has no such rules. */
    readonly flavour?: string | undefined
  }
  /** Everything was in the kernel once. */
  readonly isInForce: boolean
  /** IPv4 first. */
  readonly families: readonly FamilyStatus[]
  readonly source: {
    /** `api`: an API server; `manifests`: a folder. */
    readonly kind: 'api' | 'manifests'
    /** Number of kinds of objects that cannot be watched now. */
    readonly kindsNotWatched: number
    /** Number of objects that are not applied as written. */
    readonly objectsNotApplied: number
  }
  /** Differences that other programs made in the kernel since the start, by kind. */
  readonly drift: readonly { readonly family: string; readonly kind: string; readonly count: number }[]
  /** Number of present problems. */
  readonly problemCount: number
  /** The first present problems, errors before warnings. */
  readonly problems: readonly ProblemSnapshot[]
  /** The last passes, oldest first. */
  readonly passes: readonly PassSnapshot[]
}

export interface FamilyStatus {
  readonly family: 'IPv4' | 'IPv6'
  readonly isInForce: boolean
  /** The kernel refuses some objects, so that some frontends may not be served. */
  readonly hasRefusals: boolean
  /** No event has waited for two sync periods. */
  readonly isHealthy: boolean
  /** End of the last complete sync: RFC 3339, UTC. Absent: there was none. */
  readonly lastSync?: string | undefined
  readonly servicePorts: number
  readonly endpoints: number
}

/** Sizes of the lists of one screen. */
const [shownProblems, shownPasses] = [20, 5]

/** Its cost does not depend on the number of Services. */
export async function status(inspected: Inspected): Promise<StatusSnapshot> {
  const { config, mode, flavour, node, synchronizer, startedMs, clock } = inspected
  const families = synchronizer.views.map(familyStatus)
  const problems = inspected.problems()
  const errors = problems.filter(({ level }) => level === 'error')
  const warnings = problems.filter(({ level }) => level === 'warn')
  return {
    version: config.version,
    commit: config.commit,
    node: node.facts.name,
    start: timeText(startedMs),
    uptimeSeconds: Math.floor((clock.unixMs() - startedMs) / 1000),
    mode: { active: mode, configured: config.mode, flavour },
    isInForce: families.every(({ isInForce }) => isInForce),
    families,
    source: await sourceStatus(inspected),
    drift: await driftCounts(inspected),
    problemCount: problems.length,
    problems: [...errors, ...warnings].slice(0, shownProblems).map(problemSnapshot),
    passes: synchronizer.passes.slice(-shownPasses).map(passSnapshot),
  }
}

function familyStatus({ health, services, isInForce, hasRefusals, passes }: PipelineView): FamilyStatus {
  const hasSynced = isInForce || passes.some(({ isComplete }) => isComplete)
  return {
    family: familyName(health.family),
    isInForce,
    hasRefusals,
    isHealthy: health.isHealthy,
    lastSync: hasSynced ? timeText(health.lastUpdatedMs) : undefined,
    servicePorts: services.servicePortCount,
    endpoints: services.endpointCount,
  }
}

async function sourceStatus({ config, metric }: Inspected): Promise<StatusSnapshot['source']> {
  const valueOf = async (name: string): Promise<number> => (await metric(name))[0]?.value ?? 0
  return {
    kind: config.manifests === undefined ? 'api' : 'manifests',
    kindsNotWatched: await valueOf('viaduct_api_links_down'),
    objectsNotApplied:
      (await valueOf('viaduct_api_object_errors')) + (await valueOf('viaduct_manifest_errors')),
  }
}

async function driftCounts({ metric }: Inspected): Promise<StatusSnapshot['drift']> {
  const series = await metric('viaduct_drift_total')
  return series
    .filter(({ value }) => value > 0)
    .map(({ labels, value }) => ({
      family: String(labels['ip_family'] ?? ''),
      kind: String(labels['kind'] ?? ''),
      count: value,
    }))
}

/** The configuration with which a command can do what the agent does. */
interface ConfigurationSnapshot {
  /** The active mode. */
  readonly mode: ProxyMode
  /** Name of the node. */
  readonly node: string
  /** KubeProxyConfiguration and ViaductConfiguration, as YAML, with absolute paths. The kubeconfig is named, not included. */
  readonly documents: string
}

export function configuration({
  config,
  mode,
  node,
}: Pick<Inspected, 'config' | 'mode' | 'node'>): ConfigurationSnapshot {
  return { mode, node: node.facts.name, documents: formatConfig(withAbsolutePaths(config)) }
}

/** A command may have another working directory than the agent. */
function withAbsolutePaths(config: Config): Config {
  const { client, controlSocket, manifests } = config
  const { clientConnection } = client
  const { kubeconfig } = clientConnection
  return {
    ...config,
    ...(controlSocket === undefined ? {} : { controlSocket: resolve(controlSocket) }),
    ...(manifests === undefined ? {} : { manifests: resolve(manifests) }),
    client: {
      ...client,
      clientConnection: { ...clientConnection, kubeconfig: kubeconfig && resolve(kubeconfig) },
    },
  }
}

/** The passes that the agent still has, oldest first: some 60 per family. */
export function history({ synchronizer }: Inspected): Rows<PassSnapshot> {
  return { items: synchronizer.passes.map(passSnapshot) }
}

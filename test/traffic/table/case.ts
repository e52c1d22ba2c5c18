// A row of the traffic table: objects of Kubernetes, then clients, targets and the required results.
import type { KubernetesObject } from '../../../src/source/index.js'
import {
  addresses,
  type Family,
  masqueradedSource,
  nodeName,
  type Pair,
  type Place,
  type Protocol,
} from './world.js'

export interface Target {
  readonly protocol: Protocol
  readonly address: string
  readonly port: number
}

export interface Source {
  readonly sourceAddress?: string
  readonly sourcePort?: number
}

/**
 * The client that the server sees: the client itself (`kept`), node-a by the link that leads to the server (`node`), or an address.
 */
export type Seen = 'kept' | 'node' | { readonly address: string }

export type Expectation =
  /** Every one of these servers (`ADDRESS PORT`) answers in the end, and no other does. */
  | { readonly kind: 'answer'; readonly by: readonly string[]; readonly sees: Seen }
  /** An ICMP error or a reset: no server listens. */
  | { readonly kind: 'refused' }
  /** Nothing comes back. */
  | { readonly kind: 'dropped' }
  /** The connection is open, and ends by a reset. */
  | { readonly kind: 'reset' }

interface FromTo {
  readonly from: Place
  readonly to: Target
  readonly source?: Source
}

/** New connections. */
export interface FlowCheck extends FromTo {
  readonly kind: 'flow'
  readonly expect: Expectation
}

/** One more request over the socket of that name, which stays open from its first request on. */
export interface AskCheck extends FromTo {
  readonly kind: 'ask'
  readonly session: string
  readonly expect: Expectation
}

/** Connections to all of the targets, by turns, are answered by one and the same of the servers. */
export interface AffinityCheck {
  readonly kind: 'affinity'
  readonly from: Place
  readonly to: readonly Target[]
  readonly by: readonly string[]
}

/** A client that comes again after a pause gets another server at last: the table's only rows that wait for a clock. */
export interface ExpiryCheck extends FromTo {
  readonly kind: 'expiry'
  readonly pauseMs: number
}

/** A TCP segment that belongs to no connection. */
export interface StrayCheck {
  readonly kind: 'stray'
  readonly from: Place
  readonly to: { readonly address: string; readonly port: number }
  readonly expect: 'arrives' | 'dropped'
}

/** An HTTP request to node-a. */
export interface HttpCheck {
  readonly kind: 'http'
  readonly method: 'GET' | 'POST'
  readonly from: Place
  readonly to: { readonly address: string; readonly port: number }
  readonly status: number
  /** Lower-case names; others may be there as well. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export type Check = FlowCheck | AskCheck | AffinityCheck | ExpiryCheck | StrayCheck | HttpCheck

export type Step =
  /** These are the objects of the case from now on. */
  | { readonly do: 'set'; readonly objects: readonly KubernetesObject[] }
  /** The expectations that hold now. */
  | { readonly do: 'check'; readonly checks: readonly Check[] }
  /** The expectations that hold as soon as the change before is in effect. */
  | { readonly do: 'until'; readonly checks: readonly Check[] }
  /** The agent ends and starts again; meanwhile these become the objects of the case. Only in sequential groups. */
  | { readonly do: 'restart'; readonly objects?: readonly KubernetesObject[] }

/** One sentence of the semantics with what shows it. */
export interface TrafficCase {
  readonly name: string
  /** Rules of kube-proxy's behaviour that it shows. */
  readonly rules: readonly string[]
  readonly objects: readonly KubernetesObject[]
  /** Addresses that `lo` of node-a carries meanwhile. */
  readonly nodeAddresses?: readonly string[]
  /** The expectations for the objects alone. */
  readonly checks: readonly Check[]
  /** The following steps, in order. */
  readonly steps?: readonly Step[]
}

export type LocalDetection =
  /** In a family without a network nothing is detected. */
  | { readonly mode: 'ClusterCIDR'; readonly networks: Partial<Pair> }
  | { readonly mode: 'NodeCIDR' }
  | { readonly mode: 'BridgeInterface'; readonly name: string }
  | { readonly mode: 'InterfaceNamePrefix'; readonly prefix: string }

/** How the agent is started; absent: its default. */
export interface TrafficSettings {
  readonly detectLocal?: LocalDetection
  readonly masqueradeBit?: number
  readonly masqueradeAll?: boolean
  readonly localhostNodePorts?: boolean
  readonly nodePortAddresses?: readonly string[]
  readonly allowsExternalIPs?: boolean
}

/** Cases that share one run of the agent. */
export interface TrafficGroup {
  readonly name: string
  readonly settings: TrafficSettings
  /** How node-a was set up before the agent starts, beyond the topology. */
  readonly node?: {
    readonly sysctls?: readonly string[]
    /** Lines for iptables and ip6tables, such as those of a firewall; `undo` takes them back. */
    readonly firewall?: readonly string[]
    readonly undo?: readonly string[]
  }
  /** kube-proxy itself programmed node-a and has gone: the first `restart` is the takeover. One case. */
  readonly predecessor?: 'kube-proxy'
  /** The cases change the agent itself: one after the other. */
  readonly isSequential?: boolean
  readonly cases: readonly TrafficCase[]
}

/** Flags of the agent for these settings. */
export function flagsOf(settings: TrafficSettings): readonly string[] {
  const flags: string[] = []
  const { detectLocal, nodePortAddresses } = settings
  if (detectLocal !== undefined) {
    flags.push(`--detect-local-mode=${detectLocal.mode}`)
    if (detectLocal.mode === 'ClusterCIDR')
      flags.push(`--cluster-cidr=${Object.values(detectLocal.networks).join(',')}`)
    if (detectLocal.mode === 'BridgeInterface') flags.push(`--pod-bridge-interface=${detectLocal.name}`)
    if (detectLocal.mode === 'InterfaceNamePrefix')
      flags.push(`--pod-interface-name-prefix=${detectLocal.prefix}`)
  }
  if (settings.masqueradeBit !== undefined) flags.push(`--iptables-masquerade-bit=${settings.masqueradeBit}`)
  if (settings.masqueradeAll !== undefined) flags.push(`--masquerade-all=${settings.masqueradeAll}`)
  if (settings.localhostNodePorts !== undefined)
    flags.push(`--iptables-localhost-nodeports=${settings.localhostNodePorts}`)
  if (nodePortAddresses !== undefined) flags.push(`--nodeport-addresses=${nodePortAddresses.join(',')}`)
  if (settings.allowsExternalIPs !== undefined)
    flags.push(`--feature-gates=AllowServiceExternalIPs=${settings.allowsExternalIPs}`)
  return flags
}

/** The source address that this server must see. */
export function sourceSeen(check: FromTo & { readonly sees: Seen }, serverAddress: string): string {
  if (typeof check.sees === 'object') return check.sees.address
  if (check.sees === 'node') return masqueradedSource(serverAddress)
  const family: Family = serverAddress.includes(':') ? 'IPv6' : 'IPv4'
  return check.source?.sourceAddress ?? addresses[check.from][family]
}

/** A check in words, for messages. */
export function describeCheck(check: Check): string {
  if (check.kind === 'affinity')
    return `affinity ${check.from} to ${check.to.map(describeTarget).join(' and ')}`
  if (check.kind === 'stray' || check.kind === 'http')
    return `${check.kind} ${check.from} to ${check.to.address} port ${check.to.port}`
  const name = check.kind === 'ask' ? `session ${check.session},` : check.kind
  return `${name} ${check.from} to ${describeTarget(check.to)}`
}

function describeTarget({ protocol, address, port }: Target): string {
  return `${protocol} ${address} port ${port}`
}

/** The expected result of a flow, in words. */
export function describeExpectation(expect: Expectation): string {
  if (expect.kind !== 'answer') return expect.kind
  const sees = typeof expect.sees === 'object' ? expect.sees.address : expect.sees
  return `answers by ${expect.by.join(', ')} that see the client's address ${sees === 'kept' ? 'kept' : `as ${sees}`}`
}

/** kube-proxy's configuration file with these settings. `nftables.masqueradeBit` has no flag. */
export function nftablesConfiguration(settings: TrafficSettings): object {
  const { detectLocal, masqueradeBit, masqueradeAll, nodePortAddresses, allowsExternalIPs } = settings
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'nftables',
    hostnameOverride: nodeName,
    nodePortAddresses,
    nftables: { masqueradeBit, masqueradeAll },
    featureGates: allowsExternalIPs === undefined ? {} : { AllowServiceExternalIPs: allowsExternalIPs },
    ...(detectLocal === undefined ? {} : { detectLocalMode: detectLocal.mode }),
    ...(detectLocal?.mode === 'ClusterCIDR'
      ? { clusterCIDR: Object.values(detectLocal.networks).join(',') }
      : {}),
    detectLocal: {
      ...(detectLocal?.mode === 'BridgeInterface' ? { bridgeInterface: detectLocal.name } : {}),
      ...(detectLocal?.mode === 'InterfaceNamePrefix' ? { interfaceNamePrefix: detectLocal.prefix } : {}),
    },
  }
}

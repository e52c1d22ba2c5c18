// The ipsets of the mode: those of kube-proxy, by name and type, and sets for policies that kube-proxy cannot keep (docs/ipvs.md).
import { type IpAddress, type IpFamily, parseIpAddress } from '../../../address.js'
import { BugError } from '../../../errors.js'
import type { IpsetEntry, IpsetType } from '../../../kernel/index.js'

interface SetSpec {
  /** The name for IPv4; the IPv6 set has KUBE-6- in front. */
  readonly name: string
  readonly type: IpsetType
  /** Entries map packets to a mark. */
  readonly hasMarks?: true
  /** The comment of rules on the set; for a set of kube-proxy, the same as in kube-proxy. */
  readonly comment: string
}

/** Every set; each exists once per family. Entries are added in this order, and deleted in reverse order. */
export const setSpecs = {
  clusterIP: {
    name: 'KUBE-CLUSTER-IP',
    type: 'hash:ip,port',
    comment: 'Kubernetes service cluster ip + port for masquerade purpose',
  },
  externalIP: {
    name: 'KUBE-EXTERNAL-IP',
    type: 'hash:ip,port',
    comment: 'Kubernetes service external ip + port for masquerade and filter purpose',
  },
  externalIPLocal: {
    name: 'KUBE-EXTERNAL-IP-LOCAL',
    type: 'hash:ip,port',
    comment: 'Kubernetes service external ip + port with externalTrafficPolicy=local',
  },
  loadBalancer: {
    name: 'KUBE-LOAD-BALANCER',
    type: 'hash:ip,port',
    comment: 'Kubernetes service lb portal',
  },
  loadBalancerLocal: {
    name: 'KUBE-LOAD-BALANCER-LOCAL',
    type: 'hash:ip,port',
    comment: 'Kubernetes service load balancer ip + port with externalTrafficPolicy=local',
  },
  loadBalancerSources: {
    name: 'KUBE-LOAD-BALANCER-SOURCE-CIDR',
    type: 'hash:ip,port,net',
    comment: 'Kubernetes service load balancer ip + port + source cidr for packet filter purpose',
  },
  loadBalancerOwnSource: {
    name: 'KUBE-LOAD-BALANCER-SOURCE-IP',
    type: 'hash:ip,port,ip',
    comment: 'Kubernetes service load balancer ip + port + source IP for packet filter purpose',
  },
  /** After the sets of sources: packets to its entries are dropped unless a set of sources matches. */
  loadBalancerGuarded: {
    name: 'KUBE-LOAD-BALANCER-FW',
    type: 'hash:ip,port',
    comment: 'Kubernetes service load balancer ip + port for load balancer with sourceRange',
  },
  nodePortTcp: {
    name: 'KUBE-NODE-PORT-TCP',
    type: 'bitmap:port',
    comment: 'Kubernetes nodeport TCP port for masquerade purpose',
  },
  nodePortLocalTcp: {
    name: 'KUBE-NODE-PORT-LOCAL-TCP',
    type: 'bitmap:port',
    comment: 'Kubernetes nodeport TCP port with externalTrafficPolicy=local',
  },
  nodePortUdp: {
    name: 'KUBE-NODE-PORT-UDP',
    type: 'bitmap:port',
    comment: 'Kubernetes nodeport UDP port for masquerade purpose',
  },
  nodePortLocalUdp: {
    name: 'KUBE-NODE-PORT-LOCAL-UDP',
    type: 'bitmap:port',
    comment: 'Kubernetes nodeport UDP port with externalTrafficPolicy=local',
  },
  nodePortSctp: {
    name: 'KUBE-NODE-PORT-SCTP-HASH',
    type: 'hash:ip,port',
    comment: "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'",
  },
  nodePortLocalSctp: {
    name: 'KUBE-NODE-PORT-LOCAL-SCTP-HASH',
    type: 'hash:ip,port',
    comment: "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'",
  },
  healthCheckNodePort: {
    name: 'KUBE-HEALTH-CHECK-NODE-PORT',
    type: 'bitmap:port',
    comment: 'Kubernetes health check node port',
  },
  vips: { name: 'KUBE-IPVS-IPS', type: 'hash:ip', comment: 'Addresses on the ipvs interface' },
  /** This and all following sets are Viaduct's: addresses of the node that serve node ports. kube-proxy uses every local address. */
  nodePortIPs: {
    name: 'KUBE-NODE-PORT-IP',
    type: 'hash:ip',
    comment: 'Kubernetes nodeport addresses of this node',
  },
  refused: {
    name: 'KUBE-NO-ENDPOINTS',
    type: 'hash:ip,port',
    comment: 'Kubernetes service ip + port without endpoints',
  },
  /** New connections to its entries are dropped, those of the node included: internalTrafficPolicy Local. */
  dropped: {
    name: 'KUBE-NO-LOCAL-ENDPOINTS',
    type: 'hash:ip,port',
    comment: 'Kubernetes service ip + port with internalTrafficPolicy=local, all endpoints elsewhere',
  },
  /** New connections of outside clients to its entries are dropped: externalTrafficPolicy Local. */
  droppedOutside: {
    name: 'KUBE-EXTERNAL-NO-LOCAL',
    type: 'hash:ip,port',
    comment: 'Kubernetes service ip + port with externalTrafficPolicy=local, all endpoints elsewhere',
  },
  /** Frontends for which pods and the node have virtual servers of their own, found by mark (docs/adr/0011). */
  marked: {
    name: 'KUBE-EXTERNAL-LOCAL-MARK',
    type: 'hash:ip,port',
    hasMarks: true,
    comment: 'Kubernetes service ip + port with externalTrafficPolicy=local, to endpoints of all nodes',
  },
  /** The marks themselves, written as addresses: they show which virtual servers by mark are ours. */
  marks: {
    name: 'KUBE-EXTERNAL-LOCAL-MARKS',
    type: 'hash:ip',
    comment: 'Kubernetes marks with externalTrafficPolicy=local',
  },
} as const satisfies Readonly<Record<string, SetSpec>>

export type SetKey = keyof typeof setSpecs

/** Sets whose entries cause packets to be refused or dropped. */
export const forbiddingSets: ReadonlySet<SetKey> = new Set(['refused', 'dropped', 'droppedOutside'])

/** Sets whose entries keep the source of packets from outside, so that only endpoints of this node can answer them. */
export const sourceKeepingSets: ReadonlySet<SetKey> = new Set([
  'externalIPLocal',
  'loadBalancerLocal',
  'nodePortLocalTcp',
  'nodePortLocalUdp',
  'nodePortLocalSctp',
])

/** Every set of the mode. */
export const setKeys: readonly SetKey[] = Object.keys(setSpecs).filter(
  (key): key is SetKey => key in setSpecs,
)

/** Sets of kube-proxy that Viaduct does not use; `docs/ipvs.md` gives the reason. */
export const formerSets: readonly string[] = ['KUBE-LOOP-BACK']

/** IPSET_MAXNAMELEN without its NUL. */
const maxNameLength = 31

/** All names begin with this prefix. */
export const setPrefix = 'KUBE-'

/** Name of a set in a family. A name that is too long is cut, as in kube-proxy. */
export function familySetName(name: string, family: IpFamily): string {
  return family === 'ipv4' ? name : name.replace(setPrefix, `${setPrefix}6-`).slice(0, maxNameLength)
}

export function setName(key: SetKey, family: IpFamily): string {
  return familySetName(setSpecs[key].name, family)
}

export function setSpec(key: SetKey): SetSpec {
  return setSpecs[key]
}

/** The address that stands for a mark in the set of marks: its 32 bits, in IPv6 the lowest ones. */
export function markAddress(mark: number, family: IpFamily): IpAddress {
  const [high, low] = [Math.floor(mark / 2 ** 16), mark % 2 ** 16]
  const bytes = [high, low].flatMap((half) => [half >> 8, half & 0xff])
  const text = family === 'ipv4' ? bytes.join('.') : `::${high.toString(16)}:${low.toString(16)}`
  const address = parseIpAddress(text)
  if (address === undefined) throw new BugError(`mark ${mark} is no address`)
  return address
}

/** An entry of one of the sets. */
export interface DesiredSetEntry {
  readonly set: SetKey
  readonly entry: IpsetEntry
}

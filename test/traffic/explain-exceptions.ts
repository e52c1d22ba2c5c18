// The rows of the traffic table for which `viaduct explain` says something else than the packets do, each with the reason.
import type { TrafficCase, TrafficGroup } from './table/case.js'

const firewall = "the node's own firewall decides, which explain does not know"
const marks = "rules of other programs change the packet's mark, which explain does not know"

/** By mode, and by `exceptionKey`. */
const exceptions: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  iptables: { 'what is not masqueraded is the business of that firewall': firewall },
  'iptables-nft': { 'what is not masqueraded is the business of that firewall': firewall },
  nftables: {
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'the health check port is let in': firewall,
  },
  ipvs: {
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'node ports that a firewall closes at INPUT': firewall,
    'masquerade all, by another bit: policy Local: all clients to every frontend': marks,
    'masquerade all, by another bit: internal policy Cluster with external policy Local': marks,
    'a bit that others add to marks at INPUT leaves the outside its endpoints here, and its source': marks,
  },
  userspace: {
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'the health check port is let in': firewall,
    'node ports that a firewall closes at INPUT': firewall,
    "connections, UDP flows and affinity go on over a takeover from kube-proxy's rules":
      'the connections are those of the former kube-proxy',
  },
}

/** The reasons of a mode by `exceptionKey`. */
export function exceptionsOf(mode: string): Readonly<Record<string, string>> {
  return exceptions[mode] ?? {}
}

/** The name of a row among the exceptions: the matrix of cases is in several groups. */
export function exceptionKey(group: TrafficGroup, row: TrafficCase): string {
  return group.name.startsWith('masquerade all') ? `masquerade all, by another bit: ${row.name}` : row.name
}

// The rows of the traffic table that explain cannot answer without a kernel, each with the reason. On a kernel there are none.
import type { TrafficCase, TrafficGroup } from './table/case.js'

const firewall = "the node's own firewall decides, which only a kernel has"
const marks = "rules of other programs change the packet's mark, which only a kernel has"

type Exceptions = Readonly<Record<string, Readonly<Record<string, string>>>>

/** By mode, and by `exceptionKey`. */
const exceptions: Exceptions = {
  iptables: { 'what is not masqueraded is the business of that firewall': firewall },
  'iptables-nft': { 'what is not masqueraded is the business of that firewall': firewall },
  nftables: {
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'the health check port is let in': firewall,
  },
  ipvs: {
    'masquerade all, by another bit: policy Local: all clients to every frontend': marks,
    'masquerade all, by another bit: internal policy Cluster with external policy Local': marks,
    'a bit that others add to marks at INPUT leaves the outside its endpoints here, and its source': marks,
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'node ports that a firewall closes at INPUT': firewall,
  },
  userspace: {
    'what is masqueraded passes a firewall that forwards nothing, with its replies': firewall,
    'a pod that is its own server passes as well': firewall,
    'what is not masqueraded is the business of that firewall': firewall,
    'the health check port is let in': firewall,
    'node ports that a firewall closes at INPUT': firewall,
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

// The rows of the traffic table for which `viaduct explain` says something else than the packets do, each with the reason.
import type { TrafficCase, TrafficGroup } from './table/case.js'

/** Without a kernel explain does not know these rules. */
const firewall = "the node's own firewall decides, which only a kernel has"
const marks = "rules of other programs change the packet's mark, which explain does not know"

type Exceptions = Readonly<Record<string, Readonly<Record<string, string>>>>

/** By mode, and by `exceptionKey`. */
const exceptions: Exceptions = {
  ipvs: {
    'masquerade all, by another bit: policy Local: all clients to every frontend': marks,
    'masquerade all, by another bit: internal policy Cluster with external policy Local': marks,
    'a bit that others add to marks at INPUT leaves the outside its endpoints here, and its source': marks,
  },
}

/** The further ones where there is no kernel. */
const withoutKernel: Exceptions = {
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
export function exceptionsOf(
  mode: string,
  { hasKernel }: { readonly hasKernel: boolean },
): Readonly<Record<string, string>> {
  return { ...exceptions[mode], ...(hasKernel ? {} : withoutKernel[mode]) }
}

/** The name of a row among the exceptions: the matrix of cases is in several groups. */
export function exceptionKey(group: TrafficGroup, row: TrafficCase): string {
  return group.name.startsWith('masquerade all') ? `masquerade all, by another bit: ${row.name}` : row.name
}

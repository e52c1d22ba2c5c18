// The sets and maps of the mode. No set belongs to a Service. Names that kube-proxy uses too have kube-proxy's type: either
// program can then replace the other in the table.
import type { IpFamily } from '../../../address.js'
import type { NfField, NfSet, NfSetFlag, NfTableKey } from '../../../kernel/index.js'

/** Table `ip kube-proxy` or `ip6 kube-proxy`. */
export const tableName = 'kube-proxy'

/** Index of the first endpoint for short circuits; the endpoints for all other connections begin at 0. */
export const shortCircuitOffset = 2 ** 31

/** The most endpoints of one list: counts have two bytes. */
export const maxEndpoints = 65_535

/**
 * The most clients that session affinity remembers; a client counts once per frontend. A new client beyond it gets no affinity.
 * nft's default is 65,535, which is too few for a map that all Services share.
 */
const maxAffinityClients = 2 ** 18

/** The kernel walks the whole map this often to free expired elements, by default each second. Lookups skip expired elements. */
const affinityGcMs = 10_000

/** The sets of one kind of frontend, whose key is KEY. */
export interface FrontendSets {
  /** KEY -> number of endpoints. Absent: none. */
  readonly counts: NfSet
  /** KEY . index -> address . port. */
  readonly endpoints: NfSet
  /** KEY -> number of endpoints for pods and for the node itself (F-051). Absent: no short circuit. */
  readonly shortCircuitCounts: NfSet
  /** Connections leave with this node's address. */
  readonly masqueraded: NfSet
  readonly rejected: NfSet
  readonly dropped: NfSet
  /** Client . KEY -> address . port: written by rules. Exists while a frontend has session affinity. */
  readonly sessionAffinity: NfSet
  /** Frontends with session affinity of this time. The set exists while its time is in use. */
  readonly affinityOf: (seconds: number) => NfSet
}

/** All sets of one family. The same objects in each call of schemaOf. */
export interface NftSchema {
  readonly table: NfTableKey
  readonly clusterIPs: NfSet
  /** Absent in the kernel where node ports are on all local addresses. */
  readonly nodePortIPs: NfSet
  readonly serviceCidrs: NfSet
  /** Endpoint . endpoint . protocol . port. */
  readonly hairpinConnections: NfSet
  /** KEY: address . protocol . port. */
  readonly services: FrontendSets
  /** KEY: protocol . port. */
  readonly nodePorts: FrontendSets
  readonly firewalledServices: NfSet
  /** KEY . network of this prefix length. The set exists while its length is in use. */
  readonly allowedSources: (prefixLength: number) => NfSet
}

const schemas: Readonly<Record<IpFamily, NftSchema>> = { ipv4: makeSchema('ipv4'), ipv6: makeSchema('ipv6') }

export function schemaOf(family: IpFamily): NftSchema {
  return schemas[family]
}

function makeSchema(family: IpFamily): NftSchema {
  const table: NfTableKey = { family, table: tableName }
  const address: NfField = family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'
  const source: NfField = family === 'ipv4' ? 'ip saddr' : 'ip6 saddr'
  const destination: NfField = family === 'ipv4' ? 'ip daddr' : 'ip6 daddr'
  const port: readonly NfField[] = ['inet_proto', 'inet_service']
  const portSources: readonly NfField[] = ['meta l4proto', 'th dport']
  const set = (name: string, comment: string, key: readonly NfField[]): NfSet => ({
    ...table,
    set: name,
    key,
    comment,
  })
  return {
    table,
    clusterIPs: set('cluster-ips', 'Active ClusterIPs', [address]),
    nodePortIPs: set('nodeport-ips', 'IPs that accept NodePort traffic', [address]),
    serviceCidrs: {
      ...set('service-cidrs', 'networks of ClusterIPs', [address]),
      flags: ['interval'],
    },
    hairpinConnections: set('hairpin-connections', 'service hairpin connections', [
      address,
      address,
      ...port,
    ]),
    services: frontendSets({
      table,
      names: { one: 'service', all: 'services', infix: '' },
      key: [address, ...port],
      sources: [destination, ...portSources],
      client: source,
      endpoint: [destination, 'th dport'],
    }),
    nodePorts: frontendSets({
      table,
      names: { one: 'nodeport', all: 'nodeports', infix: 'nodeport-' },
      key: port,
      sources: portSources,
      client: source,
      endpoint: [destination, 'th dport'],
    }),
    firewalledServices: set('firewalled-services', 'services with loadBalancerSourceRanges', [
      address,
      ...port,
    ]),
    allowedSources: cached((prefixLength) =>
      set(`allowed-sources-${prefixLength}`, 'networks of loadBalancerSourceRanges', [
        address,
        ...port,
        address,
      ]),
    ),
  }
}

interface FrontendPlan {
  readonly table: NfTableKey
  readonly names: { readonly one: string; readonly all: string; readonly infix: string }
  /** KEY by types. */
  readonly key: readonly NfField[]
  /** KEY by expressions: nft lists an index of numgen beside expressions only. */
  readonly sources: readonly NfField[]
  readonly client: NfField
  readonly endpoint: readonly NfField[]
}

function frontendSets({ table, names, key, sources, client, endpoint }: FrontendPlan): FrontendSets {
  const { one, all, infix } = names
  const set = (name: string, comment: string): NfSet => ({ ...table, set: name, key, comment })
  const counts = (name: string, comment: string): NfSet => ({ ...set(name, comment), data: ['inet_service'] })
  const dynamic: readonly NfSetFlag[] = ['timeout', 'dynamic']
  return {
    counts: counts(`${one}-endpoint-counts`, `number of endpoints of ${all}`),
    endpoints: {
      ...table,
      set: `${one}-endpoints`,
      key: [...sources, 'numgen random mod 2'],
      data: endpoint,
      comment: `endpoints of ${all}, from index 0, and for short circuits from index ${shortCircuitOffset}`,
    },
    shortCircuitCounts: counts(
      `short-circuit-${infix}counts`,
      `number of endpoints of ${all} for pods and this node`,
    ),
    masqueraded: set(`masqueraded-${all}`, `${all} whose clients are masqueraded`),
    rejected: set(`rejected-${all}`, `${all} without endpoints`),
    dropped: set(`dropped-${all}`, `${all} without endpoints on this node`),
    sessionAffinity: {
      ...table,
      set: infix === '' ? 'session-affinity' : 'session-affinity-nodeports',
      key: [client, ...sources],
      data: endpoint,
      flags: dynamic,
      size: maxAffinityClients,
      gcIntervalMs: affinityGcMs,
      comment: `endpoints that clients of ${all} stay with`,
    },
    affinityOf: cached((seconds) =>
      set(`session-affinity-${all}-${seconds}`, `${all} with session affinity of ${seconds} seconds`),
    ),
  }
}

/** The same object for the same number. */
function cached(make: (number: number) => NfSet): (number: number) => NfSet {
  const made = new Map<number, NfSet>()
  return (number) => {
    const known = made.get(number) ?? make(number)
    made.set(number, known)
    return known
  }
}

/** The set of this name in the table of a family; undefined: the mode has no such set. */
export function setNamed(family: IpFamily, name: string): NfSet | undefined {
  const { table: _, services, nodePorts, allowedSources, ...others } = schemaOf(family)
  const sets = [services, nodePorts].flatMap(({ affinityOf: __, ...each }) => Object.values(each))
  const known = [...Object.values(others), ...sets].find(({ set }) => set === name)
  if (known !== undefined) return known
  const { base = '', number } = /^(?<base>.*)-(?<number>\d+)$/u.exec(name)?.groups ?? {}
  const make = {
    'allowed-sources': allowedSources,
    'session-affinity-services': services.affinityOf,
    'session-affinity-nodeports': nodePorts.affinityOf,
  }[base]
  return make?.(Number(number))
}

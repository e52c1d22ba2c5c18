// The sets and maps of the mode. No set belongs to a Service. Names that kube-proxy uses too have kube-proxy's type: either
// program can then replace the other in the table.
import type { IpFamily } from '../../../address.js'
import {
  hostPrefixLength,
  type NfField,
  type NfSet,
  type NfSetFlag,
  type NfTableKey,
} from '../../../kernel/index.js'

/** Table `ip kube-proxy` or `ip6 kube-proxy`. */
export const tableName = 'kube-proxy'

/**
 * The most endpoints of one list. Each index has a map of its own, and the kernel finds a set by walking the list of all sets: 25 ns
 * for each. So a change of a list with n endpoints costs n * 25 ns at its last place. The elements of the first such list are one
 * transaction: 35 ms with 256 endpoints and a node port, 81 ms with 1,000, 840 ms with 4,096.
 */
export const maxEndpoints = 4096

/** Numbers of endpoints up to this one have rules of their own in the chain of all; larger ones share a rule per bucket. */
export const bucketSize = 16

/**
 * The most clients that session affinity remembers; a client counts once per frontend. A new client beyond it gets no affinity.
 * nft's default is 65,535, which is too few for a map that all Services share.
 */
const maxAffinityClients = 2 ** 18

/** The kernel walks the whole map this often to free expired elements, by default each second. Lookups skip expired elements. */
const affinityGcMs = 10_000

/** The sets of one list of endpoints. Those with a number exist while it is in use. */
export interface EndpointSets {
  /** Frontends with endpoints. */
  readonly all: NfSet
  /** Frontends with this number of endpoints. */
  readonly withCount: (count: number) => NfSet
  /** Frontends whose number of endpoints is in this bucket (bucketOf). */
  readonly inBucket: (bucket: number) => NfSet
  /** KEY -> address . port of the endpoint with this index, from 0. */
  readonly endpointAt: (index: number) => NfSet
}

/** The sets of one kind of frontend, whose key is KEY. */
export interface FrontendSets {
  /** The endpoints of connections that no short circuit takes. */
  readonly endpoints: EndpointSets
  /** The endpoints for pods and for the node itself (F-051). */
  readonly shortCircuit: EndpointSets
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

/** The bucket of a number of endpoints; 0: none, the number is in the chain of all. */
export function bucketOf(count: number): number {
  return count === 0 ? 0 : Math.ceil(count / bucketSize) - 1
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
      names: { one: 'service', all: 'services' },
      key: [address, ...port],
      endpoint: [address, 'inet_service'],
      affinity: {
        name: 'session-affinity',
        key: [source, destination, ...portSources],
        data: [destination, 'th dport'],
      },
    }),
    nodePorts: frontendSets({
      table,
      names: { one: 'nodeport', all: 'nodeports' },
      key: port,
      endpoint: [address, 'inet_service'],
      affinity: {
        name: 'session-affinity-nodeports',
        key: [source, ...portSources],
        data: [destination, 'th dport'],
      },
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
  readonly names: { readonly one: string; readonly all: string }
  readonly key: readonly NfField[]
  readonly endpoint: readonly NfField[]
  readonly affinity: {
    readonly name: string
    readonly key: readonly NfField[]
    readonly data: readonly NfField[]
  }
}

function frontendSets(plan: FrontendPlan): FrontendSets {
  const { table, names, key, affinity } = plan
  const { all } = names
  const set = (name: string, comment: string): NfSet => ({ ...table, set: name, key, comment })
  const dynamic: readonly NfSetFlag[] = ['timeout', 'dynamic']
  return {
    endpoints: endpointSets(plan, '', ''),
    shortCircuit: endpointSets(plan, 'short-circuit-', ' for pods and this node'),
    masqueraded: set(`masqueraded-${all}`, `${all} whose clients are masqueraded`),
    rejected: set(`rejected-${all}`, `${all} without endpoints`),
    dropped: set(`dropped-${all}`, `${all} without endpoints on this node`),
    sessionAffinity: {
      ...table,
      set: affinity.name,
      key: affinity.key,
      data: affinity.data,
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

function endpointSets(
  { table, names: { one, all }, key, endpoint }: FrontendPlan,
  prefix: string,
  purpose: string,
): EndpointSets {
  const set = (name: string, comment: string): NfSet => ({
    ...table,
    set: `${prefix}${name}`,
    key,
    comment: `${comment}${purpose}`,
  })
  return {
    all: set(`${all}-with-endpoints`, `${all} with endpoints`),
    withCount: cached((count) =>
      set(`${all}-with-${count}`, `${all} with ${count} endpoint${count === 1 ? '' : 's'}`),
    ),
    inBucket: cached((bucket) => {
      const first = bucket * bucketSize + 1
      return set(`${all}-bucket-${bucket}`, `${all} with ${first} to ${first + bucketSize - 1} endpoints`)
    }),
    endpointAt: cached((index) => ({
      ...set(`${one}-endpoint-${index}`, `endpoint ${index} of ${all}`),
      data: endpoint,
    })),
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

/** A set that exists while its number is in use. */
export interface NumberedSet {
  readonly set: NfSet
  /** The number counts seconds of affinity, is the prefix length of sources, or is a number of `EndpointSets`. */
  readonly kind: 'affinity' | 'sources' | keyof Omit<EndpointSets, 'all'>
  readonly number: number
  readonly isNodePort: boolean
  readonly isShortCircuit: boolean
}

/** The first and the last number of each kind. */
function rangeOf(kind: NumberedSet['kind'], family: IpFamily): readonly [number, number] {
  const ranges: Readonly<Record<NumberedSet['kind'], readonly [number, number]>> = {
    affinity: [1, 999_999_999],
    sources: [0, hostPrefixLength(family)],
    withCount: [1, maxEndpoints],
    inBucket: [1, bucketOf(maxEndpoints)],
    endpointAt: [0, maxEndpoints - 1],
  }
  return ranges[kind]
}

const numberedName =
  /^(?<prefix>short-circuit-)?(?<base>.+?-(?:with|bucket|endpoint)|session-affinity-\w+|allowed-sources)-(?<digits>\d{1,9})$/u

/** undefined: the schema has no such set. */
export function numberedSet(schema: NftSchema, name: string): NumberedSet | undefined {
  const { prefix, base = '', digits = '' } = numberedName.exec(name)?.groups ?? {}
  const isShortCircuit = prefix !== undefined
  const isNodePort = base.includes('nodeport')
  const sets = isNodePort ? schema.nodePorts : schema.services
  const list = isShortCircuit ? sets.shortCircuit : sets.endpoints
  const kinds = {
    affinity: sets.affinityOf,
    sources: schema.allowedSources,
    withCount: list.withCount,
    inBucket: list.inBucket,
    endpointAt: list.endpointAt,
  }
  const [, kind] = kindOfBase.find(([pattern]) => pattern.test(base)) ?? []
  if (kind === undefined) return undefined
  const number = Number(digits)
  const [first, last] = rangeOf(kind, schema.table.family)
  if (number < first || number > last) return undefined
  const set = kinds[kind](number)
  return set.set === name ? { set, kind, number, isNodePort, isShortCircuit } : undefined
}

const kindOfBase: readonly (readonly [RegExp, NumberedSet['kind']])[] = [
  [/^session-affinity-/u, 'affinity'],
  [/^allowed-sources$/u, 'sources'],
  [/-with$/u, 'withCount'],
  [/-bucket$/u, 'inBucket'],
  [/-endpoint$/u, 'endpointAt'],
]

/** The set of this name in the table of a family; undefined: the mode has no such set. */
export function setNamed(family: IpFamily, name: string): NfSet | undefined {
  const schema = schemaOf(family)
  const { table: _, services, nodePorts, allowedSources: __, ...others } = schema
  const known = [...Object.values(others), ...fixedSetsOf(services), ...fixedSetsOf(nodePorts)]
  return known.find(({ set }) => set === name) ?? numberedSet(schema, name)?.set
}

/** The sets without a number. */
function fixedSetsOf(sets: FrontendSets): readonly NfSet[] {
  const { endpoints, shortCircuit, affinityOf: _, ...others } = sets
  return [endpoints.all, shortCircuit.all, ...Object.values(others)]
}

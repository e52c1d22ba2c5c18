// The sets and maps of the mode. Only sets of clients belong to a Service port. Names that kube-proxy uses too have kube-proxy's type: either
// program can then replace the other in the table.
import type { IpFamily } from '../../../address.js'
import { hostPrefixLength, type NfField, type NfSet, type NfTableKey } from '../../../kernel/index.js'

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
 * The most clients of one Service port whose endpoints are remembered. The kernel makes the hash table for this number at once, but reads
 * only its lower 16 bits (nelem_hint in struct rhashtable_params): multiples of 65,536 cost nothing, 65,535 costs 1 MB.
 */
export const maxClients = 2 ** 18

/** The kernel walks a whole set this often to free expired elements, by default each second. Lookups skip expired elements. */
const clientsGcMs = 60_000

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
  /** Frontends whose endpoints a chain of their service port chooses. Exists, with `ownChains`, while there are some. */
  readonly withOwnChain: NfSet
  /** KEY -> verdict: the chain. */
  readonly ownChains: NfSet
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
  /** Client . slot of the clients of one service port with session affinity: written by rules (own-chains.ts). */
  readonly clients: (id: string, comment?: string) => NfSet
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
  const port: readonly NfField[] = ['inet_proto', 'inet_service']
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
    }),
    nodePorts: frontendSets({
      table,
      names: { one: 'nodeport', all: 'nodeports' },
      key: port,
      endpoint: [address, 'inet_service'],
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
    clients: (id, comment = '') => ({
      ...set(`clients-${id}`, comment, [address, 'mark']),
      flags: ['timeout', 'dynamic'],
      size: maxClients,
      gcIntervalMs: clientsGcMs,
    }),
  }
}

interface FrontendPlan {
  readonly table: NfTableKey
  readonly names: { readonly one: string; readonly all: string }
  readonly key: readonly NfField[]
  readonly endpoint: readonly NfField[]
}

function frontendSets(plan: FrontendPlan): FrontendSets {
  const { table, names, key } = plan
  const { all } = names
  const set = (name: string, comment: string): NfSet => ({ ...table, set: name, key, comment })
  return {
    endpoints: endpointSets(plan, '', ''),
    shortCircuit: endpointSets(plan, 'short-circuit-', ' for pods and this node'),
    masqueraded: set(`masqueraded-${all}`, `${all} whose clients are masqueraded`),
    rejected: set(`rejected-${all}`, `${all} without endpoints`),
    dropped: set(`dropped-${all}`, `${all} without endpoints on this node`),
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
    withOwnChain: set(`${all}-with-own-chain`, `${all} with chains of their own`),
    ownChains: { ...set(`own-${all}`, `chains of ${all}`), data: 'verdict' },
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
  /** The number is the prefix length of sources, or a number of `EndpointSets`. */
  readonly kind: 'sources' | 'withCount' | 'inBucket' | 'endpointAt'
  readonly number: number
  readonly isNodePort: boolean
  readonly isShortCircuit: boolean
}

/** The first and the last number of each kind. */
function rangeOf(kind: NumberedSet['kind'], family: IpFamily): readonly [number, number] {
  const ranges: Readonly<Record<NumberedSet['kind'], readonly [number, number]>> = {
    sources: [0, hostPrefixLength(family)],
    withCount: [1, maxEndpoints],
    inBucket: [1, bucketOf(maxEndpoints)],
    endpointAt: [0, maxEndpoints - 1],
  }
  return ranges[kind]
}

const numberedName =
  /^(?<prefix>short-circuit-)?(?<base>.+?-(?:with|bucket|endpoint)|allowed-sources)-(?<digits>\d{1,9})$/u

/** undefined: the schema has no such set. */
export function numberedSet(schema: NftSchema, name: string): NumberedSet | undefined {
  const { prefix, base = '', digits = '' } = numberedName.exec(name)?.groups ?? {}
  const isShortCircuit = prefix !== undefined
  const isNodePort = base.includes('nodeport')
  const sets = isNodePort ? schema.nodePorts : schema.services
  const list = isShortCircuit ? sets.shortCircuit : sets.endpoints
  const kinds = {
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
  [/^allowed-sources$/u, 'sources'],
  [/-with$/u, 'withCount'],
  [/-bucket$/u, 'inBucket'],
  [/-endpoint$/u, 'endpointAt'],
]

/** The set of this name in the table of a family; undefined: the mode has no such set. */
export function setNamed(family: IpFamily, name: string): NfSet | undefined {
  const schema = schemaOf(family)
  const { table: _, services, nodePorts, allowedSources: __, clients: ___, ...others } = schema
  const known = [...Object.values(others), ...fixedSetsOf(services), ...fixedSetsOf(nodePorts)]
  return known.find(({ set }) => set === name) ?? numberedSet(schema, name)?.set ?? clientSet(schema, name)
}

const clientSetName = /^clients-(?<id>[A-Z2-7]{26})$/u

/** The set of clients of this name; undefined: it is no such name. */
export function clientSet(schema: NftSchema, name: string): NfSet | undefined {
  const { id } = clientSetName.exec(name)?.groups ?? {}
  return id === undefined ? undefined : schema.clients(id)
}

/** The sets without a number. */
function fixedSetsOf(sets: FrontendSets): readonly NfSet[] {
  const { endpoints, shortCircuit, ...others } = sets
  const ofLists = [endpoints, shortCircuit].flatMap((list) => [list.all, list.withOwnChain, list.ownChains])
  return [...ofLists, ...Object.values(others)]
}

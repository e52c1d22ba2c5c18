// The chains of one service port, for the frontends that need more than sets of all frontends: those with session affinity. A chain for
// each list of endpoints, and one set of clients for both, so that a client has the same endpoint at all frontends.
//
// Each endpoint has a slot, a number that is a constant in its rules. The set has the clients by client . slot. When an endpoint goes,
// its rules go, and so does the affinity to it: nothing searches for its clients.
import { hash } from 'node:crypto'
import type { IpFamily } from '../../../address.js'
import {
  elementsOfLookup,
  isSameRule,
  type NfExpressionOf,
  type NfRule,
  type NfRuleState,
  protocolNumber,
} from '../../../kernel/index.js'
import { type Backend, type FrontendProtocol, frontendProtocols, type Route } from '../../../routing/index.js'
import type { DesiredFrontend, DesiredRoute } from './desired.js'
import {
  constantField,
  constantOf,
  count,
  dnatTo,
  dnatToOneOf,
  type Expressions,
  type Field,
  isIn,
  isOneOf,
  isProtocol,
  packetFields,
  update,
} from './expressions.js'
import { maxEndpoints, schemaOf } from './schema.js'

/** The lists of endpoints of a service port. */
export const ownLists = ['cluster', 'local'] as const
export type OwnChainList = (typeof ownLists)[number]

/** An endpoint: address and port, a character for each byte as in a map of endpoints, and its slot. */
export interface SlottedEndpoint {
  readonly endpoint: string
  readonly slot: number
}

/** The content of an own chain: its rules follow from it. */
export interface OwnChainContent {
  readonly protocol: FrontendProtocol
  readonly affinitySeconds: number
  /** At least one. */
  readonly endpoints: readonly SlottedEndpoint[]
}

/** 130 bits: tenants choose the names of Services, and no two may ever share a chain. */
const idDigits = 26
const idBytes = 17
const base32Digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** The first digits of the RFC 4648 base32 of SHA-256. */
export function ownChainId(key: string): string {
  const digest = hash('sha256', key, 'buffer')
  let bits = BigInt(`0x${digest.subarray(0, idBytes).toString('hex')}`) >> BigInt(8 * idBytes - 5 * idDigits)
  let id = ''
  for (let digit = 0; digit < idDigits; digit++) {
    id = base32Digits.charAt(Number(bits & 31n)) + id
    bits >>= 5n
  }
  return id
}

/** `own-ID`, `own-ID-local`. kube-proxy removes chains with a slash in their names. */
export function ownChainName(id: string, list: OwnChainList): string {
  return list === 'cluster' ? `own-${id}` : `own-${id}-local`
}

const namePattern = /^own-(?<id>[A-Z2-7]{26})(?<suffix>-local)?$/u

/** The service port's id and the list of an own chain; undefined: the chain has no such name. */
export function parseOwnChainName(
  name: string,
): { readonly id: string; readonly list: OwnChainList } | undefined {
  const { id, suffix } = namePattern.exec(name)?.groups ?? {}
  return id === undefined ? undefined : { id, list: suffix === undefined ? 'cluster' : 'local' }
}

/** The frontends of a service port, which lead to its own chains. */
export function ownChainsOf(
  route: Route,
  frontends: readonly DesiredFrontend[],
): Pick<DesiredRoute, 'frontends' | 'own'> {
  const id = ownChainId(route.key)
  const used = new Set<OwnChainList>()
  const chainOf = (list: OwnChainList, backends: readonly Backend[]): string => {
    if (backends.length === 0) return ''
    used.add(list)
    return ownChainName(id, list)
  }
  const led = frontends.map((frontend) => ({
    ...frontend,
    chain: chainOf(listOf(route, frontend), frontend.backends),
    shortCircuitChain: chainOf('cluster', frontend.shortCircuit),
  }))
  if (used.size === 0) return { frontends, own: undefined }
  const own = {
    id,
    name: route.key,
    protocol: frontendProtocols[route.protocol],
    affinitySeconds: route.affinitySeconds,
    cluster: used.has('cluster') ? route.clusterBackends.slice(0, maxEndpoints) : [],
    local: used.has('local') ? route.localBackends.slice(0, maxEndpoints) : [],
  }
  return { frontends: led, own }
}

function listOf({ isInternalLocal, isExternalLocal }: Route, { isClusterIP }: DesiredFrontend): OwnChainList {
  return (isClusterIP ? isInternalLocal : isExternalLocal) ? 'local' : 'cluster'
}

/** The longest comment that nft reads is one of 128 bytes, of which one ends it. */
const maxComment = 127

/** `clients of default/sticky:http/TCP` */
export function ownComment(about: string): string {
  return about.length <= maxComment ? about : `${about.slice(0, maxComment - 3)}...`
}

/** Where the rules of a chain stand. */
export interface OwnChainPlace {
  readonly family: IpFamily
  readonly id: string
  readonly list: OwnChainList
  /** The comment of the last rule. */
  readonly comment: string | undefined
}

/**
 * The rules of a chain: known clients go to their endpoints; each new one is recorded at an endpoint at random, and goes there. Where the
 * set of clients is full, the last rule counts the packet, and chooses for this connection alone.
 */
export function ownRules(
  { family, id, list, comment }: OwnChainPlace,
  { protocol, affinitySeconds, endpoints }: OwnChainContent,
): readonly NfRule[] {
  const { table, clients } = schemaOf(family)
  const set = clients(id)
  const isOfProtocol = isProtocol(protocolNumber[protocol])
  const addressBytes = packetFields[family].source.words * 4
  const plans = endpoints.map(({ endpoint, slot }) => {
    const bytes = Buffer.from(endpoint, 'latin1')
    const key: readonly Field[] = [packetFields[family].source, constantField(slot)]
    const port = bytes.subarray(addressBytes, addressBytes + 2)
    const record: Expressions = [
      ...update(set, key, affinitySeconds * 1000),
      ...isOfProtocol,
      ...dnatTo(family, bytes.subarray(0, addressBytes), port),
    ]
    return { bytes, record, isKnown: isIn(set, key) }
  })
  const known = plans.map(({ isKnown, record }) => [...isKnown, ...record])
  const chosen = plans.map(({ record }, index) => {
    const left = plans.length - index
    return left === 1 ? record : [...isOneOf(left), ...record]
  })
  const all = plans.map(({ bytes }) => bytes)
  const chain = { ...table, chain: ownChainName(id, list) }
  return [
    ...[...known, ...chosen].map((expressions) => ({ ...chain, expressions })),
    {
      ...chain,
      expressions: [...isOfProtocol, ...count, ...dnatToOneOf(table, all)],
      ...(comment === undefined ? {} : { comment }),
    },
  ]
}

/** Number of rules of a chain with so many endpoints. */
export function ownRuleCount(endpoints: number): number {
  return 2 * endpoints + 1
}

/** The content of a chain as the kernel has it. */
export interface ReadOwnChain {
  readonly content: OwnChainContent
  /** The kernel has exactly the rules of this content, and no other ones. */
  readonly isWhole: boolean
}

/** undefined: no rule records clients at an endpoint. */
export function readOwnRules(place: OwnChainPlace, found: readonly NfRuleState[]): ReadOwnChain | undefined {
  const content = contentOf(found)
  if (content === undefined) return undefined
  const comment = place.comment ?? found.at(-1)?.comment
  const rules = ownRules({ ...place, comment }, content)
  const isWhole =
    rules.length === found.length &&
    rules.every((rule, index) => {
      const other = found[index]
      return other !== undefined && isSameRule(rule, other)
    })
  return { content, isWhole }
}

function contentOf(found: readonly NfRuleState[]): OwnChainContent | undefined {
  const endpoints: SlottedEndpoint[] = []
  let protocol: FrontendProtocol | undefined
  let affinitySeconds = 0
  for (const { expressions } of found) {
    const { lookup, dynset } = named(expressions)
    const slot = constantOf(expressions)
    const endpoint = endpointIn(expressions)
    if (lookup !== undefined || dynset?.timeoutMs === undefined || slot === undefined) continue
    if (endpoint === undefined) continue
    endpoints.push({ endpoint, slot })
    affinitySeconds = dynset.timeoutMs / 1000
    protocol ??= protocolIn(expressions)
  }
  return protocol === undefined ? undefined : { protocol, affinitySeconds, endpoints }
}

function named(expressions: Expressions): {
  readonly lookup?: NfExpressionOf<'lookup'>
  readonly dynset?: NfExpressionOf<'dynset'>
} {
  const lookup = expressions.find((each) => each.kind === 'lookup')
  const dynset = expressions.find((each) => each.kind === 'dynset')
  return { ...(lookup === undefined ? {} : { lookup }), ...(dynset === undefined ? {} : { dynset }) }
}

/** The endpoint that a rule translates to, with the zeros behind its port. */
function endpointIn(expressions: Expressions): string | undefined {
  const values = expressions.flatMap((each) =>
    each.kind === 'immediate' && 'value' in each.data ? [each.data.value] : [],
  )
  const [address, port] = values
  if (address === undefined || port?.length !== 2) return undefined
  return Buffer.concat([address, port, Buffer.alloc(2)]).toString('latin1')
}

function protocolIn(expressions: Expressions): FrontendProtocol | undefined {
  const compared = expressions.find((each) => each.kind === 'cmp' && each.value.length === 1)
  const number = compared?.kind === 'cmp' ? compared.value[0] : undefined
  return (['tcp', 'udp', 'sctp'] as const).find((protocol) => protocolNumber[protocol] === number)
}

/** The connections that the last rule of a chain has counted: those for which the set of clients had no room. */
export function countWithoutRoom(found: readonly NfRuleState[]): number {
  const last = found.findLast(({ expressions }) =>
    expressions.some((each) => elementsOfLookup(each) !== undefined),
  )
  const counter = last?.expressions.find((each) => each.kind === 'counter')
  return counter?.kind === 'counter' ? (counter.packets ?? 0) : 0
}

// Compiles routes into whole tables without a kernel. The tables can be walked, listed and weighed.
import type { IpFamily } from '../../src/address.js'
import type { XtHook, XtRule, XtTarget } from '../../src/kernel/index.js'
import { compileRoute, compileSkeleton, type IptablesModeSettings } from '../../src/modes/iptables/testing.js'
import { type DispatchChain, type IptablesTable } from '../../src/layers/xtables/index.js'
import { DispatchTree } from '../../src/layers/xtables/testing.js'
import type { Route } from '../../src/routing/index.js'
import type { ModelTable, ModelTables } from './packet-model.js'

interface OpenTable extends ModelTable {
  readonly chains: Map<string, readonly XtRule[]>
  readonly hooks: Map<XtHook, readonly XtRule[]>
}

const treeName = ({ table, chain }: DispatchChain) => `${table} ${chain}`

const emptyTable = (): OpenTable => ({ chains: new Map(), hooks: new Map() })

/** The tables for these routes. NB: no two routes may have the same frontend. */
export function tablesOf(routes: readonly Route[], settings: IptablesModeSettings): ModelTables {
  const tables: Record<IptablesTable, OpenTable> = { nat: emptyTable(), filter: emptyTable() }
  const skeleton = compileSkeleton(settings)
  const desired = routes.map((route) => ({ key: route.key, ...compileRoute(route, settings) }))
  const trees = new Map(
    skeleton.tails.map(({ dispatch, rules }) => [treeName(dispatch), new DispatchTree(dispatch, rules)]),
  )
  for (const { key, frontends } of desired)
    for (const { dispatch, frontend, rules } of frontends)
      trees.get(treeName(dispatch))?.set(frontend, rules, key)
  const chains = [
    ...skeleton.chains,
    ...desired.flatMap((route) => route.chains),
    ...[...trees.values()].flatMap((tree) => tree.take().set),
  ]
  for (const { table, chain, rules } of chains) tables[table].chains.set(chain, rules)
  for (const { table, chain, rules } of skeleton.hooks) tables[table].hooks.set(chain, rules)
  return tables
}

/** Chains in bytewise order, one rule per line, similar to iptables-save. */
export function listing(chains: ReadonlyMap<string, readonly XtRule[]>): string {
  return [...chains]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([chain, rules]) => [`:${chain}`, ...rules.map(formatRule)])
    .join('\n')
}

const not = (matched: { readonly isInverted?: boolean }) => (matched.isInverted === true ? '! ' : '')

export function formatRule(rule: XtRule): string {
  const { source, destination, inInterface, protocol, mark, state, addressType, recent } = rule
  const words = [
    source && `${not(source)}-s ${source.address}/${source.prefixLength}`,
    destination && `${not(destination)}-d ${destination.address}/${destination.prefixLength}`,
    inInterface && `${not(inInterface)}-i ${inInterface.name}`,
    protocol && `-p ${protocol}`,
    rule.destinationPorts && `--dport ${[...new Set(rule.destinationPorts)].join(':')}`,
    rule.comment !== undefined && `"${rule.comment}"`,
    mark && `${not(mark)}--mark ${hex(mark.value)}/${hex(mark.mask)}`,
    state && `${not(state)}--ctstate ${stateNames(state.bits)}`,
    addressType && (addressType.of === 'source' ? '--src-type LOCAL' : '--dst-type LOCAL'),
    rule.isSourceDestination === true && 'source = destination',
    recent &&
      `--name ${recent.list} ${recent.action === 'set' ? '--set' : `--rcheck --seconds ${recent.seconds} --reap`}`,
    rule.probability !== undefined && `--probability ${rule.probability.toFixed(10)}`,
    formatTarget(rule.target),
  ]
  return words.filter((word) => typeof word === 'string').join(' ')
}

function formatTarget(target: XtTarget): string {
  switch (target.kind) {
    case 'jump':
      return `-j ${target.chain}`
    case 'goto':
      return `-g ${target.chain}`
    case 'mark':
      return `-j MARK ${hex(target.value)}/${hex(target.mask)}`
    case 'dnat':
      return `-j DNAT ${target.address} ${target.port}`
    case 'masquerade':
      return `-j MASQUERADE${target.isRandomFully ? ' --random-fully' : ''}`
    default:
      return `-j ${target.kind.toUpperCase()}`
  }
}

const hex = (value: number) => `0x${value.toString(16)}`

function stateNames(bits: number): string {
  const names = [
    [0x01, 'INVALID'],
    [0x04, 'RELATED'],
    [0x02, 'ESTABLISHED'],
    [0x08, 'NEW'],
    [0x80, 'DNAT'],
  ] as const
  return names.flatMap(([bit, name]) => ((bits & bit) === 0 ? [] : [name])).join(',')
}

/** The size of chains in the kernel's table. Each chain has a head and a closing entry besides its rules. */
export interface Weight {
  readonly chains: number
  readonly entries: number
  readonly bytes: number
}

/** Bytes of an entry's header (linux/netfilter/x_tables.h; the xt_*.h of each match have the rest). */
const entryBytes: Readonly<Record<IpFamily, number>> = { ipv4: 112, ipv6: 168 }
const standardTarget = 40
const errorTarget = 64
const portMatchBytes = { tcp: 48, udp: 48, sctp: 328 } as const

export function weightOf(chains: ReadonlyMap<string, readonly XtRule[]>, family: IpFamily): Weight {
  const entry = entryBytes[family]
  const rules = [...chains.values()].flat()
  const frame = entry + errorTarget + entry + standardTarget
  return {
    chains: chains.size,
    entries: rules.length + 2 * chains.size,
    bytes: rules.reduce((sum, rule) => sum + entry + ruleBytes(rule, family), frame * chains.size),
  }
}

function ruleBytes(rule: XtRule, family: IpFamily): number {
  const hasPorts = rule.destinationPorts !== undefined || rule.sourcePorts !== undefined
  const parts = [
    hasPorts && rule.protocol !== undefined ? portMatchBytes[rule.protocol] : 0,
    rule.comment === undefined ? 0 : 288,
    rule.mark === undefined ? 0 : 48,
    rule.state === undefined ? 0 : 200,
    rule.addressType === undefined ? 0 : 40,
    rule.isSourceDestination === true ? 560 : 0,
    rule.recent === undefined ? 0 : 264,
    rule.probability === undefined ? 0 : 56,
    targetBytes(rule.target, family),
  ]
  return parts.reduce((sum, bytes) => sum + bytes, 0)
}

function targetBytes(target: XtTarget, family: IpFamily): number {
  if (target.kind === 'dnat') return 80
  if (target.kind === 'masquerade') return family === 'ipv4' ? 56 : 72
  return standardTarget
}

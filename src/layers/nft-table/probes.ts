// Finds out whether the kernel has what the mode needs. Versions do not tell: distributions add features to old kernels, and a
// kernel is built with any choice of modules.
import { type IpFamily, parseCidr } from '../../address.js'
import { isTransient, KernelError, orRefusal } from '../../errors.js'
import { findFamilies } from '../../host/index.js'
import {
  type KernelLack,
  type NfChain,
  NfElements,
  type NfFailure,
  type NfOp,
  type NfRule,
  type NfSet,
  type NfTransaction,
  type Nftables,
  type Sysctl,
} from '../../kernel/index.js'
import type { Log } from '../../log.js'
import type { FrontendUse } from './compile/chain-plan.js'
import type { NftModeSettings } from './compile/settings.js'
import { ownRules } from './compile/own-chains.js'
import { schemaOf } from './compile/schema.js'
import { compileStructure } from './compile/structure.js'

/** Nothing is made: the name only differs from the tables that exist. */
const probeTable = 'viaduct-probe'
/** The operation of an error that names a missing feature begins so, and ends with the mode that needs it. */
const probeOperation = 'probe nf_tables for '

/** More than 64 endpoints are chosen by a verdict map of intervals. */
const counts = new Set([1, 2, 65])
const everything: FrontendUse = {
  counts,
  shortCircuitCounts: counts,
  ownLists: new Set(['endpoints', 'shortCircuit']),
}

/** A mode that has a table in nf_tables, as advice names it. */
export type NftTableUser = 'nftables mode' | 'iptables mode in the flavour nft'

export interface ProbeOptions {
  readonly user: NftTableUser
  readonly kernel: { readonly nftables: Nftables; readonly sysctl: Sysctl }
  readonly log: Log
}

/** The families whose tables the kernel can have. Throws KernelError without those of IPv4, as `probeFamily`. */
export async function familiesWithNftables({
  user,
  kernel,
  log,
}: ProbeOptions): Promise<readonly IpFamily[]> {
  return await findFamilies({
    sysctl: kernel.sysctl,
    log,
    find: async (family) => await probeFamily(kernel.nftables, family, user),
    isLack: (error) => userOf(error) !== undefined,
  })
}

/**
 * Sends the kernel all sets, chains and rules of the mode, with an element in each set. The kernel checks them and makes nothing, but
 * loads the modules that they need. Throws KernelError, which names the feature if the kernel lacks one (`lackOf`).
 */
async function probeFamily(nftables: Nftables, family: IpFamily, user: NftTableUser): Promise<void> {
  const transaction = probeTransaction(family)
  const failures = await dryRun(nftables, transaction)
  const [first] = failures
  if (first === undefined) return
  const { error } = first
  if (isTransient(error) || isAboutRights(error)) throw error
  const refused = new Set(failures.map(({ operation }) => operation))
  throw new KernelError({
    errno: error.errno,
    subsystem: 'nftables',
    operation: `${probeOperation}${user}`,
    family,
    object: featureOf(transaction, { first: first.operation, refused }),
    ...(error.extack === undefined ? {} : { extack: error.extack }),
  })
}

/** A kernel without nf_tables refuses the call itself. */
async function dryRun(nftables: Nftables, transaction: NfTransaction): Promise<readonly NfFailure[]> {
  const outcome = await orRefusal(async () => await nftables.apply(transaction, { isDryRun: true }))
  return outcome instanceof KernelError ? [{ error: outcome }] : outcome.failures
}

/** The part that the kernel lacks: nf_tables, or a feature that a mode needs. undefined: the error has another reason. */
export function lackOf(error: KernelError): KernelLack | undefined {
  const user = userOf(error)
  if (user === undefined) return undefined
  const { object = '' } = error
  const part = object === withoutNftables ? 'nf_tables' : `nf_tables with what ${user} needs (${object})`
  return { part, modules: modulesOf(object, error.family) }
}

/** The modules of a missing feature, as `featureOf` names it; empty: nf_tables itself has it, in a newer kernel. */
function modulesOf(feature: string, family: KernelError['family']): readonly string[] {
  if (feature === withoutNftables) return ['nf_tables']
  if (feature === withoutNatChains) return ['nft_chain_nat']
  const [, expressions = ''] = /^expression (.*)$/u.exec(feature) ?? []
  return expressions.split(', ').flatMap((kind) => {
    if (moduleOfFamily.has(kind)) return [`nft_${kind}_${family}`]
    return ownModule.has(kind) ? [`nft_${kind}`] : []
  })
}

/** A table or a transaction was refused. */
const withoutNftables = 'tables and transactions'
const withoutNatChains = 'chain type nat'
/** The expressions that have a module `nft_NAME`. */
const ownModule: ReadonlySet<string> = new Set(['numgen', 'masq', 'nat', 'ct'])
/** The expressions that have a module `nft_NAME_FAMILY`; `nft_NAME` only has what the families share. */
const moduleOfFamily: ReadonlySet<string> = new Set(['fib', 'reject'])

/** The mode that needs the missing feature. undefined: the error has another reason. */
function userOf({ subsystem, operation }: KernelError): string | undefined {
  const isOfProbe = subsystem === 'nftables' && operation.startsWith(probeOperation)
  return isOfProbe ? operation.slice(probeOperation.length) : undefined
}

/** The process may not use nf_tables, or the socket is closed: the error says nothing about the kernel. */
function isAboutRights({ code }: KernelError): boolean {
  return ['EPERM', 'EACCES', 'EBADF'].includes(code)
}

function probeTransaction(family: IpFamily): NfTransaction {
  const cidr = parseCidr(family === 'ipv4' ? '192.0.2.0/24' : '2001:db8::/32')
  const settings: NftModeSettings = {
    family,
    semantics: 'nftables',
    masqueradeMark: 1,
    masqueradeAll: false,
    localDetector: cidr === undefined ? undefined : { kind: 'cidr', cidr },
    nodePortAddresses: 'all',
    localhostNodePorts: false,
    nodeIP: undefined,
    nodeName: '',
  }
  const use = { services: everything, nodePorts: everything, prefixLengths: new Set([8]) }
  const { table, sets, chains } = compileStructure(settings, use)
  const inProbe = <T extends NfSet | NfChain | NfRule>(object: T): T => ({ ...object, table: probeTable })
  const own = ownSample(family)
  const probeSets = [...sets, own.set].map(inProbe)
  return [
    // Dormant: the kernel does not even register the hooks.
    { op: 'create-table', table: { ...table, table: probeTable, flags: ['dormant'] } },
    ...probeSets.map((set): NfOp => ({ op: 'add-set', set })),
    ...probeSets.map((set): NfOp => ({ op: 'add-elements', elements: sampleOf(set) })),
    ...chains.map(({ chain }): NfOp => ({ op: 'add-chain', chain: inProbe(chain) })),
    { op: 'add-chain', chain: inProbe(own.chain) },
    ...[...chains.flatMap(({ rules }) => rules), ...own.rules].map((rule): NfOp => ({
      op: 'add-rule',
      rule: inProbe(rule),
    })),
  ]
}

/** The chain of one service port, with its set of clients. No base chain leads there: the kernel checks its expressions all the same. */
function ownSample(family: IpFamily): {
  readonly set: NfSet
  readonly chain: NfChain
  readonly rules: readonly NfRule[]
} {
  const { table, clients } = schemaOf(family)
  const id = 'A'.repeat(26)
  const endpoint = '\0'.repeat(family === 'ipv4' ? 8 : 20)
  const rules = ownRules(
    { family, id, list: 'cluster', comment: undefined },
    { protocol: 'tcp', affinitySeconds: 60, endpoints: [{ endpoint, slot: 1 }] },
  )
  return { set: clients(id), chain: { ...table, chain: rules[0]?.chain ?? '' }, rules }
}

function sampleOf(set: NfSet): NfElements {
  const elements = new NfElements(set)
  const { keyBytes, dataBytes } = elements.layout
  const key = new Uint8Array(keyBytes)
  if (set.data === 'verdict') return elements.add(key, { verdict: { code: 'continue' } })
  return elements.add(key, dataBytes === 0 ? {} : { data: new Uint8Array(dataBytes) })
}

/** Names what the first refused operation needs: `set clients-ID (timeout, dynamic)`, `expression numgen`. */
function featureOf(
  transaction: NfTransaction,
  {
    first,
    refused,
  }: { readonly first: number | undefined; readonly refused: ReadonlySet<number | undefined> },
): string {
  const op = first === undefined ? undefined : transaction[first]
  if (op?.op === 'add-set') return describeSet(op.set)
  if (op?.op === 'add-elements') return `elements of ${describeSet(op.elements.set)}`
  if (op?.op === 'add-chain')
    return op.chain.hook?.type === 'nat' ? withoutNatChains : `chain ${op.chain.chain}`
  if (op?.op !== 'add-rule') return withoutNftables
  const accepted = new Set(
    transaction.flatMap((other, index) => (refused.has(index) ? [] : expressionsOf(other))),
  )
  const missing = [...new Set(expressionsOf(op))].filter((kind) => !accepted.has(kind))
  return missing.length === 0 ? 'rules' : `expression ${missing.join(', ')}`
}

/** `set own-services (map)`. */
function describeSet({ set, data, flags = [] }: NfSet): string {
  const kinds = [...(data === undefined ? [] : ['map']), ...flags]
  return `set ${set}${kinds.length === 0 ? '' : ` (${kinds.join(', ')})`}`
}

function expressionsOf(op: NfOp): readonly string[] {
  return 'rule' in op && 'expressions' in op.rule ? op.rule.expressions.map(({ kind }) => kind) : []
}

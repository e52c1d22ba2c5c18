import { constants } from 'node:os'
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { Addon, RawNftTables } from '../addon.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { EventWatch, Watches } from '../watches.js'
import { isWithoutNftables } from './absences.js'
import { isAnonymousName } from './anonymous-sets.js'
import { isDormant, readChain, readHook, readRule, readSet, readTable } from './attributes.js'
import { decodeChanges } from './changes.js'
import type { Codec } from './codec.js'
import { decodeOutcome } from './decode-outcome.js'
import { describeSet } from './describe.js'
import { elementLayout, NfElements } from './elements.js'
import { encodeTransaction, writeLayout } from './encode.js'
import type { NfExpression, NfExpressionOf } from './expressions.js'
import { translatesDestinations } from './nat-hook.js'
import type {
  NfActiveChain,
  NfApplyOptions,
  NfChainState,
  NfCounterState,
  NfDumpedElements,
  NfHookChain,
  NfOutcome,
  NfRuleState,
  NfScope,
  NfSet,
  NfTablePlace,
  NfSetState,
  NfTableState,
  NfTransaction,
  Nftables,
  NftWatch,
} from './nftables.js'
import {
  chainRecord,
  counterRecord,
  ruleRecord,
  type SetAttributes,
  setRecord,
  tableRecord,
} from './schema.js'
import { StreamReader, StreamWriter } from './stream.js'

/** Listed in native/nftables/nft_tables.h. */
const listed = { tables: 0, chains: 1, rules: 2, sets: 3, counters: 4 } as const

/** NFPROTO_INET of linux/netfilter.h, beside the numbers of `IpFamily`. */
const familyNumbers = { ...addressFamily, inet: 1 } as const
type ListFamily = keyof typeof familyNumbers

interface ListRequest {
  readonly family: ListFamily
  readonly table?: string
  readonly chain?: string
  /** Selects one set. */
  readonly name?: string
}

function isAnonymousLookup(expression: NfExpression): expression is NfExpressionOf<'lookup'> {
  return expression.kind === 'lookup' && isAnonymousName(expression.set)
}

function elementsRequest(set: NfSet): StreamWriter {
  const request = new StreamWriter()
  request.u32(addressFamily[set.family])
  request.text(set.table)
  request.text(set.set)
  writeLayout(request, elementLayout(set))
  return request
}

function subjectOf(set: NfSet): { readonly family: IpFamily; readonly object: string } {
  return { family: set.family, object: describeSet(set) }
}

/** Decodes the stream of ElementReader::Finish() in native/nftables/elements.h. */
function readElements(set: NfSet, answer: Uint8Array): NfDumpedElements {
  const stream = new StreamReader(answer)
  const labels = Array.from({ length: stream.u32() }, () => stream.bytes())
  const elements = new NfElements(set, stream.bytes(), labels)
  return { elements, isInterrupted: stream.u32() !== 0 }
}

/** The nf_tables of the kernel that we run on. */
export class RealNftables implements Nftables {
  readonly #addon: () => Addon
  readonly #queue: RequestQueue<RawNftTables>
  readonly #watches = new Watches('nftables')
  #socket: RawNftTables | undefined

  constructor(addon: () => Addon, calls: CallCounts) {
    this.#addon = addon
    this.#queue = new RequestQueue(() => this.#open(), 'nftables', calls)
  }

  async apply(transaction: NfTransaction, options: NfApplyOptions = {}): Promise<NfOutcome> {
    const { generation = 0, isDryRun = false } = options
    const operations = encodeTransaction(transaction)
    const outcome = await this.#queue.run((socket) => socket.apply(operations, generation, isDryRun))
    return decodeOutcome(outcome, transaction)
  }

  generation(): Promise<number> {
    return this.#queue.run((socket) => socket.generation())
  }

  async tables(family: IpFamily): Promise<readonly NfTableState[]> {
    const read = await this.#list('tables', tableRecord, { family })
    return read.map((table) => readTable(family, table))
  }

  async chains(scope: NfScope): Promise<readonly NfChainState[]> {
    const read = await this.#list('chains', chainRecord, scope)
    return read.map((chain) => readChain(scope.family, chain))
  }

  async rules(scope: NfScope & { readonly chain?: string }): Promise<readonly NfRuleState[]> {
    const read = await this.#list('rules', ruleRecord, scope)
    // A request for each anonymous set of a chain, or one for those of all chains.
    const isAnonymous = read.some(({ expressions = [] }) => expressions.some(isAnonymousLookup))
    const sets = scope.chain === undefined && isAnonymous ? await this.#list('sets', setRecord, scope) : []
    const known = new Map(sets.map((set) => [set.name, set]))
    const rules: NfRuleState[] = []
    for (const rule of read) rules.push(await this.#withElements(readRule(scope.family, rule), known))
    return rules
  }

  /** The rule, with the elements of its anonymous sets. */
  async #withElements(rule: NfRuleState, known: ReadonlyMap<string, SetAttributes>): Promise<NfRuleState> {
    if (!rule.expressions.some(isAnonymousLookup)) return rule
    const expressions: NfExpression[] = []
    for (const each of rule.expressions) {
      const isIn = isAnonymousLookup(each)
      const elements = isIn ? await this.#anonymousElements(rule, each.set, known) : undefined
      expressions.push(isIn && elements !== undefined ? { ...each, elements } : each)
    }
    return { ...rule, expressions }
  }

  /** undefined: the set has gone with its rule, or has fields that we do not know. */
  async #anonymousElements(
    { family, table }: NfRuleState,
    name: string,
    known: ReadonlyMap<string, SetAttributes>,
  ): Promise<NfElements | undefined> {
    const elements = await orRefusal(
      async () => {
        const read = known.get(name) ?? (await this.#list('sets', setRecord, { family, table, name }))[0]
        const set = read === undefined ? undefined : readSet(family, read)
        return set === undefined ? undefined : await this.elements(set)
      },
      (error) => error.errno === constants.errno.ENOENT,
    )
    return elements instanceof KernelError ? undefined : elements
  }

  async forwardChains(): Promise<readonly NfHookChain[]> {
    const found: NfHookChain[] = []
    for (const { family, table, chain, hook } of await this.activeChains()) {
      if (hook?.hook !== 'forward') continue
      const { policy = 'accept' } = hook
      found.push({ family, table, chain, policy, rules: await this.rulesOf({ family, table, chain }) })
    }
    return found
  }

  async tablesWithNat(family: IpFamily): Promise<readonly NfTablePlace[]> {
    const chains = await this.activeChains()
    return chains.filter(
      (chain) => (chain.family === family || chain.family === 'inet') && translatesDestinations(chain.hook),
    )
  }

  /** All chains of all tables of `ip`, `ip6` and `inet` that are not dormant, of any program. Throws KernelError. */
  async activeChains(): Promise<readonly NfActiveChain[]> {
    const found: NfActiveChain[] = []
    for (const family of ['ipv4', 'ipv6', 'inet'] as const) {
      const tables = await this.#list('tables', tableRecord, { family })
      const dormant = new Set(tables.filter(isDormant).map(({ name }) => name))
      for (const read of await this.#list('chains', chainRecord, { family })) {
        const { table, name: chain } = read
        const hook = readHook(read)
        if (!dormant.has(table)) found.push({ family, table, chain, ...(hook === undefined ? {} : { hook }) })
      }
    }
    return found
  }

  /** The chains of the tables of a family that are not dormant and not left out, of any program. Throws KernelError. */
  async chainsOf(
    family: IpFamily | 'inet',
    isLeftOut: (table: string) => boolean,
  ): Promise<readonly NfActiveChain[]> {
    const found: NfActiveChain[] = []
    for (const table of await this.#list('tables', tableRecord, { family })) {
      if (isDormant(table) || isLeftOut(table.name)) continue
      for (const read of await this.#list('chains', chainRecord, { family, table: table.name })) {
        const hook = readHook(read)
        found.push({ family, table: table.name, chain: read.name, ...(hook === undefined ? {} : { hook }) })
      }
    }
    return found
  }

  /** The rules of a chain, in order. Throws KernelError. */
  async rulesOf({ family, table, chain }: NfActiveChain): Promise<readonly (readonly NfExpression[])[]> {
    const rules = await this.#list('rules', ruleRecord, { family, table, chain })
    return rules.map(({ expressions = [] }) => expressions)
  }

  async sets({
    family,
    table,
    set: name,
  }: NfScope & { readonly set?: string }): Promise<readonly NfSetState[]> {
    const scope = table === undefined ? { family } : { family, table }
    const read = await this.#list('sets', setRecord, name === undefined ? scope : { ...scope, name })
    return read
      .filter((each) => !isAnonymousName(each.name))
      .map((attributes) => ({ family, table: attributes.table, set: attributes.name, attributes }))
  }

  async counters(scope: NfScope): Promise<readonly NfCounterState[]> {
    const { family } = scope
    const read = await this.#list('counters', counterRecord, scope)
    return read.map(({ table, name, data }) => ({
      family,
      table,
      counter: name,
      packets: data?.packets ?? 0,
      bytes: data?.bytes ?? 0,
    }))
  }

  async elements(set: NfSet): Promise<NfElements> {
    return (await this.#dumpElements(set, { isOnce: false })).elements
  }

  async elementsOnce(set: NfSet): Promise<NfDumpedElements> {
    return await this.#dumpElements(set, { isOnce: true })
  }

  async #dumpElements(set: NfSet, { isOnce }: { readonly isOnce: boolean }): Promise<NfDumpedElements> {
    const request = elementsRequest(set)
    request.u32(Number(isOnce))
    const answer = await this.#queue.run((socket) => socket.listElements(request.finish()), subjectOf(set))
    return readElements(set, answer)
  }

  async elementsByKey(set: NfSet, keys: Uint8Array): Promise<NfElements> {
    const request = elementsRequest(set)
    request.bytes(keys)
    const answer = await this.#queue.run((socket) => socket.findElements(request.finish()), subjectOf(set))
    return readElements(set, answer).elements
  }

  watch(): NftWatch {
    return new EventWatch(
      this.#watches.open(() => new (this.#addon().NftEvents)(this.#open().portId())),
      decodeChanges,
    )
  }

  async close(): Promise<void> {
    await this.#watches.close()
    await this.#queue.close()
  }

  #open(): RawNftTables {
    return (this.#socket ??= new (this.#addon().NftTables)())
  }

  /** Without a table: empty on a kernel that has no nf_tables. */
  async #list<T>(
    kind: keyof typeof listed,
    codec: Codec<T>,
    { family, table = '', chain, name = chain ?? '' }: ListRequest,
  ): Promise<readonly T[]> {
    const request = new StreamWriter()
    request.u32(listed[kind])
    request.u32(familyNumbers[family])
    request.text(table)
    request.text(name)
    const subject = family === 'inet' ? {} : { family }
    const answer = await orRefusal(
      async () => await this.#queue.run((socket) => socket.list(request.finish()), subject),
      (error) => table === '' && isWithoutNftables(error),
    )
    if (answer instanceof KernelError) return []
    const stream = new StreamReader(answer)
    const objects: T[] = []
    while (!stream.isAtEnd) objects.push(codec.read(stream))
    return objects
  }
}

// Converts descriptions of tables, chains, rules and sets to attributes of the kernel, and back.
import type { IpFamily } from '../../address.js'
import { anonymousContent, elementsOfLookup } from './anonymous-sets.js'
import { comparable, expression as expressionCodec } from './expressions.js'
import {
  byteOrderOf,
  entry,
  fieldLength,
  fieldsId,
  fieldsOf,
  fieldsLength,
  typeofUserdata,
} from './fields.js'
import type {
  NfChain,
  NfChainState,
  NfHook,
  NfHookName,
  NfRule,
  NfRuleState,
  NfSet,
  NfSetFlag,
  NfTable,
  NfTableFlag,
  NfTableState,
} from './nftables.js'
import { setRecord } from './schema.js'
import type { ChainAttributes, RuleAttributes, SetAttributes, TableAttributes } from './schema.js'
import { StreamWriter } from './stream.js'

const tableFlags: Readonly<Record<NfTableFlag, number>> = { dormant: 1, owner: 2, persist: 4 }

const setFlags: Readonly<Record<NfSetFlag, number>> = {
  anonymous: 1,
  constant: 2,
  interval: 4,
  timeout: 0x10,
  dynamic: 0x20,
}
const mapFlag = 8
const objectFlag = 0x40
const concatenationFlag = 0x80

/** NFT_DATA_VERDICT. */
const verdictType = 0xffffff00
/** NFTA_SET_DATA_LEN of verdicts in a dump. */
const verdictLength = 16
/** NFT_OBJECT_COUNTER. */
export const counterType = 1

const hookNumbers: Readonly<Record<NfHookName, number>> = {
  prerouting: 0,
  input: 1,
  forward: 2,
  output: 3,
  postrouting: 4,
}
const hookNames: readonly NfHookName[] = ['prerouting', 'input', 'forward', 'output', 'postrouting']

function flagsOf<F extends string>(names: readonly F[], numbers: Readonly<Record<F, number>>): number {
  return names.reduce((flags, name) => flags | numbers[name], 0)
}

// Entry 0 of the userdata of a table, chain or rule is its comment (NFTNL_UDATA_RULE_COMMENT); of a set, entry 7.
const commentEntry = 0
const setCommentEntry = 7

function commentBytes(type: number, comment: string): readonly number[] {
  return entry(type, [...new TextEncoder().encode(comment), 0])
}

function commentUserdata(comment: string | undefined): { readonly userdata?: Uint8Array } {
  return comment === undefined ? {} : { userdata: Uint8Array.from(commentBytes(commentEntry, comment)) }
}

function readComment(userdata: Uint8Array = new Uint8Array(0)): { readonly comment?: string } {
  let at = 0
  while (at + 2 <= userdata.length) {
    const end = at + 2 + (userdata[at + 1] ?? 0)
    if (userdata[at] === commentEntry) {
      const text = new TextDecoder().decode(userdata.subarray(at + 2, end))
      return { comment: text.split('\0', 1)[0] ?? '' }
    }
    at = end
  }
  return {}
}

export function tableAttributes({ table, flags = [], comment }: NfTable): TableAttributes {
  return { name: table, flags: flagsOf(flags, tableFlags), ...commentUserdata(comment) }
}

export function isDormant({ flags = 0 }: TableAttributes): boolean {
  return (flags & tableFlags.dormant) !== 0
}

export function readTable(family: IpFamily, read: TableAttributes): NfTableState {
  const names: readonly NfTableFlag[] = ['dormant', 'owner', 'persist']
  const flags = names.filter((name) => ((read.flags ?? 0) & tableFlags[name]) !== 0)
  return {
    family,
    table: read.name,
    handle: read.handle ?? 0,
    ...(flags.length === 0 ? {} : { flags }),
    ...(read.owner === undefined ? {} : { owner: read.owner }),
    ...readComment(read.userdata),
  }
}

export function chainAttributes({ table, chain, hook, comment }: NfChain): ChainAttributes {
  return {
    table,
    name: chain,
    ...(hook === undefined
      ? {}
      : {
          hook: { number: hookNumbers[hook.hook], priority: hook.priority },
          policy: hook.policy === 'drop' ? 0 : 1,
          type: hook.type,
        }),
    ...commentUserdata(comment),
  }
}

export function readChain(family: IpFamily, read: ChainAttributes): NfChainState {
  const hook = readHook(read)
  return {
    family,
    table: read.table,
    chain: read.name,
    handle: read.handle ?? 0,
    ...(hook === undefined ? {} : { hook }),
    ...readComment(read.userdata),
  }
}

/** The hook of a base chain; undefined: the chain has none, or one of other families. */
export function readHook({ hook, policy, type }: ChainAttributes): NfHook | undefined {
  const name = hook === undefined ? undefined : hookNames[hook.number]
  if (hook === undefined || name === undefined) return undefined
  return {
    type: type === 'nat' || type === 'route' ? type : 'filter',
    hook: name,
    priority: hook.priority,
    ...(policy === 0 ? { policy: 'drop' } : {}),
  }
}

const invertedProtocol = 2

export function ruleAttributes({ table, chain, expressions, comment, compat }: NfRule): RuleAttributes {
  return {
    table,
    chain,
    expressions,
    ...(compat === undefined
      ? {}
      : { compat: { protocol: compat.protocol, flags: compat.isInverted ? invertedProtocol : 0 } }),
    ...commentUserdata(comment),
  }
}

export function readRule(family: IpFamily, read: RuleAttributes): NfRuleState {
  return {
    family,
    table: read.table,
    chain: read.chain ?? '',
    handle: read.handle ?? 0,
    expressions: read.expressions ?? [],
    ...readComment(read.userdata),
  }
}

/**
 * Whether the kernel would show `wanted` as `found`. Counted packets make no difference. NB: the kernel does not show the
 * protocol of x_tables matches.
 */
export function isSameRule(wanted: NfRule, found: NfRule): boolean {
  return (
    wanted === found ||
    (wanted.table === found.table &&
      wanted.chain === found.chain &&
      wanted.comment === found.comment &&
      Buffer.from(expressionBytes(wanted)).equals(expressionBytes(found)))
  )
}

function expressionBytes({ expressions }: Pick<NfRule, 'expressions'>): Uint8Array {
  const stream = new StreamWriter()
  for (const expression of expressions) {
    expressionCodec.write(stream, comparable(expression))
    const elements = elementsOfLookup(expression)
    if (elements !== undefined) stream.text(anonymousContent(elements))
  }
  return stream.finish()
}

/** The attributes of a set. `id`: NFTA_SET_ID, unique in its transaction; absent in a dump. */
export function setAttributes(set: NfSet, id?: number): SetAttributes {
  const { key, data, flags = [], timeoutMs, gcIntervalMs } = set
  const isConcatenatedInterval = flags.includes('interval') && key.length > 1
  const size = set.size === undefined ? {} : { size: set.size }
  const fields = isConcatenatedInterval
    ? { fields: key.map((field) => ({ length: fieldLength(field) })) }
    : {}
  return {
    table: set.table,
    name: set.set,
    flags: flagsOf(flags, setFlags) | dataFlag(data) | (isConcatenatedInterval ? concatenationFlag : 0),
    keyType: fieldsId(key),
    keyLength: fieldsLength(key),
    ...dataAttributes(data),
    ...(set.size === undefined && !isConcatenatedInterval ? {} : { description: { ...size, ...fields } }),
    ...(id === undefined ? {} : { id }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(gcIntervalMs === undefined ? {} : { gcIntervalMs }),
    ...(set.isCounting === true ? { expression: { kind: 'counter' } } : {}),
    userdata: setUserdata(set),
  }
}

function dataFlag(data: NfSet['data']): number {
  if (data === undefined) return 0
  return data === 'counter' ? objectFlag : mapFlag
}

function dataAttributes(data: NfSet['data']): Pick<SetAttributes, 'dataType' | 'dataLength' | 'objectType'> {
  if (data === undefined) return {}
  if (data === 'counter') return { objectType: counterType }
  if (data === 'verdict') return { dataType: verdictType, dataLength: verdictLength }
  return { dataType: fieldsId(data), dataLength: fieldsLength(data) }
}

// NFTNL_UDATA_SET_: KEYBYTEORDER 0, DATABYTEORDER 1, KEY_TYPEOF 3, DATA_TYPEOF 4.
function setUserdata({ key, data, comment }: NfSet): Uint8Array {
  const values = typeof data === 'object' ? data : undefined
  const keySource = typeofUserdata(key)
  const dataSource = values === undefined ? undefined : typeofUserdata(values)
  return Uint8Array.from([
    ...entry(0, [byteOrderOf(key), 0, 0, 0]),
    ...(values === undefined ? [] : entry(1, [byteOrderOf(values), 0, 0, 0])),
    ...(keySource === undefined ? [] : entry(3, keySource)),
    ...(dataSource === undefined ? [] : entry(4, dataSource)),
    ...(comment === undefined ? [] : commentBytes(setCommentEntry, comment)),
  ])
}

/** Whether the kernel would show `wanted` as `found`. */
export function isSameSet(wanted: NfSet, found: SetAttributes): boolean {
  const { handle: _, count: __, gcIntervalMs, ...rest } = found
  const kept =
    wanted.gcIntervalMs === undefined || gcIntervalMs === undefined ? rest : { ...rest, gcIntervalMs }
  return Buffer.from(setBytes(setAttributes(wanted))).equals(setBytes(kept))
}

/** The set that has these attributes, without its comment. undefined: it has fields that we do not know. */
export function readSet(family: IpFamily, read: SetAttributes): NfSet | undefined {
  const key = fieldsOf(read.keyType ?? 0)
  const data = readData(read)
  if (key === undefined || data === null) return undefined
  const { flags: bits = 0, timeoutMs, gcIntervalMs, description } = read
  const names: readonly NfSetFlag[] = ['anonymous', 'constant', 'interval', 'timeout', 'dynamic']
  const flags = names.filter((name) => (bits & setFlags[name]) !== 0)
  const set: NfSet = {
    family,
    table: read.table,
    set: read.name,
    key,
    ...(data === undefined ? {} : { data }),
    ...(flags.length === 0 ? {} : { flags }),
    ...(description?.size === undefined ? {} : { size: description.size }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(gcIntervalMs === undefined ? {} : { gcIntervalMs }),
  }
  const { keyLength, dataLength } = setAttributes(set)
  return keyLength === read.keyLength && dataLength === read.dataLength ? set : undefined
}

/** null: fields that we do not know. */
function readData({ flags = 0, dataType = 0, objectType }: SetAttributes): NfSet['data'] | null {
  if ((flags & objectFlag) !== 0) return objectType === counterType ? 'counter' : null
  if ((flags & mapFlag) === 0) return undefined
  return dataType === verdictType ? 'verdict' : (fieldsOf(dataType) ?? null)
}

/** Whether a set of the kernel can hold the elements of `wanted`. Its comment, and the userdata that only nft reads, may differ. */
export function isUsableSet(wanted: NfSet, found: SetAttributes): boolean {
  const { userdata } = setAttributes(wanted)
  return isSameSet(wanted, userdata === undefined ? found : { ...found, userdata })
}

/** The attributes as bytes to compare, without an empty description and without counts of packets. */
function setBytes({ description, expression, ...rest }: SetAttributes): Uint8Array {
  const { size, fields } = description ?? {}
  const stream = new StreamWriter()
  setRecord.write(stream, {
    ...rest,
    ...(description === undefined || (size === undefined && fields === undefined) ? {} : { description }),
    ...(expression === undefined ? {} : { expression: comparable(expression) }),
  })
  return stream.finish()
}

// The attributes of tables, chains, rules, sets and counters. The fields have the order of the rows of native/nftables/policy.h.
import { bytes, list, optional, record, s32, text, u32, u64 } from './codec.js'
import { expression, expressionGrammar } from './expressions.js'

/** NFTA_TABLE: `flags` 1 dormant, 2 owner, 4 persist; `owner` is a port id. */
export const tableRecord = record({
  name: text,
  flags: optional(u32),
  handle: optional(u64),
  userdata: optional(bytes),
  owner: optional(u32),
})

/** NFTA_CHAIN: `policy` 0 drop, 1 accept. */
export const chainRecord = record({
  table: text,
  handle: optional(u64),
  name: text,
  hook: optional(record({ number: u32, priority: s32 })),
  policy: optional(u32),
  type: optional(text),
  userdata: optional(bytes),
})

/** NFTA_RULE: `position` is a handle; in a dump, that of the previous rule. */
export const ruleRecord = record({
  table: text,
  chain: optional(text),
  handle: optional(u64),
  expressions: optional(list(expression)),
  compat: optional(record({ protocol: u32, flags: u32 })),
  position: optional(u64),
  userdata: optional(bytes),
})

/** NFTA_SET: times in milliseconds. `count`: the number of elements, of kernels since 6.16. */
export const setRecord = record({
  table: text,
  name: text,
  flags: optional(u32, 0),
  keyType: optional(u32),
  keyLength: optional(u32),
  dataType: optional(u32),
  dataLength: optional(u32),
  description: optional(record({ size: optional(u32), fields: optional(list(record({ length: u32 }))) })),
  id: optional(u32),
  timeoutMs: optional(u64),
  gcIntervalMs: optional(u32),
  userdata: optional(bytes),
  objectType: optional(u32),
  handle: optional(u64),
  expression: optional(expression),
  count: optional(u32),
})

/** NFTA_OBJ of type NFT_OBJECT_COUNTER. */
export const counterRecord = record({
  table: text,
  name: text,
  type: optional(u32),
  data: optional(record({ bytes: optional(u64, 0), packets: optional(u64, 0) })),
  handle: optional(u64),
})

type Content<C> = C extends { read(stream: never): infer T } ? T : never
export type TableAttributes = Content<typeof tableRecord>
export type ChainAttributes = Content<typeof chainRecord>
export type RuleAttributes = Content<typeof ruleRecord>
export type SetAttributes = Content<typeof setRecord>
export type CounterAttributes = Content<typeof counterRecord>

/** The grammar that the addon must have (nftGrammar). */
export const grammar = [
  `table: ${tableRecord.fieldSignatures}`,
  `chain: ${chainRecord.fieldSignatures}`,
  `rule: ${ruleRecord.fieldSignatures}`,
  `set: ${setRecord.fieldSignatures}`,
  `named-counter: ${counterRecord.fieldSignatures}`,
  ...expressionGrammar,
  '',
].join('\n')

// Written by `node native/records.mjs` from native/ipset/record.h, which documents the fields. Do not edit.
import type { RecordLayout } from '../records.js'

export const opNumber = {
  'create-set': 1,
  'destroy-set': 2,
  'flush-set': 3,
  'swap-sets': 4,
  'rename-set': 5,
  'add-entry': 6,
  'delete-entry': 7,
} as const

export const extensionBit = {
  marks: 1,
  comments: 2,
} as const

export const setLayout = {
  size: 84,
  name: 0,
  type: 32,
  maxElements: 64,
  hashSize: 68,
  references: 72,
  elementCount: 76,
  family: 80,
  extensions: 81,
} as const satisfies RecordLayout

export const entryLayout = {
  size: 52,
  address: 0,
  secondAddress: 16,
  mark: 32,
  markMask: 36,
  commentOffset: 40,
  port: 44,
  family: 46,
  protocol: 47,
  prefixLength: 48,
  commentLength: 49,
  isException: 50,
} as const satisfies RecordLayout

export const opLayout = {
  size: 12,
  set: 0,
  object: 4,
  op: 8,
} as const satisfies RecordLayout

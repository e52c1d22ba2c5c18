// Written by `node native/records.mjs` from native/route/record.h, which documents the fields. Do not edit.
import type { RecordLayout } from '../records.js'

export const opNumber = {
  none: 0,
  add: 1,
  replace: 2,
  remove: 3,
} as const

export const eventKindNumber = {
  link: 1,
  address: 2,
  overrun: 3,
} as const

export const routeLayout = {
  size: 56,
  destination: 0,
  preferredSource: 16,
  interfaceIndex: 32,
  metric: 36,
  table: 40,
  op: 44,
  family: 45,
  prefixLength: 46,
  protocol: 47,
  type: 48,
  scope: 49,
  tos: 50,
} as const satisfies RecordLayout

export const routeQueryLayout = {
  size: 44,
  destination: 0,
  source: 16,
  inputInterface: 32,
  mark: 36,
  destinationPort: 40,
  family: 42,
  protocol: 43,
} as const satisfies RecordLayout

export const routeChoiceLayout = {
  size: 28,
  preferredSource: 0,
  interfaceIndex: 16,
  error: 20,
  type: 24,
} as const satisfies RecordLayout

export const addressLayout = {
  size: 32,
  address: 0,
  interfaceIndex: 16,
  flags: 20,
  op: 24,
  family: 25,
  prefixLength: 26,
  scope: 27,
} as const satisfies RecordLayout

export const linkLayout = {
  size: 48,
  name: 0,
  kind: 16,
  index: 32,
  flags: 36,
  op: 40,
} as const satisfies RecordLayout

export const ruleActionNumber = {
  table: 1,
  goto: 2,
  nop: 3,
  blackhole: 6,
  unreachable: 7,
  prohibit: 8,
} as const

export const ruleLayout = {
  size: 20,
  priority: 0,
  mark: 4,
  markMask: 8,
  table: 12,
  action: 16,
  family: 17,
  isInverted: 18,
} as const satisfies RecordLayout

export const eventLayout = {
  size: 40,
  interfaceIndex: 0,
  kind: 4,
  op: 5,
  family: 6,
  prefixLength: 7,
  address: 8,
  name: 24,
} as const satisfies RecordLayout

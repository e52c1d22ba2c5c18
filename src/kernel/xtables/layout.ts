// Written by `node native/records.mjs` from native/xtables/record.h, which documents the fields. Do not edit.
import type { RecordLayout } from '../records.js'

export const constant = {
  noText: 4294967295,
} as const

export const opNumber = {
  'set-chain': 1,
  'remove-chain': 2,
  'set-hook': 3,
} as const

export const chainLayout = {
  size: 16,
  name: 0,
  firstRule: 4,
  ruleCount: 8,
  op: 12,
} as const satisfies RecordLayout

export const matchBit = {
  sourcePorts: 1,
  destinationPorts: 2,
  mark: 4,
  state: 8,
  addressType: 16,
  set: 32,
  sourceDestination: 64,
  recent: 128,
  statistic: 256,
  unconfirmed: 512,
} as const

export const invertBit = {
  source: 1,
  destination: 2,
  inInterface: 4,
  outInterface: 8,
  mark: 16,
  state: 32,
  addressType: 64,
  set: 128,
} as const

export const targetNumber = {
  jump: 1,
  goto: 2,
  accept: 3,
  drop: 4,
  return: 5,
  mark: 6,
  dnat: 7,
  masquerade: 8,
  reject: 9,
  'map-mark': 10,
} as const

export const ruleLayout = {
  size: 120,
  source: 0,
  destination: 16,
  natAddress: 32,
  inInterface: 48,
  outInterface: 52,
  comment: 56,
  targetChain: 60,
  recentList: 64,
  setName: 68,
  markValue: 72,
  markMask: 76,
  targetValue: 80,
  targetMask: 84,
  probability: 88,
  recentSeconds: 92,
  sourcePortFrom: 96,
  sourcePortTo: 98,
  destinationPortFrom: 100,
  destinationPortTo: 102,
  natPort: 104,
  state: 106,
  matches: 108,
  inverts: 110,
  sourcePrefix: 112,
  destinationPrefix: 113,
  protocol: 114,
  target: 115,
  recentCheck: 116,
  addressType: 117,
  setDimensions: 118,
  setSources: 119,
} as const satisfies RecordLayout

// Written by `node native/records.mjs` from native/ipvs/record.h, which documents the fields. Do not edit.
import type { RecordLayout } from '../records.js'

export const opNumber = {
  'add-virtual-server': 1,
  'set-virtual-server': 2,
  'remove-virtual-server': 3,
  'add-real-server': 4,
  'set-real-server': 5,
  'remove-real-server': 6,
  'zero-virtual-server': 7,
} as const

export const virtualServerLayout = {
  size: 64,
  address: 0,
  scheduler: 16,
  mark: 32,
  flags: 36,
  flagsMask: 40,
  timeoutSeconds: 44,
  firstReal: 48,
  realCount: 52,
  port: 56,
  family: 58,
  protocol: 59,
  netmaskLength: 60,
} as const satisfies RecordLayout

export const realServerLayout = {
  size: 40,
  address: 0,
  weight: 16,
  upperThreshold: 20,
  lowerThreshold: 24,
  port: 28,
  tunnelPort: 30,
  tunnelFlags: 32,
  family: 34,
  forwarding: 35,
  tunnelType: 36,
} as const satisfies RecordLayout

export const opLayout = {
  size: 12,
  virtualServer: 0,
  realServer: 4,
  op: 8,
} as const satisfies RecordLayout

export const countersLayout = {
  size: 56,
  connections: 0,
  inPackets: 8,
  outPackets: 16,
  inBytes: 24,
  outBytes: 32,
  activeConnections: 40,
  inactiveConnections: 44,
  persistentConnections: 48,
} as const satisfies RecordLayout

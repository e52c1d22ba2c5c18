// Written by `node native/records.mjs` from native/conntrack/record.h, which documents the fields. Do not edit.
import type { RecordLayout } from '../records.js'

export const frontendLayout = {
  size: 24,
  address: 0,
  backendSet: 16,
  port: 20,
  protocol: 22,
  isNodePort: 23,
} as const satisfies RecordLayout

export const backendLayout = {
  size: 24,
  address: 0,
  backendSet: 16,
  port: 20,
} as const satisfies RecordLayout

export const addressLayout = {
  size: 16,
  address: 0,
} as const satisfies RecordLayout

export const flowLayout = {
  size: 60,
  source: 0,
  destination: 16,
  replySource: 32,
  timeoutSeconds: 48,
  sourcePort: 52,
  destinationPort: 54,
  replySourcePort: 56,
  protocol: 58,
  tcpState: 59,
} as const satisfies RecordLayout

export const flowCountLayout = {
  size: 48,
  destination: 0,
  replySource: 16,
  active: 32,
  inactive: 36,
  destinationPort: 40,
  replySourcePort: 42,
  protocol: 44,
} as const satisfies RecordLayout

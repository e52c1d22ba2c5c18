// Written by `node native/records.mjs` from native/relay/record.h, which documents the fields. Do not edit.
import type { RecordLayout } from '../records.js'

export const opNumber = {
  'set-service': 1,
  'remove-service': 2,
  'set-listener': 3,
  'remove-listener': 4,
} as const

export const verdictNumber = {
  cluster: 1,
  local: 2,
  refuse: 3,
  drop: 4,
} as const

export const endpointLayout = {
  size: 20,
  address: 0,
  port: 16,
  family: 18,
} as const satisfies RecordLayout

export const networkLayout = {
  size: 20,
  address: 0,
  family: 16,
  prefixLength: 17,
} as const satisfies RecordLayout

export const interfaceLayout = {
  size: 16,
  name: 0,
} as const satisfies RecordLayout

export const serviceLayout = {
  size: 32,
  id: 0,
  affinitySeconds: 4,
  firstEndpoint: 8,
  clusterCount: 12,
  localCount: 16,
  flowCount: 20,
  firstRange: 24,
  rangeCount: 28,
} as const satisfies RecordLayout

export const listenerLayout = {
  size: 28,
  address: 0,
  service: 16,
  port: 20,
  family: 22,
  protocol: 23,
  near: 24,
  far: 25,
  hasSourceRanges: 26,
} as const satisfies RecordLayout

export const opLayout = {
  size: 8,
  object: 0,
  op: 4,
} as const satisfies RecordLayout

export const countersLayout = {
  size: 96,
  listeners: 0,
  connections: 8,
  flows: 16,
  acceptedConnections: 24,
  failedConnections: 32,
  refusedConnections: 40,
  shedConnections: 48,
  startedFlows: 56,
  evictedFlows: 64,
  spentHops: 72,
  receivedBytes: 80,
  sentBytes: 88,
} as const satisfies RecordLayout

export const flowLayout = {
  size: 60,
  client: 0,
  frontend: 16,
  endpoint: 32,
  clientPort: 48,
  frontendPort: 50,
  endpointPort: 52,
  family: 54,
  protocol: 55,
  isConnected: 56,
} as const satisfies RecordLayout

// Written by `node native/records.mjs` from native/ports/record.h, which documents the fields. Do not edit.
import type { RecordLayout } from '../records.js'

export const opNumber = {
  none: 0,
  hold: 1,
  release: 2,
} as const

export const portLayout = {
  size: 24,
  address: 0,
  port: 16,
  family: 18,
  protocol: 19,
  op: 20,
} as const satisfies RecordLayout

export const listenerLayout = {
  size: 48,
  address: 0,
  uid: 16,
  pid: 20,
  port: 24,
  family: 26,
  protocol: 27,
  isHeld: 28,
  isOwn: 29,
  name: 32,
} as const satisfies RecordLayout

export const inheritedLayout = {
  size: 8,
  fd: 0,
  number: 4,
} as const satisfies RecordLayout

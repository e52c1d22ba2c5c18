// Written by `node native/records.mjs` from native/binding/record.h, which documents the fields. Do not edit.
import type { RecordLayout } from '../records.js'

export const failureLayout = {
  size: 20,
  index: 0,
  code: 4,
  textOffset: 8,
  textLength: 12,
  unknown: 16,
} as const satisfies RecordLayout

import type { RawOutcome } from './addon.js'
import type { RecordFailure } from './batch.js'
import { failureLayout } from './binding/layout.js'
import { RecordTable } from './records.js'

class FailureCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, failureLayout)
  }

  failure(index: number, text: string): RecordFailure {
    const offset = this.u32(index, failureLayout.textOffset)
    return {
      index: this.u32(index, failureLayout.index),
      errno: this.i32(index, failureLayout.code),
      unknown: this.u8(index, failureLayout.unknown) !== 0,
      text: text.slice(offset, offset + this.u32(index, failureLayout.textLength)),
    }
  }
}

/** The failures of a batch as objects. */
export function decodeFailures(outcome: RawOutcome): readonly RecordFailure[] {
  const cursor = new FailureCursor(outcome.failures)
  return Array.from({ length: cursor.length }, (_, index) => cursor.failure(index, outcome.text))
}

// Values and verdicts: the data of immediates, comparisons and elements.
import { bytes, type Codec, names, optional, record, type RecordOf, text } from './codec.js'

const verdicts = names({
  drop: 0,
  accept: 1,
  continue: -1,
  break: -2,
  jump: -3,
  goto: -4,
  return: -5,
} as const)

const verdictRecord = record({ code: verdicts, chain: optional(text) })
const dataRecord = record({ value: optional(bytes), verdict: optional(verdictRecord) })

/** The fate of a packet. `chain` belongs to jump and goto. */
export type NfVerdict = RecordOf<{ code: typeof verdicts; chain: ReturnType<typeof optional<string>> }>
/** A value with the bytes of its registers, or a verdict. */
export type NfData = { readonly value: Uint8Array } | { readonly verdict: NfVerdict }

/** A value or a verdict. */
export const data: Codec<NfData> = {
  signature: dataRecord.signature,
  write: (stream, value) => dataRecord.write(stream, value),
  read: (stream) => {
    const { value, verdict } = dataRecord.read(stream)
    return verdict === undefined ? { value: value ?? new Uint8Array(0) } : { verdict }
  },
}

/** A value, not a verdict. */
export const value: Codec<Uint8Array> = {
  signature: dataRecord.signature,
  write: (stream, content) => dataRecord.write(stream, { value: content }),
  read: (stream) => dataRecord.read(stream).value ?? new Uint8Array(0),
}

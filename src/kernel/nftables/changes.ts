import type { IpFamily } from '../../address.js'
import { familyFromByte } from '../records.js'
import { StreamReader } from './stream.js'

/** In the order of ChangeKind in native/nftables/nft_events.h. */
const changeKinds = ['table', 'chain', 'rules', 'set', 'elements', 'counter', 'chain-update'] as const

/** One object that another writer created, changed or deleted. */
export interface NftChangedObject {
  /**
   * chain-update: a chain that existed has another name, of which `name` is the new one, or other settings. Older kernels report a new
   * chain in the same way.
   */
  readonly kind: (typeof changeKinds)[number]
  readonly family: IpFamily
  readonly table: string
  /** The name of the chain, set or counter; for rules, of their chain; empty for a table. */
  readonly name: string
}

export type NftChange =
  /** A transaction of another writer. */
  | {
      readonly kind: 'transaction'
      readonly generation: number
      /** Thread id of the writer in the initial namespace, and its name (15 characters). */
      readonly pid: number
      readonly program: string
      readonly objects: readonly NftChangedObject[]
    }
  /** Events were lost: any object may have changed. */
  | { readonly kind: 'overrun' }

/** Decodes the stream of NftEvents::Next() in native/nftables/nft_events.h. */
export function decodeChanges(bytes: Uint8Array): readonly NftChange[] {
  const stream = new StreamReader(bytes)
  const changes: NftChange[] = stream.u32() === 0 ? [] : [{ kind: 'overrun' }]
  while (!stream.isAtEnd) {
    const head = { generation: stream.u32(), pid: stream.u32(), program: stream.text() }
    const objects = Array.from({ length: stream.u32() }, () => readObject(stream))
    changes.push({ kind: 'transaction', ...head, objects })
  }
  return changes
}

function readObject(stream: StreamReader): NftChangedObject {
  const kind = changeKinds[stream.u32()] ?? 'table'
  return { kind, family: familyFromByte(stream.u32()), table: stream.text(), name: stream.text() }
}

import { KernelError } from '../../errors.js'
import { describeNfOp } from './describe.js'
import type { NfFailure, NfOutcome, NfTransaction } from './nftables.js'
import { StreamReader } from './stream.js'

/** TransactionOutcome::State of native/nftables/nft_tables.h. */
const states = ['applied', 'refused', 'unknown'] as const
/** kNoOperation and kNoElement of native/nftables/batch.h. */
const none = 0xffffffff

/** Decodes the stream of TransactionOutcome::ToStream() in native/nftables/nft_tables.h. */
export function decodeOutcome(bytes: Uint8Array, transaction: NfTransaction): NfOutcome {
  const stream = new StreamReader(bytes)
  const state = states[stream.u32()] ?? 'unknown'
  const generation = stream.u32()
  const failures = Array.from({ length: stream.u32() }, () => readFailure(stream, transaction))
  const handles = new Map<number, number>()
  for (let left = stream.u32(); left > 0; left--) handles.set(stream.u32(), stream.u64())
  return { state, ...(generation === 0 ? {} : { generation }), failures, handles }
}

function readFailure(stream: StreamReader, transaction: NfTransaction): NfFailure {
  const operation = stream.u32()
  const element = stream.u32()
  const errno = stream.u32()
  const extack = stream.text()
  return {
    ...(operation === none ? {} : { operation }),
    ...(element === none ? {} : { element }),
    error: nfError(transaction, operation, { errno, extack }),
  }
}

/** The error of an operation; an index outside the transaction means the transaction as a whole. */
export function nfError(
  transaction: NfTransaction,
  operation: number,
  { errno, extack = '' }: { readonly errno: number; readonly extack?: string },
): KernelError {
  const op = transaction[operation]
  const subject = op === undefined ? { operation: 'commit nf_tables transaction' } : describeNfOp(op)
  return new KernelError({
    errno,
    subsystem: 'nftables',
    ...subject,
    ...(extack === '' ? {} : { extack }),
  })
}

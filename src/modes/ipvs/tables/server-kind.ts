// Virtual servers as a kind of kernel objects: their operations, and what failures of these say.
import { isExists, isNotFound } from '../../../errors.js'
import type { IpvsBatch, IpvsDump, IpvsOp, OperationFailure } from '../../../kernel/index.js'
import type { Meaning, ObjectKind } from '../../../engine/index.js'
import { type ServerState, advance, diff, equalStates } from './diff.js'
import type { Entry } from './entry.js'
import { PackedDump } from './packed.js'

/** undefined: the kernel has no such virtual server. */
export const serverKind: ObjectKind<Entry, ServerState | undefined, IpvsOp, IpvsBatch> = {
  plan: (ops, { key, acknowledged }, target) => {
    const before = ops.length
    // What diff() would say, without an object for each: most of a first sync.
    if (acknowledged === undefined && target !== undefined)
      ops.addVirtualServer(key, target.settings, target.realServers)
    else for (const op of diff(key, acknowledged, target)) ops.push(op)
    return ops.length - before
  },
  advance,
  meaningOf: (entry, op, failure, state) => {
    if (op.op === 'add-virtual-server' && isExists(failure.error)) entry.isForeign = 'mark' in entry.key
    return meaningOf(op, failure, state)
  },
  isSame: (a, b) => a === b || (a !== undefined && b !== undefined && equalStates(a, b)),
}

/** What a failure says about the kernel's state (spec/kernel.md 2.1, errors). `state` is the one before the operation. */
function meaningOf(op: IpvsOp, failure: OperationFailure, state: ServerState | undefined): Meaning {
  const { error } = failure
  if (failure.unknown) return 'stale'
  switch (op.op) {
    case 'remove-virtual-server':
      return isNotFound(error) ? 'done' : 'refused'
    case 'add-virtual-server':
      return isExists(error) ? 'stale' : 'refused'
    case 'remove-real-server':
      // ESRCH: the virtual server itself is gone.
      if (error.code === 'ENOENT') return 'done'
      return error.code === 'ESRCH' ? 'stale' : 'refused'
    case 'add-real-server':
    case 'set-real-server':
      // Without the virtual server, whose own failure was reported, nothing else can work.
      if (error.code === 'ESRCH' && state === undefined) return 'consequence'
      return isExists(error) || isNotFound(error) ? 'stale' : 'refused'
    case 'set-virtual-server':
    case 'zero-virtual-server':
      // ENOENT is an unknown scheduler.
      return error.code === 'ESRCH' ? 'stale' : 'refused'
  }
}

export function isNewMark({ key, acknowledged }: Entry): boolean {
  return 'mark' in key && acknowledged === undefined
}

/** Whether a virtual server of the kernel is ours as soon as the ledger has this entry for it. Anyone may choose a mark. */
export function isProven({ key, acknowledged, isStale, isForeign }: Entry): boolean {
  return !('mark' in key) || acknowledged !== undefined || (isStale && !isForeign)
}

/** Whether a dump that holds these virtual servers, and perhaps others, says of them what was acknowledged. */
export function isAsAcknowledged(entries: readonly Entry[], ipvs: IpvsDump): boolean {
  const dump = new PackedDump(ipvs)
  const indices = new Map(Array.from({ length: dump.length }, (_, index) => [dump.id(index), index]))
  return entries.every(({ packedId, acknowledged }) => {
    const index = indices.get(packedId)
    return index !== undefined && acknowledged !== undefined && dump.equals(index, acknowledged)
  })
}

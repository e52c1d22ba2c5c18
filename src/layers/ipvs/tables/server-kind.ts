// Virtual servers as a kind of kernel objects: their operations, and the meaning of failures.
import { isExists, isNotFound } from '../../../errors.js'
import type { IpvsBatch, IpvsDump, IpvsOp, OperationFailure } from '../../../kernel/index.js'
import type { Meaning, ObjectKind } from '../../objects/index.js'
import { type ServerState, advance, diff, equalStates } from './diff.js'
import type { Entry } from './entry.js'
import { PackedDump } from './packed.js'

/** undefined: the kernel has no such virtual server. */
export const serverKind: ObjectKind<Entry, ServerState | undefined, IpvsOp, IpvsBatch> = {
  plan: (ops, { key, acknowledged }, target) => {
    const before = ops.length
    // The same operations as from diff(), without an object for each: they are most of a first sync.
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

/** The meaning of a failure for the kernel's state (ip_vs_genl_set_cmd() of ip_vs_ctl.c). `state` is the one before the operation. */
function meaningOf(op: IpvsOp, failure: OperationFailure, state: ServerState | undefined): Meaning {
  const { error } = failure
  if (failure.unknown) return 'stale'
  switch (op.op) {
    case 'remove-virtual-server':
      return isNotFound(error) ? 'done' : 'refused'
    case 'add-virtual-server':
      return isExists(error) ? 'stale' : 'refused'
    case 'remove-real-server':
      // ESRCH: the virtual server itself does not exist.
      if (error.code === 'ENOENT') return 'done'
      return error.code === 'ESRCH' ? 'stale' : 'refused'
    case 'add-real-server':
    case 'set-real-server':
      // The virtual server is missing since its own addition failed, which was reported: all later operations fail.
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

/** Whether the ledger's entry proves that the kernel's virtual server is ours. Any program may choose a mark. */
export function isProven({ key, acknowledged, isStale, isForeign }: Entry): boolean {
  return !('mark' in key) || acknowledged !== undefined || (isStale && !isForeign)
}

/** Whether these virtual servers have their acknowledged states in a dump. The dump may have other virtual servers too. */
export function isAsAcknowledged(entries: readonly Entry[], ipvs: IpvsDump): boolean {
  const dump = new PackedDump(ipvs)
  const indices = new Map(Array.from({ length: dump.length }, (_, index) => [dump.id(index), index]))
  return entries.every(({ packedId, acknowledged }) => {
    const index = indices.get(packedId)
    return index !== undefined && acknowledged !== undefined && dump.equals(index, acknowledged)
  })
}

// Virtual servers as a kind of kernel objects: their operations, and the meaning of failures.
import { isExists, isNotFound } from '../../../errors.js'
import type { OperationKind } from '../../../engine/index.js'
import {
  describeIpvsOp,
  type IpvsBatch,
  type IpvsDump,
  type IpvsOp,
  isSameSettings,
  noRealServers,
  type OperationFailure,
  type VirtualServerKey,
} from '../../../kernel/index.js'
import type { ServerState } from '../compile/desired.js'
import type { Meaning, ObjectKind } from '../../objects/index.js'
import type { Entry } from './entry.js'
import { PackedDump } from './packed.js'

/** As a pass counts and prints them. A small batch is kept as it is: most are never read. */
export const serverOperations: OperationKind<IpvsOp> = {
  name: 'ipvs',
  describe: describeIpvsOp,
  isMetered: true,
  isDescribedLate: true,
}

/** undefined: the kernel has no such virtual server. */
export const serverKind: ObjectKind<Entry, ServerState | undefined, IpvsOp, IpvsBatch> = {
  plan: (ops, { key, acknowledged }, target) => planServer(ops, key, acknowledged, target),
  advance,
  meaningOf: (entry, op, failure, state) => {
    if (op.op === 'add-virtual-server' && isExists(failure.error)) entry.isForeign = 'mark' in entry.key
    return meaningOf(op, failure, state)
  },
  isSame: (a, b) => a === b || (a !== undefined && b !== undefined && equalStates(a, b)),
}

/**
 * Appends the operations that lead from `acknowledged` to `target` (undefined: no such virtual server). Real servers are added before others
 * are changed, perhaps to weight 0, or removed, so that clients always have one. Returns the number of operations.
 */
export function planServer(
  ops: IpvsBatch,
  server: VirtualServerKey,
  acknowledged: ServerState | undefined,
  target: ServerState | undefined,
): number {
  const before = ops.length
  if (target === undefined) {
    if (acknowledged !== undefined) ops.push({ op: 'remove-virtual-server', server })
  } else if (acknowledged === undefined) ops.addVirtualServer(server, target.settings, target.realServers)
  else {
    if (!isSameSettings(acknowledged.settings, target.settings))
      ops.push({ op: 'set-virtual-server', server: { key: server, settings: target.settings } })
    ops.changeRealServers(server, acknowledged.realServers, target.realServers)
  }
  return ops.length - before
}

/** The state after one operation that the kernel accepted. An operation on a missing server changes nothing. */
export function advance(state: ServerState | undefined, op: IpvsOp): ServerState | undefined {
  switch (op.op) {
    case 'add-virtual-server':
      return { settings: op.server.settings, realServers: noRealServers }
    case 'set-virtual-server':
      return state && { settings: op.server.settings, realServers: state.realServers }
    case 'remove-virtual-server':
      return undefined
    case 'zero-virtual-server':
      return state
    case 'add-real-server':
    case 'set-real-server':
      return state && { settings: state.settings, realServers: state.realServers.with(op.real) }
    case 'remove-real-server':
      return state && { settings: state.settings, realServers: state.realServers.without(op.real) }
  }
}

export function equalStates(a: ServerState, b: ServerState): boolean {
  return isSameSettings(a.settings, b.settings) && a.realServers.equals(b.realServers)
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
  const { places } = dump
  return entries.every(({ packedId, acknowledged }) => {
    const index = places.get(packedId)
    return index !== undefined && acknowledged !== undefined && dump.equals(index, acknowledged)
  })
}

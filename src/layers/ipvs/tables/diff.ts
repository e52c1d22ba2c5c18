// The difference between two states of one virtual server as operations, and operations applied to a state.
import {
  type IpvsOp,
  isSameSettings,
  noRealServers,
  type RealServerKey,
  type RealServerList,
  type VirtualServerKey,
  type VirtualServerSettings,
} from '../../../kernel/index.js'

/** A virtual server without its identity. */
export interface ServerState {
  readonly settings: VirtualServerSettings
  readonly realServers: RealServerList
}

/**
 * Operations that lead from `acknowledged` to `wanted` (undefined: no such virtual server). Real servers are added before others
 * are changed, perhaps to weight 0, or removed, so that clients always have one.
 */
export function diff(
  server: VirtualServerKey,
  acknowledged: ServerState | undefined,
  wanted: ServerState | undefined,
): readonly IpvsOp[] {
  if (acknowledged === wanted) return []
  if (wanted === undefined) return [{ op: 'remove-virtual-server', server }]
  if (acknowledged === undefined) {
    return [
      { op: 'add-virtual-server', server: { key: server, settings: wanted.settings } },
      ...Array.from(wanted.realServers, (real) => ({ op: 'add-real-server', server, real }) as const),
    ]
  }
  const ops = diffRealServers(server, acknowledged.realServers, wanted.realServers)
  if (isSameSettings(acknowledged.settings, wanted.settings)) return ops
  return [{ op: 'set-virtual-server', server: { key: server, settings: wanted.settings } }, ...ops]
}

/** Walks both lists together. They have the same order, so a key that is in only one of them shows. */
function diffRealServers(
  server: VirtualServerKey,
  from: RealServerList,
  to: RealServerList,
): readonly IpvsOp[] {
  if (from.equals(to)) return []
  const additions: IpvsOp[] = []
  const changes: IpvsOp[] = []
  const removals: IpvsOp[] = []
  for (let left = 0, index = 0; left < from.length || index < to.length;) {
    const order = orderOf(from, left, to, index)
    if (order < 0) removals.push({ op: 'remove-real-server', server, real: from.at(left).key })
    else if (order > 0) additions.push({ op: 'add-real-server', server, real: to.at(index) })
    else if (!from.isSame(left, to, index))
      changes.push({ op: 'set-real-server', server, real: to.at(index) })
    if (order <= 0) left++
    if (order >= 0) index++
  }
  return [...additions, ...changes, ...removals]
}

/** Which element comes first; a list that has ended comes last. */
function orderOf(from: RealServerList, left: number, to: RealServerList, index: number): number {
  if (left === from.length) return 1
  return index === to.length ? -1 : from.compareKeys(left, to, index)
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

export function realServerId({ address, port }: RealServerKey): string {
  return `${address} ${port}`
}

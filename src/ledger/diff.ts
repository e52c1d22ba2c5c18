// The difference between two states of one virtual server as operations, and operations applied to a state.
import type {
  IpvsOp,
  RealServer,
  RealServerKey,
  VirtualServerKey,
  VirtualServerSettings,
} from '../kernel/index.js'

/** All of a virtual server but its identity. */
export interface ServerState {
  readonly settings: VirtualServerSettings
  readonly realServers: readonly RealServer[]
}

/**
 * Operations that lead from `acknowledged` to `wanted` (undefined: no such virtual server). Real servers are added before
 * others are removed, so that none is missing in between (spec/kernel.md 2.3).
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
      ...wanted.realServers.map((real) => ({ op: 'add-real-server', server, real }) as const),
    ]
  }
  const ops: IpvsOp[] = []
  if (!equalSettings(acknowledged.settings, wanted.settings)) {
    ops.push({ op: 'set-virtual-server', server: { key: server, settings: wanted.settings } })
  }
  pushRealServerDiff(ops, server, { from: acknowledged.realServers, to: wanted.realServers })
  return ops
}

function pushRealServerDiff(
  ops: IpvsOp[],
  server: VirtualServerKey,
  { from, to }: { readonly from: readonly RealServer[]; readonly to: readonly RealServer[] },
): void {
  if (from === to) return
  const leaving = new Map(from.map((real) => [realServerId(real.key), real]))
  for (const real of to) {
    const id = realServerId(real.key)
    const present = leaving.get(id)
    leaving.delete(id)
    if (present === undefined) ops.push({ op: 'add-real-server', server, real })
    else if (!equalRealSettings(present, real)) ops.push({ op: 'set-real-server', server, real })
  }
  for (const { key } of leaving.values()) ops.push({ op: 'remove-real-server', server, real: key })
}

/** The state after one operation that the kernel accepted. An operation on a missing server changes nothing. */
export function advance(state: ServerState | undefined, op: IpvsOp): ServerState | undefined {
  switch (op.op) {
    case 'add-virtual-server':
      return { settings: op.server.settings, realServers: [] }
    case 'set-virtual-server':
      return state && { settings: op.server.settings, realServers: state.realServers }
    case 'remove-virtual-server':
      return undefined
    case 'zero-virtual-server':
      return state
    case 'add-real-server':
    case 'set-real-server':
      return (
        state && {
          settings: state.settings,
          realServers: [...without(state.realServers, op.real.key), op.real],
        }
      )
    case 'remove-real-server':
      return state && { settings: state.settings, realServers: without(state.realServers, op.real) }
  }
}

function without(realServers: readonly RealServer[], key: RealServerKey): readonly RealServer[] {
  return realServers.filter((real) => real.key.address !== key.address || real.key.port !== key.port)
}

/** Equal whatever the order of the real servers. */
export function equalStates(a: ServerState, b: ServerState): boolean {
  if (!equalSettings(a.settings, b.settings) || a.realServers.length !== b.realServers.length) return false
  const others = new Map(b.realServers.map((real) => [realServerId(real.key), real]))
  return a.realServers.every((real) => {
    const other = others.get(realServerId(real.key))
    return other !== undefined && equalRealSettings(real, other)
  })
}

export function realServerId({ address, port }: RealServerKey): string {
  return `${address} ${port}`
}

function equalSettings(a: VirtualServerSettings, b: VirtualServerSettings): boolean {
  return (
    a.scheduler === b.scheduler &&
    a.flags === b.flags &&
    a.timeoutSeconds === b.timeoutSeconds &&
    a.netmaskLength === b.netmaskLength
  )
}

function equalRealSettings({ settings: a }: RealServer, { settings: b }: RealServer): boolean {
  if (a === b) return true
  return (
    a.weight === b.weight &&
    a.forwarding === b.forwarding &&
    a.upperThreshold === b.upperThreshold &&
    a.lowerThreshold === b.lowerThreshold &&
    a.tunnel?.type === b.tunnel?.type &&
    a.tunnel?.port === b.tunnel?.port &&
    a.tunnel?.flags === b.tunnel?.flags
  )
}

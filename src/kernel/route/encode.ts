// Packs route and address operations into records.
import { familyOf, writeAddress } from '../../address.js'
import { addressFamily, hostPrefixLength, recordBuffer, type RecordBuffer } from '../records.js'
import { addressLayout, opNumber, routeLayout, routeQueryLayout } from './layout.js'
import type { InterfaceAddress, LocalRoute, RouteOp, RouteQuestion } from './routes.js'

const recordOps = {
  'add-route': opNumber.add,
  'replace-route': opNumber.replace,
  'remove-route': opNumber.remove,
  'add-address': opNumber.add,
  'remove-address': opNumber.remove,
} as const satisfies Record<RouteOp['op'], number>

/** linux/rtnetlink.h */
const routeTableLocal = 255
export const routeTypeLocal = 2
const routeScopeHost = 254

/** A route that was added with scope host and no metric, in a dump: fib6 has no scope and sets IP6_RT_PRIO_USER. */
export const dumpedShapes = {
  ipv4: { scope: routeScopeHost, metric: 0 },
  ipv6: { scope: 0, metric: 1024 },
} as const
/** IFA_F_NODAD of linux/if_addr.h: without it an IPv6 address is tentative, and so not local, for a second. */
const noDuplicateDetection = 0x02

/** Consecutive operations of a batch, all on routes or all on addresses. */
export interface RouteRun {
  readonly kind: 'routes' | 'addresses'
  /** Index of the first operation in the batch. */
  readonly start: number
  readonly ops: readonly RouteOp[]
}

export function encodeRouteRun(run: RouteRun): Uint8Array {
  const { size } = run.kind === 'routes' ? routeLayout : addressLayout
  const buffer = recordBuffer(run.ops.length * size)
  for (const [index, op] of run.ops.entries()) {
    if ('route' in op) writeRoute(buffer, index * size, op.route, recordOps[op.op])
    else writeInterfaceAddress(buffer, index * size, op.address, recordOps[op.op])
  }
  return buffer.bytes
}

/** Writes a local route into a zeroed RouteRecord at byte `at`. */
export function writeRoute(buffer: RecordBuffer, at: number, route: LocalRoute, op: number): void {
  const { bytes, view } = buffer
  const family = familyOf(route.address)
  writeAddress(route.address, bytes, at + routeLayout.destination)
  if (route.preferredSource !== undefined)
    writeAddress(route.preferredSource, bytes, at + routeLayout.preferredSource)
  view.setUint32(at + routeLayout.interfaceIndex, route.interfaceIndex, true)
  if (route.metric !== undefined) view.setUint32(at + routeLayout.metric, route.metric, true)
  view.setUint32(at + routeLayout.table, routeTableLocal, true)
  bytes[at + routeLayout.op] = op
  bytes[at + routeLayout.family] = addressFamily[family]
  bytes[at + routeLayout.prefixLength] = hostPrefixLength(family)
  bytes[at + routeLayout.protocol] = route.protocol
  bytes[at + routeLayout.type] = routeTypeLocal
  bytes[at + routeLayout.scope] = routeScopeHost
}

/** Writes an interface address into a zeroed AddressRecord at byte `at`. */
export function writeInterfaceAddress(
  buffer: RecordBuffer,
  at: number,
  address: InterfaceAddress,
  op: number,
): void {
  const { bytes, view } = buffer
  const family = familyOf(address.address)
  writeAddress(address.address, bytes, at + addressLayout.address)
  view.setUint32(at + addressLayout.interfaceIndex, address.interfaceIndex, true)
  if (family === 'ipv6') view.setUint32(at + addressLayout.flags, noDuplicateDetection, true)
  bytes[at + addressLayout.op] = op
  bytes[at + addressLayout.family] = addressFamily[family]
  bytes[at + addressLayout.prefixLength] = address.prefixLength
}

/** linux/in.h */
const transportNumber = { tcp: 6, udp: 17 } as const

export function encodeQuestions(questions: readonly RouteQuestion[]): Uint8Array {
  const buffer = recordBuffer(questions.length * routeQueryLayout.size)
  const { bytes, view } = buffer
  for (const [index, { destination, source, inInterface, mark, transport }] of questions.entries()) {
    const at = index * routeQueryLayout.size
    writeAddress(destination, bytes, at + routeQueryLayout.destination)
    if (source !== undefined) writeAddress(source, bytes, at + routeQueryLayout.source)
    view.setUint32(at + routeQueryLayout.inputInterface, inInterface ?? 0, true)
    view.setUint32(at + routeQueryLayout.mark, mark ?? 0, true)
    bytes[at + routeQueryLayout.family] = addressFamily[familyOf(destination)]
    if (transport === undefined) continue
    view.setUint16(at + routeQueryLayout.destinationPort, transport.port, true)
    bytes[at + routeQueryLayout.protocol] = transportNumber[transport.protocol]
  }
  return bytes
}

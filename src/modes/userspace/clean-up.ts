// --cleanup: removes the VIP routes.
import { isNotFound, KernelError, orRefusal } from '../../errors.js'
import type { Links, RouteOp, Routes } from '../../kernel/index.js'
import { findLoopback, PackedRoutes, userspaceRouteMetric as metric } from '../../layers/vips/index.js'

export interface RouteCleanUp {
  readonly removed: number
  readonly failures: readonly KernelError[]
}

interface RouteKernel {
  readonly links: Links
  readonly routes: Routes
}

/** The operations that remove the routes of this mode from one family, or why they cannot be read. */
type OwnRoutes = readonly RouteOp[] | KernelError

/**
 * Removes the routes of both families that have the protocol, the metric and the shape of this mode's. A failure in one family does not stop
 * the other. Throws KernelError if the interfaces cannot be read.
 */
export async function cleanUpRoutes(kernel: RouteKernel): Promise<RouteCleanUp> {
  const failures: KernelError[] = []
  let removed = 0
  for await (const ops of ownRoutes(kernel)) {
    const report = ops instanceof KernelError ? ops : await orRefusal(() => kernel.routes.apply(ops))
    if (report instanceof KernelError) failures.push(report)
    else {
      removed += report.applied
      failures.push(...report.failures.map(({ error }) => error).filter((error) => !isNotFound(error)))
    }
  }
  return { removed, failures }
}

/** Counts the VIP routes of both families. Throws KernelError. */
export async function countRoutes(kernel: RouteKernel): Promise<number> {
  let count = 0
  for await (const ops of ownRoutes(kernel)) {
    if (ops instanceof KernelError) throw ops
    count += ops.length
  }
  return count
}

/** Walks the routes of this mode, family by family: those that have some. Throws KernelError if the interfaces cannot be read. */
async function* ownRoutes({ links, routes }: RouteKernel): AsyncGenerator<OwnRoutes> {
  const interfaceIndex = await findLoopback(links)
  for (const family of ['ipv4', 'ipv6'] as const) {
    const dumped = await orRefusal(async () => new PackedRoutes(await routes.dumpLocalRoutes(family)))
    const own = dumped instanceof KernelError ? dumped : removals(dumped, interfaceIndex)
    if (own instanceof KernelError || own.length > 0) yield own
  }
}

function removals(dumped: PackedRoutes, interfaceIndex: number): readonly RouteOp[] {
  const ops: RouteOp[] = []
  for (let index = 0; index < dumped.length; index++) {
    if (!dumped.isLikeOurs(index, interfaceIndex, metric)) continue
    const route = { address: dumped.address(index), interfaceIndex, protocol: dumped.protocol(index), metric }
    ops.push({ op: 'remove-route', route })
  }
  return ops
}

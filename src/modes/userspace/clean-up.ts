// --cleanup: removes the VIP routes.
import type { IpFamily } from '../../address.js'
import { isNotFound, KernelError, orRefusal } from '../../errors.js'
import type { Links, RouteOp, Routes } from '../../kernel/index.js'
import { findLoopback, PackedRoutes, userspaceRouteMetric as metric } from '../vips/index.js'

export interface RouteCleanUp {
  readonly removed: number
  readonly failures: readonly KernelError[]
}

const families = ['ipv4', 'ipv6'] as const

/**
 * Removes the routes of both families that have the protocol, the metric and the shape of this mode's. A failure in one family does not stop
 * the other. Throws KernelError if the interfaces cannot be read.
 */
export async function cleanUpRoutes({
  links,
  routes,
}: {
  readonly links: Links
  readonly routes: Routes
}): Promise<RouteCleanUp> {
  const interfaceIndex = await findLoopback(links)
  const failures: KernelError[] = []
  let removed = 0
  for (const family of families) {
    const report = await orRefusal(() => cleanUpFamily(routes, family, interfaceIndex))
    if (report instanceof KernelError) failures.push(report)
    else {
      removed += report.removed
      failures.push(...report.failures)
    }
  }
  return { removed, failures }
}

async function cleanUpFamily(
  routes: Routes,
  family: IpFamily,
  interfaceIndex: number,
): Promise<RouteCleanUp> {
  const ops = await ownRoutes(routes, family, interfaceIndex)
  if (ops.length === 0) return { removed: 0, failures: [] }
  const { applied, failures } = await routes.apply(ops)
  return {
    removed: applied,
    failures: failures.map(({ error }) => error).filter((error) => !isNotFound(error)),
  }
}

/** Counts the VIP routes of both families. Throws KernelError. */
export async function countRoutes({
  links,
  routes,
}: {
  readonly links: Links
  readonly routes: Routes
}): Promise<number> {
  const interfaceIndex = await findLoopback(links)
  let count = 0
  for (const family of families) count += (await ownRoutes(routes, family, interfaceIndex)).length
  return count
}

/** The operations that remove the routes of this mode. */
async function ownRoutes(
  routes: Routes,
  family: IpFamily,
  interfaceIndex: number,
): Promise<readonly RouteOp[]> {
  const dumped = new PackedRoutes(await routes.dumpLocalRoutes(family))
  const ops: RouteOp[] = []
  for (let index = 0; index < dumped.length; index++) {
    if (!dumped.isLikeOurs(index, interfaceIndex, metric)) continue
    const route = { address: dumped.address(index), interfaceIndex, protocol: dumped.protocol(index), metric }
    ops.push({ op: 'remove-route', route })
  }
  return ops
}

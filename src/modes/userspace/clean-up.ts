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

/** Removes the routes of both families that have the protocol, the metric and the shape of this mode's. A failure in one family does not stop the other. */
export async function cleanUpRoutes(kernel: {
  readonly links: Links
  readonly routes: Routes
}): Promise<RouteCleanUp> {
  const failures: KernelError[] = []
  let removed = 0
  for (const family of families) {
    const report = await orRefusal(() => cleanUpFamily(kernel, family))
    if (report instanceof KernelError) failures.push(report)
    else {
      removed += report.removed
      failures.push(...report.failures)
    }
  }
  return { removed, failures }
}

async function cleanUpFamily(
  { links, routes }: { readonly links: Links; readonly routes: Routes },
  family: IpFamily,
): Promise<RouteCleanUp> {
  const interfaceIndex = await findLoopback(links)
  const dumped = new PackedRoutes(await routes.dumpLocalRoutes(family))
  const ops: RouteOp[] = []
  for (let index = 0; index < dumped.length; index++) {
    const protocol = dumped.protocol(index)
    if (!dumped.isLikeOurs(index, interfaceIndex, metric)) continue
    const route = { address: dumped.address(index), interfaceIndex, protocol, metric }
    ops.push({ op: 'remove-route', route })
  }
  const { applied, failures } = await routes.apply(ops)
  return {
    removed: applied,
    failures: failures.map(({ error }) => error).filter((error) => !isNotFound(error)),
  }
}

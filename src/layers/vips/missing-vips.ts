import type { IpAddress, IpFamily } from '../../address.js'
import { RouteCursor, type Routes } from '../../kernel/index.js'

/**
 * The addresses that are not local to this node, a sentence each. The kernel lists all local host routes at once; those of addresses of
 * interfaces are among them. Throws KernelError.
 */
export async function missingVips(
  vips: readonly IpAddress[],
  family: IpFamily,
  routes: Pick<Routes, 'dumpLocalRoutes'>,
): Promise<readonly string[]> {
  if (vips.length === 0) return []
  const missing = new Set(vips)
  const present = new RouteCursor(await routes.dumpLocalRoutes(family))
  for (let index = 0; index < present.length && missing.size > 0; index++)
    missing.delete(present.address(index))
  return [...missing].map((vip) => `local route of ${vip} is missing`)
}

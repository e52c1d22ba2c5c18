import type { ModeKind } from '../../engine/index.js'
import { cleanUpRoutes, countRoutes } from './clean-up.js'
import { openUserspaceMode } from './mode.js'
import { natGuardTables } from '../../kernel/index.js'
import { cleanUpNatGuard } from '../../layers/vips/index.js'

/** userspace mode: it needs routes and sockets alone, so no kernel lacks what it needs. */
export const userspaceKind: ModeKind = {
  name: 'userspace',
  open: openUserspaceMode,
  flavours: [],
  chains: {},
  lackOf: () => undefined,
  countVips: countRoutes,
  cleanUp: async ({ kernel }) => {
    // First: it keeps the rules of the mode that runs now from connections.
    const guard = await cleanUpNatGuard(kernel.nftChains, natGuardTables.userspace)
    const { removed, failures } = await cleanUpRoutes(kernel)
    const routes = removed === 0 ? [] : [`removed ${removed} VIP routes of userspace mode`]
    return {
      text: [...routes, ...guard.texts].join('; '),
      hasRemoved: removed > 0 || guard.texts.length > 0,
      failures: [...failures, ...guard.failures].map(({ message }) => message),
    }
  },
}

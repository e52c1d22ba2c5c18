import type { ModeKind } from '../../engine/index.js'
import { cleanUpRoutes } from './clean-up.js'
import { openUserspaceMode } from './mode.js'

/** userspace mode: it needs routes and sockets alone, so no kernel lacks what it needs. */
export const userspaceKind: ModeKind = {
  name: 'userspace',
  open: openUserspaceMode,
  flavours: [],
  chains: {},
  lackOf: () => undefined,
  cleanUp: async ({ kernel }) => {
    const { removed, failures } = await cleanUpRoutes(kernel)
    return {
      text: removed === 0 ? '' : `removed ${removed} VIP routes of userspace mode`,
      hasRemoved: removed > 0,
      failures: failures.map(({ message }) => message),
    }
  },
}

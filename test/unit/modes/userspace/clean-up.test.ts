// --cleanup and the count of leftovers of userspace mode walk the routes of both families in one way.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { IpFamily } from '../../../../src/address.js'
import { KernelError } from '../../../../src/errors.js'
import { userspaceKind } from '../../../../src/modes/userspace/index.js'
import { openModelKernel } from '../../../model/index.js'

function withoutRoutes(family: IpFamily): ReturnType<typeof openModelKernel> {
  const kernel = openModelKernel()
  const dump = kernel.routes.dumpLocalRoutes.bind(kernel.routes)
  kernel.routes.dumpLocalRoutes = async (asked) => {
    if (asked !== family) return await dump(asked)
    throw new KernelError({ errno: constants.errno.EIO, subsystem: 'route', operation: `dump ${asked}` })
  }
  return kernel
}

describe('routes of userspace mode that cannot be read', () => {
  for (const family of ['ipv4', 'ipv6'] as const) {
    it(`are one failure of the clean-up: ${family}`, async () => {
      const report = await userspaceKind.cleanUp({
        kernel: withoutRoutes(family),
        chains: {},
        flavours: [],
        excludeCidrs: [],
      })
      assert.deepEqual(report, {
        text: '',
        hasRemoved: false,
        failures: [`route: dump ${family}: EIO`],
      })
    })

    it(`have no number: ${family}`, async () => {
      await assert.rejects(async () => await userspaceKind.countVips?.(withoutRoutes(family)), {
        subsystem: 'route',
        code: 'EIO',
      })
    })
  }
})

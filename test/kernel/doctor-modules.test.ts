// The doctor on a kernel without IP_VS that may load no module before the next boot: it names every missing module at once. Before, it
// named the one of which the kernel complained first.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { probeModes } from '../../src/agent/probe-modes.js'
import { resolveConfig } from '../../src/config/index.js'
import { type Kernel, openKernel } from '../../src/kernel/index.js'

const isMissing = (module: string): boolean => /^(?:ip_vs|ip_set|xt_set|xt_recent)/u.test(module)

describe('modules that may not be loaded any more', () => {
  let kernel: Kernel
  before(() => {
    kernel = openKernel({ addonPath: process.env['VIADUCT_ADDON'], dryRun: () => {} })
  })
  after(async () => await kernel.close())

  it('are all named', async () => {
    const { problem } = await probeModes({
      config: resolveConfig({ manifests: 'none', mode: 'ipvs' }),
      kernel,
      addonPath: process.env['VIADUCT_ADDON'],
      modules: {
        state: (module) => (isMissing(module) ? 'absent' : 'present'),
        remedy: (module) => (isMissing(module) ? 'boot' : 'present'),
        loaderOf: () => undefined,
        isLocked: true,
      },
      running: undefined,
      canWrite: async () => await Promise.resolve(true),
    })
    const names =
      'ip_vs, ip_vs_rr, ip_set, xt_set, ip_set_bitmap_port, ip_set_hash_ip, ip_set_hash_ipport, ip_set_hash_ipportip, ' +
      'ip_set_hash_ipportnet and xt_recent'
    assert.match(
      problem ?? '',
      new RegExp(
        `has not loaded modules of the mode, and kernel.modules_disabled forbids it until the next boot: name ${names} in a file`,
        'u',
      ),
    )
  })
})

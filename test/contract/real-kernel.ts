import { openKernel, type Kernel } from '../../src/kernel/index.js'
import { type KernelOptions } from '../../src/kernel/testing.js'

/** The kernel of this machine, with the addon of VIADUCT_ADDON (a build with sanitizers), or the built one. */
export function openRealKernel(options: KernelOptions = {}): Kernel {
  return openKernel({ addonPath: process.env['VIADUCT_ADDON'], ...options })
}

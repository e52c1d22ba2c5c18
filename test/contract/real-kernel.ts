import { openKernel, type Kernel, type KernelOptions } from '../../src/kernel/index.js'

/** The kernel of this machine, by the addon that VIADUCT_ADDON names (a build with sanitizers), or the built one. */
export function openRealKernel(options: KernelOptions = {}): Kernel {
  return openKernel({ addonPath: process.env['VIADUCT_ADDON'], ...options })
}

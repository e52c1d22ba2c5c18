import { openKernel, type Kernel, type KernelOptions } from '../../src/kernel/index.js'

/** The kernel of this machine, with the addon of VIADUCT_ADDON (a build with sanitizers), or the built one. */
export function openRealKernel(options: KernelOptions = {}): Kernel {
  return openKernel({ addonPath: process.env['VIADUCT_ADDON'], ...options })
}

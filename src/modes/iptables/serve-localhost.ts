import { routeLocalnet } from '../../host/index.js'
import { servesLocalhostByConfig } from '../../node/index.js'
import type { OpenModeOptions } from '../../engine/index.js'
import { localhostGuard } from './compile/skeleton.js'

/**
 * With --init-only no pipeline will write rules, and the Node is not known. The guard comes first: between the two no neighbour reaches
 * the node's loopback addresses. Throws KernelError if the guard cannot be written; the setting is then unchanged.
 */
export async function serveLocalhostAtInit(options: OpenModeOptions): Promise<void> {
  const { config, kernel, flavour } = options
  if (!config.initOnly || !servesLocalhostByConfig(config)) return
  await kernel.xtables('ipv4', 'filter', flavour).apply(localhostGuard())
  await routeLocalnet(options)
}

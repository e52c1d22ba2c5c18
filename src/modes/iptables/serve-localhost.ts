import { KernelError } from '../../errors.js'
import { ensureSetting } from '../../host/index.js'
import { servesLocalhostByConfig } from '../../node/index.js'
import type { ModeOptions, OpenModeOptions } from '../../engine/index.js'

/** F-064: without this setting the kernel drops packets from loopback addresses to endpoints. */
export async function serveLocalhost({ kernel, log }: Pick<ModeOptions, 'kernel' | 'log'>): Promise<void> {
  const path = 'net/ipv4/conf/all/route_localnet'
  const outcome = await ensureSetting({ path, value: 1 }, { sysctl: kernel.sysctl, log })
  const remedy = 'set it on the node, or use --iptables-localhost-nodeports=false'
  if (outcome instanceof KernelError)
    log.error(`Kernel setting cannot be changed: ${path} should be 1; ${remedy}`, {
      setting: path,
      err: outcome,
    })
}

/** With --init-only no pipeline will do it, and the Node is not known. */
export async function serveLocalhostAtInit(options: OpenModeOptions): Promise<void> {
  const { config } = options
  if (config.initOnly && servesLocalhostByConfig(config)) await serveLocalhost(options)
}

// Checks the kernel before the first sync, and writes the settings that the mode needs.
import type { VipBinding } from '../../config/index.js'
import { ConfigError } from '../../errors.js'
import type { Ipset, Ipvs } from '../../kernel/index.js'
import { checkSetTypes, type IpvsKernel, setKeys, setSpec } from '../../layers/ipvs/index.js'
import type { IpvsSettings } from './settings.js'
import { inOrder } from '../../host/index.js'
import { hasScheduler, schedulersInUse } from './scheduler-probe.js'
import { dummyAdvice, ensureDummyDevice } from '../../layers/vips/index.js'

export interface PrepareOptions {
  readonly kernel: IpvsKernel & { readonly ipset: Ipset }
  readonly scheduler: string
  readonly vipBinding: VipBinding
  readonly settings: IpvsSettings
  /** Resolves when the settings of connection tracking are written. */
  readonly conntrack: Promise<void>
}

/**
 * Throws the error of `conntrack`, ConfigError if an operator's setting cannot work on this kernel, and KernelError if the kernel
 * lacks IP_VS, ipset or a type of set.
 */
export async function prepareKernel(options: PrepareOptions): Promise<void> {
  const { kernel, scheduler, vipBinding, settings, conntrack } = options
  await inOrder([
    conntrack,
    kernel.ipvs.load().then(async () => await checkScheduler(kernel.ipvs, scheduler)),
    checkSetTypes(kernel.ipset, setKeys.map(setSpec)),
  ])
  // After the checks: the device stays, and a node that cannot run the mode has no use for it.
  const dummy = await ensureDummyDevice(kernel.links)
  if (typeof dummy === 'string' && vipBinding === 'addresses')
    throw new ConfigError('vip-binding', dummyAdvice(dummy, vipBinding))
  await settings.ensure()
}

/** A scheduler that a virtual server uses is available. Any other one is probed. */
async function checkScheduler(ipvs: Ipvs, scheduler: string): Promise<void> {
  for (const family of ['ipv4', 'ipv6'] as const)
    if ((await schedulersInUse(ipvs, family)).has(scheduler)) return
  if (await hasScheduler(ipvs, 'ipv4', scheduler)) return
  throw new ConfigError(
    'ipvs-scheduler',
    `this kernel has no scheduler "${scheduler}": load the module ip_vs_${scheduler}, or choose another such as rr`,
  )
}

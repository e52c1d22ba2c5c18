// What the kernel must be able to do, and be set to, before the first sync (kube-proxy's behaviour: spec 3.1).
import type { VipBinding } from '../../config/index.js'
import { ConfigError } from '../../errors.js'
import type { Ipset, Ipvs, Links, Routes } from '../../kernel/index.js'
import { setKeys, setSpec } from './compile/sets.js'
import type { IpvsSettings } from './settings.js'
import { inOrder } from '../../host/index.js'
import { hasScheduler, schedulersInUse } from './scheduler-probe.js'
import { checkSetTypes } from './set-types.js'
import { dummyAdvice, ensureDummyDevice } from './vip-place.js'

/** Interfaces of the kernel for virtual servers and VIPs. Both families share them; calls queue inside. */
export interface IpvsKernel {
  readonly ipvs: Ipvs
  readonly routes: Routes
  readonly links: Links
}

export interface PrepareOptions {
  readonly kernel: IpvsKernel & { readonly ipset: Ipset }
  readonly scheduler: string
  readonly vipBinding: VipBinding
  readonly settings: IpvsSettings
  /** The settings of connection tracking, on their way. */
  readonly conntrack: Promise<void>
}

/** Throws what `conntrack` throws, ConfigError where an operator's setting cannot work on this kernel, KernelError where the kernel has no IPVS. */
export async function prepareKernel(options: PrepareOptions): Promise<void> {
  const { kernel, scheduler, vipBinding, settings, conntrack } = options
  await inOrder([
    conntrack,
    checkScheduler(kernel.ipvs, scheduler),
    checkSetTypes(kernel.ipset, setKeys.map(setSpec)),
  ])
  // Only then: it stays, and a node where the mode cannot run has no use for it.
  const dummy = await ensureDummyDevice(kernel.links)
  if (typeof dummy === 'string' && vipBinding === 'addresses')
    throw new ConfigError('vip-binding', dummyAdvice(dummy, vipBinding))
  await settings.ensure()
}

/** A scheduler that a virtual server uses works; another one is tried. */
async function checkScheduler(ipvs: Ipvs, scheduler: string): Promise<void> {
  for (const family of ['ipv4', 'ipv6'] as const)
    if ((await schedulersInUse(ipvs, family)).has(scheduler)) return
  if (await hasScheduler(ipvs, 'ipv4', scheduler)) return
  throw new ConfigError(
    'ipvs-scheduler',
    `this kernel has no scheduler "${scheduler}": load the module ip_vs_${scheduler}, or choose another such as rr`,
  )
}

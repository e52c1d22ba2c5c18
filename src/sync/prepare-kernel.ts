// What the kernel must be able to do, and be set to, before the first sync (kube-proxy's behaviour: spec 3.1).
import { type IpAddress, parseIpAddress } from '../address.js'
import type { VipBinding } from '../config/index.js'
import { BugError, ConfigError, KernelError, isExists } from '../errors.js'
import {
  type AddressVirtualServerKey,
  type Ipvs,
  type Links,
  type Routes,
  type Sysctl,
  VirtualServerCursor,
} from '../kernel/index.js'
import type { Log } from '../log.js'
import { dummyAdvice, ensureDummyDevice } from './vip-place.js'

/** The kernel's doors, shared by both families: calls are queued inside. */
export interface KernelDoors {
  readonly ipvs: Ipvs
  readonly routes: Routes
  readonly links: Links
}

export interface PrepareOptions {
  readonly kernel: KernelDoors & { readonly sysctl: Sysctl }
  readonly scheduler: string
  readonly vipBinding: VipBinding
  readonly log: Log
}

/** Throws ConfigError where an operator's setting cannot work on this kernel, KernelError where the kernel has no IPVS. */
export async function prepareKernel({ kernel, scheduler, vipBinding, log }: PrepareOptions): Promise<void> {
  await probeScheduler(kernel.ipvs, scheduler)
  await writeSysctls(kernel.sysctl, log)
  const dummy = await ensureDummyDevice(kernel.links)
  if (typeof dummy === 'string' && vipBinding === 'addresses')
    throw new ConfigError('vip-binding', dummyAdvice(dummy, vipBinding))
}

/** TEST-NET-2, as kube-proxy probes: no Service can have it. */
function probeServer(): AddressVirtualServerKey {
  const address: IpAddress | undefined = parseIpAddress('198.51.100.0')
  if (address === undefined) throw new BugError('the probe address does not parse')
  return { family: 'ipv4', protocol: 'tcp', address, port: 20000 }
}

/** A scheduler that a virtual server uses works; otherwise one is added and removed again. */
async function probeScheduler(ipvs: Ipvs, scheduler: string): Promise<void> {
  for (const family of ['ipv4', 'ipv6'] as const) {
    const servers = new VirtualServerCursor((await ipvs.dump(family)).virtualServers)
    for (let index = 0; index < servers.length; index++) if (servers.scheduler(index) === scheduler) return
  }
  const key = probeServer()
  const server = { key, settings: { scheduler, flags: 0, timeoutSeconds: 0, netmaskLength: 32 } }
  const added = (await ipvs.apply([{ op: 'add-virtual-server', server }])).failures[0]?.error
  // A probe that died left its server behind.
  const isLeftover = added !== undefined && isExists(added)
  const error = isLeftover
    ? (await ipvs.apply([{ op: 'set-virtual-server', server }])).failures[0]?.error
    : added
  if (error === undefined || isLeftover) await ipvs.apply([{ op: 'remove-virtual-server', server: key }])
  if (error === undefined) return
  if (error.code !== 'ENOENT') throw error
  throw new ConfigError(
    'ipvs-scheduler',
    `this kernel has no scheduler "${scheduler}": load the module ip_vs_${scheduler}, or choose another such as rr`,
  )
}

interface Setting {
  readonly path: string
  readonly value: string
  /** Only for kernels before this release: major, minor. */
  readonly before?: readonly [number, number]
}

const settings: readonly Setting[] = [
  { path: 'net/ipv4/vs/conntrack', value: '1' },
  { path: 'net/ipv4/vs/expire_nodest_conn', value: '1' },
  { path: 'net/ipv4/vs/expire_quiescent_template', value: '1' },
  { path: 'net/ipv4/ip_forward', value: '1' },
  // Before Linux 5.9 a client port that came back waited a second for a new connection unless this was 0 (kubernetes
  // issue 81775); from 5.9 on the kernel does it right, and 0 would do harm. The setting itself looks the same in both.
  { path: 'net/ipv4/vs/conn_reuse_mode', value: '0', before: [5, 9] },
]

/** Writes what differs. What cannot be written is told, and does not stop the agent: the node may be set up by others. */
async function writeSysctls(sysctl: Sysctl, log: Log): Promise<void> {
  for (const setting of settings) {
    const { path, value, before } = setting
    try {
      await writeSysctl(sysctl, setting, log)
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      const release = before === undefined ? '' : ` before Linux ${before.join('.')}`
      log.error(`Kernel setting ${path} should be ${value}${release}; set it on the node`, {
        setting: path,
        err: error,
      })
    }
  }
}

async function writeSysctl(sysctl: Sysctl, { path, value, before }: Setting, log: Log): Promise<void> {
  if (before !== undefined && !(await isOlder(sysctl, before))) return
  const present = await sysctl.read(path)
  if (present === value) return
  await sysctl.write(path, value)
  log.info('Kernel setting changed', { setting: path, from: present, to: value })
}

async function isOlder(sysctl: Sysctl, [major, minor]: readonly [number, number]): Promise<boolean> {
  const release = ((await sysctl.read('kernel/osrelease')) ?? '').split('.')
  const [ownMajor = 0, ownMinor = 0] = release.map((part) => parseInt(part, 10))
  return ownMajor < major || (ownMajor === major && ownMinor < minor)
}

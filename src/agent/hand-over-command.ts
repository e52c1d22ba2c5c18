// `viaduct hand-over`: keeps Services reachable while kube-proxy takes the node back.
import { readFile } from 'node:fs/promises'
import type { IpAddress, IpFamily } from '../address.js'
import { parseHandOverArguments } from '../cli/index.js'
import type { Clock } from '../clock.js'
import { KernelError } from '../errors.js'
import { logFamily } from '../engine/index.js'
import { type Kernel, listedServerAddress, openKernel } from '../kernel/index.js'
import {
  copyTable,
  deleteCopy,
  handOverTable,
  isWithoutOwnedTables,
  tableName,
} from '../layers/nft-table/index.js'
import { adviceOn } from './advice.js'

export interface HandOverIo {
  /** As `PlanIo.out`. */
  readonly out: (text: string) => Promise<void>
  readonly err: (text: string) => void
  /** The addon's file; undefined: beside the program. */
  readonly addonPath: string | undefined
  readonly clock: Pick<Clock, 'now' | 'schedule'>
  /** The text of /proc/net/ip_vs; absent: it is read. */
  readonly virtualServers?: () => Promise<string>
}

const families = ['ipv4', 'ipv6'] as const
const lookEveryMs = 1000

/** Chains that kube-proxy has for each Service with endpoints in iptables mode. Viaduct has none in the tables of nf_tables. */
const serviceChain = /^KUBE-(?:SVC|SVL|EXT)-/u

/** Runs the command. Resolves with the exit code: 0; 1: kube-proxy did not come, or the table cannot be copied; 2: wrong arguments. */
export async function runHandOver(words: readonly string[], io: HandOverIo): Promise<number> {
  const own = parseHandOverArguments(words)
  if ('problem' in own) {
    io.err(`viaduct: ${own.problem} (see viaduct help hand-over)\n`)
    return 2
  }
  const kernel = openKernel({ addonPath: io.addonPath })
  try {
    return await handOver(kernel, own.timeoutMs, io)
  } catch (error) {
    io.err(`viaduct: ${adviceOnHandOver(error)}\n`)
    return 1
  } finally {
    // The kernel deletes the copies with the socket.
    await kernel.close()
  }
}

/** The tables that are copied and looked at. */
type Tables = Pick<Kernel, 'nftables' | 'nftChains' | 'activeTables' | 'xtables'>

/** The cluster IPs of each family whose table is copied. */
type ClusterIPs = Map<IpFamily, ReadonlySet<IpAddress>>

/** Resolves with the exit code of the command. Throws KernelError. */
export async function handOver(
  kernel: Tables,
  timeoutMs: number,
  io: Pick<HandOverIo, 'out' | 'err' | 'clock' | 'virtualServers'>,
): Promise<number> {
  const say = async (text: string): Promise<void> => await io.out(`viaduct: ${text}\n`)
  const copied: ClusterIPs = new Map()
  for (const family of families) {
    const clusterIPs = await copyTable(kernel.nftables, family)
    if (clusterIPs.length > 0) copied.set(family, new Set(clusterIPs))
  }
  if (copied.size === 0) {
    await say(
      `nothing to hand over: nf_tables has no table ${tableName} of Viaduct with Services; iptables mode in the flavour legacy and ipvs mode have none`,
    )
    return 0
  }
  const counts = [...copied].map(([family, { size }]) => `${size} cluster IPs in ${logFamily(family)}`)
  await say(
    `the table ${handOverTable} keeps Services reachable (${counts.join(', ')}); stop the agent, then start kube-proxy`,
  )
  const missing = await waitForKubeProxy(kernel, copied, timeoutMs, io)
  for (const family of copied.keys()) await deleteCopy(kernel.nftables, family)
  if (missing.length === 0) {
    await say(`kube-proxy has written its rules; the table ${handOverTable} is deleted`)
    return 0
  }
  io.err(
    `viaduct: no rules of kube-proxy in ${missing.map(logFamily).join(' and ')} after ${timeoutMs / 1000} s; the table ${handOverTable} is deleted\n`,
  )
  return 1
}

/** Resolves with the families in which kube-proxy has not written its rules in time. They are complete when two looks find as many. */
async function waitForKubeProxy(
  kernel: Tables,
  clusterIPs: ClusterIPs,
  timeoutMs: number,
  { clock, virtualServers = readVirtualServers }: Pick<HandOverIo, 'clock' | 'virtualServers'>,
): Promise<readonly IpFamily[]> {
  const endMs = clock.now() + timeoutMs
  const found = new Map<IpFamily, number>()
  let missing: readonly IpFamily[] = [...clusterIPs.keys()]
  while (missing.length > 0 && clock.now() < endMs) {
    await new Promise<void>((resolve) => clock.schedule(Math.min(lookEveryMs, endMs - clock.now()), resolve))
    const left: IpFamily[] = []
    for (const family of missing) {
      const servers = serversTo(clusterIPs.get(family), await virtualServers())
      const count = (await countChains(kernel, family)) + servers
      if (count === 0 || count !== found.get(family)) left.push(family)
      found.set(family, count)
    }
    missing = left
  }
  return missing
}

/** How many chains of single Services kube-proxy has, in its own table, and in iptables mode in any flavour. */
async function countChains(kernel: Tables, family: IpFamily): Promise<number> {
  const nft = await kernel.nftChains.list(family)
  // In its own table, kube-proxy names chains `service-HASH-namespace/name/...`; Viaduct's names have no slash.
  const inNft = nft.filter(({ table, chain }) =>
    table === tableName ? chain.includes('/') : table === 'nat' && serviceChain.test(chain),
  )
  return inNft.length + (await countLegacy(kernel, family))
}

async function countLegacy(kernel: Tables, family: IpFamily): Promise<number> {
  // A request for a table that does not exist would create it.
  if (!(await kernel.activeTables(family, 'legacy')).includes('nat')) return 0
  const chains = await kernel.xtables(family, 'nat', 'legacy').chains()
  return chains.filter(({ chain }) => serviceChain.test(chain)).length
}

/** Read from a file, because a request would load the module. */
async function readVirtualServers(): Promise<string> {
  return await readFile('/proc/net/ip_vs', 'utf8').catch(() => '')
}

/** How many virtual servers in the text have one of these addresses. Other programs have virtual servers of other addresses. */
function serversTo(clusterIPs: ReadonlySet<IpAddress> | undefined, text: string): number {
  const addresses = text.split('\n').map(listedServerAddress)
  return addresses.filter((address) => address !== undefined && clusterIPs?.has(address) === true).length
}

/** One sentence about an error that ends the command: the problem and, where there is one, its remedy. */
export function adviceOnHandOver(error: unknown): string {
  if (!(error instanceof KernelError)) return adviceOn(error)
  if (isWithoutOwnedTables(error))
    return `this kernel has no tables that end with their owner, which Linux has since 5.13: ${error.message}`
  return ['EEXIST', 'EPERM'].includes(error.code)
    ? `another viaduct hand-over runs on this node, or this process is not root: ${error.message}`
    : adviceOn(error)
}

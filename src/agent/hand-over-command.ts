// `viaduct hand-over`: keeps Services reachable while kube-proxy takes the node back.
import { readFile } from 'node:fs/promises'
import type { IpFamily } from '../address.js'
import { parseHandOverArguments } from '../cli/index.js'
import type { Clock } from '../clock.js'
import { KernelError } from '../errors.js'
import { logFamily } from '../engine/index.js'
import { type Kernel, openKernel } from '../kernel/index.js'
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

async function handOver(kernel: Kernel, timeoutMs: number, io: HandOverIo): Promise<number> {
  const say = async (text: string): Promise<void> => await io.out(`viaduct: ${text}\n`)
  const copied: IpFamily[] = []
  const counts: string[] = []
  for (const family of families) {
    const clusterIPs = await copyTable(kernel.nftables, family)
    if (clusterIPs === 0) continue
    copied.push(family)
    counts.push(`${clusterIPs} cluster IPs in ${logFamily(family)}`)
  }
  if (copied.length === 0) {
    await say(
      `nothing to hand over: nf_tables has no table ${tableName} of Viaduct with Services; iptables mode in the flavour legacy and ipvs mode have none`,
    )
    return 0
  }
  await say(
    `the table ${handOverTable} keeps Services reachable (${counts.join(', ')}); stop the agent, then start kube-proxy`,
  )
  const missing = await waitForKubeProxy(kernel, copied, timeoutMs, io)
  for (const family of copied) await deleteCopy(kernel.nftables, family)
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
  kernel: Kernel,
  awaited: readonly IpFamily[],
  timeoutMs: number,
  { clock }: HandOverIo,
): Promise<readonly IpFamily[]> {
  const endMs = clock.now() + timeoutMs
  const found = new Map<IpFamily, number>()
  let missing = awaited
  while (missing.length > 0 && clock.now() < endMs) {
    await new Promise<void>((resolve) => clock.schedule(Math.min(lookEveryMs, endMs - clock.now()), resolve))
    const left: IpFamily[] = []
    for (const family of missing) {
      const count = await countObjects(kernel, family)
      if (count === 0 || count !== found.get(family)) left.push(family)
      found.set(family, count)
    }
    missing = left
  }
  return missing
}

/** How many objects of single Services kube-proxy has in any mode and flavour. */
async function countObjects(kernel: Kernel, family: IpFamily): Promise<number> {
  const nft = await kernel.nftChains.list(family)
  // In its own table, kube-proxy names chains `service-HASH-namespace/name/...`; Viaduct's names have no slash.
  const inNft = nft.filter(({ table, chain }) =>
    table === tableName ? chain.includes('/') : table === 'nat' && serviceChain.test(chain),
  )
  return inNft.length + (await countLegacy(kernel, family)) + (await countVirtualServers(family))
}

async function countLegacy(kernel: Kernel, family: IpFamily): Promise<number> {
  // A request for a table that does not exist would create it.
  if (!(await kernel.activeTables(family, 'legacy')).includes('nat')) return 0
  const chains = await kernel.xtables(family, 'nat', 'legacy').chains()
  return chains.filter(({ chain }) => serviceChain.test(chain)).length
}

/** Read from a file, because a request would load the module. An IPv6 address is in brackets. */
async function countVirtualServers(family: IpFamily): Promise<number> {
  const text = await readFile('/proc/net/ip_vs', 'utf8').catch(() => '')
  const line = family === 'ipv4' ? /^(?:TCP|UDP|SCTP) +[0-9A-F]{8}:/u : /^(?:TCP|UDP|SCTP) +\[/u
  return text.split('\n').filter((each) => line.test(each)).length
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

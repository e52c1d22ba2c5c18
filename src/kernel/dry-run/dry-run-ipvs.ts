import { constants } from 'node:os'
import type { Ipvs, IpvsDump, IpvsOp } from '../ipvs/ipvs.js'
import { describeIpvsOp, familyOfIpvsOp } from '../ipvs/servers.js'
import { takeBatch, withMembers } from './take-batch.js'
import type { TakeTransaction } from './transaction.js'

export interface DryRunIpvsOptions {
  /** False: IPVS is not loaded, and has no virtual servers. */
  readonly isLoaded: boolean
  /** False: the kernel lacks the scheduler. */
  readonly hasScheduler: (scheduler: string) => boolean
  readonly take: TakeTransaction
}

/** IPVS in a dry run. */
export function dryRunIpvs(real: Ipvs, { isLoaded, hasScheduler, take }: DryRunIpvsOptions): Ipvs {
  const reads = isLoaded ? real : withMembers(real, unloaded)
  // As ip_vs_add_service().
  const answer = (op: IpvsOp): number =>
    'key' in op.server && !hasScheduler(op.server.settings.scheduler) ? constants.errno.ENOENT : 0
  return withMembers(reads, {
    load: async () => void (await reads.info()),
    apply: async (ops) => {
      const words = { subsystem: 'ipvs', describe: describeIpvsOp, familyOf: familyOfIpvsOp } as const
      return takeBatch<IpvsOp>(ops, words, answer, (taken) => take({ part: 'ipvs', ops: taken }))
    },
    setTimeouts: async (timeouts) => take({ part: 'ipvs-timeouts', timeouts }),
  })
}

const empty = async (): Promise<IpvsDump> => ({
  virtualServers: new Uint8Array(0),
  realServers: new Uint8Array(0),
  virtualServerCounters: new Uint8Array(0),
  realServerCounters: new Uint8Array(0),
})

const unloaded: Partial<Ipvs> = {
  dump: empty,
  read: empty,
  info: async () => ({ version: 0x010201, connectionTableSize: 4096, ipv4VirtualServers: 0 }),
  // The defaults of ip_vs_proto_tcp.c and ip_vs_proto_udp.c.
  timeouts: async () => ({ tcpSeconds: 900, tcpFinSeconds: 120, udpSeconds: 300 }),
}

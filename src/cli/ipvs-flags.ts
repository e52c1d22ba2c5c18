// Flags of ipvs mode.
import { bits, parseDuration, parseLimit, type ConfigInput } from '../config/index.js'
import type { Flag } from './flag.js'
import { parseBoolean, splitList } from './values.js'

type IpvsInput = NonNullable<ConfigInput['ipvs']>

export const ipvsFlags: readonly Flag[] = [
  {
    name: 'ipvs-scheduler',
    value: 'NAME',
    field: 'ipvs.scheduler',
    help: 'scheduler of every virtual server, any that the kernel has (default rr)',
    take: (input, text) => withIpvs(input, { scheduler: text }),
  },
  {
    name: 'ipvs-scheduler-flags',
    value: 'FLAGS',
    field: 'ipvs.schedulerFlags',
    help: 'its flags, separated by commas: sh-fallback, sh-port, mh-fallback, mh-port, or none (default mh-port for mh)',
    isBesideConfig: true,
    take: (input, text) => withIpvs(input, { schedulerFlags: splitList(text) }),
  },
  {
    name: 'ipvs-sync-period',
    value: 'DURATION',
    field: 'ipvs.syncPeriod',
    help: 'how often the kernel is compared with what it should hold (default 30s)',
    take: (input, text) => withIpvs(input, { syncPeriodMs: parseDuration('ipvs.syncPeriod', text) }),
  },
  {
    name: 'ipvs-min-sync-period',
    value: 'DURATION',
    field: 'ipvs.minSyncPeriod',
    help: 'shortest time between two syncs (default 0: at once when idle)',
    take: (input, text) => withIpvs(input, { minSyncPeriodMs: parseDuration('ipvs.minSyncPeriod', text) }),
  },
  {
    name: 'ipvs-exclude-cidrs',
    isAdded: true,
    value: 'CIDRS',
    field: 'ipvs.excludeCIDRs',
    help: 'networks, separated by commas, whose virtual servers are never removed; may be repeated',
    take: (input, text) =>
      withIpvs(input, { excludeCIDRs: [...(input.ipvs?.excludeCIDRs ?? []), ...splitList(text)] }),
  },
  {
    name: 'ipvs-strict-arp',
    value: undefined,
    field: 'ipvs.strictARP',
    help: 'answer ARP only on the interface that has the address: arp_ignore 1 and arp_announce 2',
    take: (input, text) => withIpvs(input, { strictARP: parseBoolean('ipvs.strictARP', text) }),
  },
  {
    name: 'ipvs-tcp-timeout',
    value: 'DURATION',
    field: 'ipvs.tcpTimeout',
    help: 'how long IPVS remembers an idle TCP connection; 0: as it is (default 0)',
    take: (input, text) => withIpvs(input, { tcpTimeoutMs: parseDuration('ipvs.tcpTimeout', text) }),
  },
  {
    name: 'ipvs-tcpfin-timeout',
    value: 'DURATION',
    field: 'ipvs.tcpFinTimeout',
    help: 'the same for one that got a FIN; 0: as it is (default 0)',
    take: (input, text) => withIpvs(input, { tcpFinTimeoutMs: parseDuration('ipvs.tcpFinTimeout', text) }),
  },
  {
    name: 'ipvs-udp-timeout',
    value: 'DURATION',
    field: 'ipvs.udpTimeout',
    help: 'the same for an idle UDP flow; 0: as it is (default 0)',
    take: (input, text) => withIpvs(input, { udpTimeoutMs: parseDuration('ipvs.udpTimeout', text) }),
  },
  {
    name: 'ipvs-graceful-period',
    value: 'DURATION',
    field: 'ipvs.gracefulPeriod',
    help: 'how long a backend that gets no new connections may keep those that it has; 0: not at all; infinity: until they end (default infinity)',
    isBesideConfig: true,
    take: (input, text) => withIpvs(input, { gracefulPeriodMs: parseLimit('ipvs.gracefulPeriod', text) }),
  },
  {
    name: 'ipvs-run-estimation',
    value: undefined,
    field: 'ipvs.runEstimation',
    help: 'whether the kernel keeps rates of every virtual and real server, where it can do without (default: as it is)',
    isBesideConfig: true,
    take: (input, text) => withIpvs(input, { runEstimation: parseBoolean('ipvs.runEstimation', text) }),
  },
  {
    name: 'ipvs-mark-mask',
    value: 'BITS',
    field: 'ipvs.markMask',
    help: 'bits of the packet mark that firewall marks of virtual servers are made of (default 0x107f)',
    isBesideConfig: true,
    take: (input, text) => withIpvs(input, { markMask: bits.read('ipvs.markMask', text) }),
  },
]

function withIpvs(input: ConfigInput, changes: IpvsInput): ConfigInput {
  return { ...input, ipvs: { ...input.ipvs, ...changes } }
}

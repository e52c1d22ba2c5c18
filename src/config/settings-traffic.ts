// The table of settings, second part: how services are programmed.
import { formatCidr } from '../address.js'
import { ConfigError } from '../errors.js'
import { parseDuration } from './duration.js'
import { kernelTimeout, notNegative, oneOf, period, shortestPeriod, within } from './checks.js'
import {
  bridgeInterface,
  clusterCIDR,
  detectLocalMode,
  interfaceNamePrefix,
  networksOf,
  nodePortAddresses,
  writtenNodePortAddresses,
} from './local-traffic.js'
import { requireScheduler, requireSchedulerFlags } from './schedulers.js'
import { inert, type Others, setting, viaductSetting } from './setting.js'
import * as t from './value-types.js'

/** A mode that this build can run. */
export type ProxyMode = 'iptables' | 'ipvs' | 'nftables' | 'userspace'

const knownMode = oneOf<ProxyMode>('iptables', 'ipvs', 'nftables', 'userspace')

// The mode of a blank `mode`, in each release of Viaduct; undefined: kube-proxy's default.
const defaultMode = viaductSetting('defaultMode', t.text, '', {
  resolve: (text, field): ProxyMode | undefined => (text === '' ? undefined : knownMode(text, field)),
  show: (value) => value ?? '',
})
const mode = setting('mode', t.text, '', {
  flag: 'proxy-mode',
  metavar: 'MODE',
  help: 'how Services are programmed: iptables, ipvs, nftables or userspace (blank: iptables)',
  resolve: (text, field, others) =>
    text === '' ? (others.valueOf(defaultMode) ?? 'iptables') : knownMode(text, field),
})

/** Whether a later release may run another mode with this configuration. A written file names the mode. */
export function isModeUnset(others: Others): boolean {
  return others.inputOf(mode) === '' && others.valueOf(defaultMode) === undefined
}

// The flags for iptables mode set the masqueradeAll and the periods of this mode too, as in kube-proxy. The bit has no flag.
const nftablesMasqueradeAll = setting('nftables.masqueradeAll', t.boolean, false)
const nftablesSyncPeriod = setting('nftables.syncPeriodMs', t.duration, 30_000, {
  field: 'nftables.syncPeriod',
  isZeroDefault: 'in files',
  resolve: period,
})
const nftablesMinSyncPeriod = setting('nftables.minSyncPeriodMs', t.duration, 0, {
  field: 'nftables.minSyncPeriod',
  resolve: (ms, field, others) => shortestPeriod(ms, field, others.valueOf(nftablesSyncPeriod)),
})

const nftables = [
  setting('nftables.masqueradeBit', t.wholeNumber, 14, { resolve: within(0, 31) }),
  nftablesMasqueradeAll,
  nftablesSyncPeriod,
  nftablesMinSyncPeriod,
] as const

const masqueradeBit = setting('iptables.masqueradeBit', t.wholeNumber, 14, {
  flag: 'iptables-masquerade-bit',
  metavar: 'BIT',
  help: 'bit of the packet mark that requests masquerading, in iptables and ipvs mode: 0 to 31',
  resolve: within(0, 31),
})
const iptablesSyncPeriod = setting('iptables.syncPeriodMs', t.duration, 30_000, {
  field: 'iptables.syncPeriod',
  flag: 'iptables-sync-period',
  flagAlsoSets: [nftablesSyncPeriod],
  help: 'time from a write to a full comparison of the tables with the desired state; up to 10 times that at rest; in nftables mode too',
  isZeroDefault: 'in files',
  resolve: period,
})

const localhostNodePorts = viaductSetting('localhostNodePorts', t.boolean, false, {})

const iptables = [
  masqueradeBit,
  setting('iptables.masqueradeAll', t.boolean, false, {
    flag: 'masquerade-all',
    flagAlsoSets: [nftablesMasqueradeAll],
    help: 'masquerade all traffic to cluster IPs',
  }),
  // IPv4 only.
  setting('iptables.localhostNodePorts', t.boolean, true, {
    flag: 'iptables-localhost-nodeports',
    flagAlsoSets: [localhostNodePorts],
    help: 'node ports on 127.0.0.0/8 too; in userspace mode also on ::1; in ipvs and nftables mode, if given, on 127.0.0.1 and ::1',
  }),
  // For ipvs and nftables mode. kube-proxy's field is true by default, so it cannot say that an operator wants it there.
  localhostNodePorts,
  iptablesSyncPeriod,
  setting('iptables.minSyncPeriodMs', t.duration, 0, {
    field: 'iptables.minSyncPeriod',
    flag: 'iptables-min-sync-period',
    flagAlsoSets: [nftablesMinSyncPeriod],
    help: 'shortest time between two syncs; 0: at once when idle; in nftables mode too',
    resolve: (ms, field, others) => shortestPeriod(ms, field, others.valueOf(iptablesSyncPeriod)),
  }),
] as const

const ipvsSyncPeriod = setting('ipvs.syncPeriodMs', t.duration, 30_000, {
  field: 'ipvs.syncPeriod',
  flag: 'ipvs-sync-period',
  help: 'time between two comparisons of the kernel with the desired state',
  isZeroDefault: 'in files',
  resolve: period,
})
const scheduler = setting('ipvs.scheduler', t.text, '', {
  flag: 'ipvs-scheduler',
  metavar: 'NAME',
  help: 'scheduler of every virtual server that has no annotation: any that the kernel has',
  defaultText: 'rr',
  resolve: requireScheduler,
})

const ipvs = [
  ipvsSyncPeriod,
  setting('ipvs.minSyncPeriodMs', t.duration, 0, {
    field: 'ipvs.minSyncPeriod',
    flag: 'ipvs-min-sync-period',
    help: 'shortest time between two syncs; 0: at once when idle',
    resolve: (ms, field, others) => shortestPeriod(ms, field, others.valueOf(ipvsSyncPeriod)),
  }),
  scheduler,
  setting('ipvs.excludeCIDRs', t.growingList, [], {
    flag: 'ipvs-exclude-cidrs',
    metavar: 'CIDRS',
    help: 'networks, separated by commas, whose virtual servers are never removed; may be repeated',
    resolve: (texts, field) => networksOf(texts, field, 'must be networks such as 10.0.0.0/8 or fd00::/8'),
    show: (networks) => networks.map(formatCidr),
  }),
  setting('ipvs.strictARP', t.boolean, false, {
    flag: 'ipvs-strict-arp',
    help: 'answer ARP only on the interface that has the address: arp_ignore 1 and arp_announce 2',
  }),
  setting('ipvs.tcpTimeoutSeconds', t.seconds, 0, {
    field: 'ipvs.tcpTimeout',
    flag: 'ipvs-tcp-timeout',
    help: "how long IPVS remembers an idle TCP connection; 0: keep the kernel's value",
    resolve: kernelTimeout,
  }),
  setting('ipvs.tcpFinTimeoutSeconds', t.seconds, 0, {
    field: 'ipvs.tcpFinTimeout',
    flag: 'ipvs-tcpfin-timeout',
    help: "the same for a connection with a FIN; 0: keep the kernel's value",
    resolve: kernelTimeout,
  }),
  setting('ipvs.udpTimeoutSeconds', t.seconds, 0, {
    field: 'ipvs.udpTimeout',
    flag: 'ipvs-udp-timeout',
    help: "the same for an idle UDP flow; 0: keep the kernel's value",
    resolve: kernelTimeout,
  }),
  viaductSetting('ipvs.schedulerFlags', t.textList, [], {
    flag: 'ipvs-scheduler-flags',
    metavar: 'FLAGS',
    help: 'flags of --ipvs-scheduler, separated by commas: sh-fallback, sh-port, mh-fallback, mh-port, or none (blank: mh-port for mh)',
    resolve: (names, field, others) => requireSchedulerFlags(others.valueOf(scheduler), names, field),
    show: (flags) => (flags.length === 0 ? ['none'] : flags),
  }),
  // Longest drain of a real server. 0: none; Infinity: until its connections end.
  viaductSetting('ipvs.gracefulPeriodMs', t.limit, Infinity, {
    field: 'ipvs.gracefulPeriod',
    flag: 'ipvs-graceful-period',
    help: 'how long a backend without new connections keeps its old ones; 0: not at all; infinity: until they end',
    resolve: notNegative,
  }),
  // undefined: the kernel's setting stays as it is.
  viaductSetting('ipvs.runEstimation', t.optional(t.boolean), undefined, {
    flag: 'ipvs-run-estimation',
    help: "whether the kernel computes rates of virtual and real servers (blank: the kernel's setting)",
  }),
  // An unsigned 32-bit number without the masquerade bit, not 0.
  viaductSetting('ipvs.markMask', t.optional(t.bits), undefined, {
    flag: 'ipvs-mark-mask',
    help: 'bits of the packet mark for the firewall marks of virtual servers',
    defaultText: '0x107f',
    resolve: (mask, field, others) => markMask(mask, field, others.valueOf(masqueradeBit)),
  }),
] as const

/** Bits that the common users of packet marks do not use (docs/ipvs.md has the table). */
const defaultMarkMask = 0x107f

function markMask(mask: number | undefined, field: string, maskedBit: number): number {
  const masqueradeMark = 2 ** maskedBit
  if (mask === undefined) return (defaultMarkMask & ~masqueradeMark) >>> 0
  if (!(Number.isInteger(mask) && mask >= 1 && mask <= 0xffffffff))
    throw new ConfigError(field, `must have 1 to 32 bits, 0x1 to 0xffffffff, not ${mask}`)
  if ((mask & masqueradeMark) === 0) return mask
  const problem = `must not contain 0x${masqueradeMark.toString(16)}, which asks for masquerading (iptables.masqueradeBit ${maskedBit})`
  throw new ConfigError(field, problem)
}

const windows = [
  inert(setting('winkernel.networkName', t.text, '')),
  inert(setting('winkernel.sourceVip', t.text, '')),
  inert(setting('winkernel.enableDSR', t.boolean, false)),
  inert(setting('winkernel.rootHnsEndpointName', t.text, '')),
  inert(setting('winkernel.forwardHealthCheckVip', t.boolean, false)),
  inert(setting('windowsRunAsService', t.boolean, false)),
] as const

const localMode = setting('detectLocalMode', t.text, '', {
  flag: 'detect-local-mode',
  metavar: 'MODE',
  help: 'how to recognize traffic of pods: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix (blank: ClusterCIDR)',
  resolve: detectLocalMode,
})

const localTraffic = [
  localMode,
  setting('detectLocal.bridgeInterface', t.text, '', {
    flag: 'pod-bridge-interface',
    metavar: 'NAME',
    help: "the pods' bridge, for mode BridgeInterface",
    resolve: (name, field, others) => bridgeInterface(name, field, others.valueOf(localMode)),
  }),
  setting('detectLocal.interfaceNamePrefix', t.text, '', {
    flag: 'pod-interface-name-prefix',
    metavar: 'PREFIX',
    help: "prefix of the names of the pods' interfaces, for mode InterfaceNamePrefix",
    resolve: (prefix, field, others) => interfaceNamePrefix(prefix, field, others.valueOf(localMode)),
  }),
  setting('clusterCIDR', t.commaList, [], {
    flag: 'cluster-cidr',
    metavar: 'CIDRS',
    help: "the pods' network, or one of each family separated by a comma",
    resolve: (texts, field, others) => clusterCIDR(texts, field, others.valueOf(localMode)),
    show: (networks) => networks.map(formatCidr),
  }),
  setting('nodePortAddresses', t.growingList, [], {
    flag: 'nodeport-addresses',
    metavar: 'CIDRS',
    help: 'networks and keywords, separated by commas, whose local addresses serve node ports; primary: the node IPs, localhost: 127.0.0.0/8 and ::1/128, all: 0.0.0.0/0 and ::/0 (blank: all, in nftables mode primary); may be repeated',
    resolve: (texts, field, others) => nodePortAddresses(texts, field, others.valueOf(mode)),
    show: writtenNodePortAddresses,
  }),
] as const

function positiveDuration(text: string, field: string): string {
  if (parseDuration(field, text) > 0) return text
  throw new ConfigError(field, 'must be greater than 0')
}

const conntrack = [
  setting('conntrack.maxPerCore', t.wholeNumber, 32_768, {
    flag: 'conntrack-max-per-core',
    help: 'limit of tracked connections per CPU, at most 1048576 in total; a larger limit of the node stays; 0: keep the limit',
    resolve: notNegative,
  }),
  setting('conntrack.min', t.wholeNumber, 131_072, {
    flag: 'conntrack-min',
    help: 'lower bound of that limit, for any number of CPUs, unless --conntrack-max-per-core is 0',
    resolve: notNegative,
  }),
  setting('conntrack.tcpEstablishedTimeoutMs', t.duration, 86_400_000, {
    field: 'conntrack.tcpEstablishedTimeout',
    flag: 'conntrack-tcp-timeout-established',
    help: "how long conntrack remembers an idle TCP connection; 0: keep the kernel's value",
    resolve: notNegative,
  }),
  setting('conntrack.tcpCloseWaitTimeoutMs', t.duration, 3_600_000, {
    field: 'conntrack.tcpCloseWaitTimeout',
    flag: 'conntrack-tcp-timeout-close-wait',
    help: "the same for one that the other side has closed; 0: keep the kernel's value",
    resolve: notNegative,
  }),
  setting('conntrack.tcpBeLiberal', t.boolean, false, {
    flag: 'conntrack-tcp-be-liberal',
    help: "accept packets outside of their connection's window; false: keep the kernel's value",
  }),
  setting('conntrack.udpTimeoutMs', t.duration, 0, {
    field: 'conntrack.udpTimeout',
    flag: 'conntrack-udp-timeout',
    help: "how long conntrack remembers a UDP flow without an answer; 0: keep the kernel's value",
    resolve: notNegative,
  }),
  setting('conntrack.udpStreamTimeoutMs', t.duration, 0, {
    field: 'conntrack.udpStreamTimeout',
    flag: 'conntrack-udp-timeout-stream',
    help: "the same for a flow with answers; 0: keep the kernel's value",
    resolve: notNegative,
  }),
] as const

export const trafficSettings = [
  mode,
  defaultMode,
  ...iptables,
  ...ipvs,
  ...nftables,
  ...windows,
  ...localTraffic,
  setting('oomScoreAdj', t.signedNumber, -999, {
    flag: 'oom-score-adj',
    help: 'how readily the kernel kills the agent when memory is short: -1000 (never) to 1000',
    resolve: within(-1000, 1000),
  }),
  ...conntrack,
  inert(
    setting('configSyncPeriod', t.durationText, '15m0s', {
      flag: 'config-sync-period',
      help: 'no effect: Viaduct applies changes when they come',
      isZeroDefault: 'in files',
      resolve: positiveDuration,
    }),
  ),
  // kube-proxy has the field and the flag up to 1.25. A file has it only for another value than the default.
  setting('udpIdleMs', t.duration, 250, {
    field: 'udpIdleTimeout',
    flag: 'udp-timeout',
    help: 'how long userspace mode keeps an idle UDP flow',
    isZeroDefault: 'in files',
    resolve: period,
    show: (ms) => (ms === 250 ? undefined : ms),
  }),
  // Listeners are on the addresses and ports of Services themselves.
  inert(
    setting('portRange', t.text, '', {
      flag: 'proxy-port-range',
      metavar: 'RANGE',
      help: 'no effect: Viaduct listens on no ports of its own',
    }),
  ),
] as const

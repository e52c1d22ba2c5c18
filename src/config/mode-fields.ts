// Fields of a KubeProxyConfiguration that are of one mode, or of connection tracking.
import { formatCidr } from '../address.js'
import type { ConfigInput } from './config.js'
import type { ConntrackConfig, ConntrackInput } from './conntrack.js'
import * as f from './field.js'
import type { Field } from './field.js'
import type { IpvsInput } from './ipvs.js'

type IptablesInput = NonNullable<ConfigInput['iptables']>

/** A minimum of zero is what this agent does when nothing is written. */
export function iptablesFields(): readonly Field[] {
  return [
    f.field('iptables.masqueradeBit', f.wholeNumber, {
      take: (input, masqueradeBit) => withIptables(input, { masqueradeBit }),
      show: ({ iptables }) => iptables.masqueradeBit,
    }),
    f.field('iptables.masqueradeAll', f.boolean, {
      take: (input, masqueradeAll) => withIptables(input, { masqueradeAll }),
      show: ({ iptables }) => iptables.masqueradeAll,
    }),
    f.field('iptables.localhostNodePorts', f.boolean, {
      take: (input, localhostNodePorts) => withIptables(input, { localhostNodePorts }),
      show: ({ iptables }) => iptables.localhostNodePorts,
    }),
    f.defaultedField('iptables.syncPeriod', f.duration, {
      take: (input, syncPeriodMs) => withIptables(input, { syncPeriodMs }),
      show: ({ iptables }) => iptables.syncPeriodMs,
    }),
    f.field('iptables.minSyncPeriod', f.duration, {
      take: (input, minSyncPeriodMs) => withIptables(input, { minSyncPeriodMs }),
      show: ({ iptables }) => iptables.minSyncPeriodMs,
    }),
  ]
}

export function ipvsFields(): readonly Field[] {
  return [
    f.defaultedField('ipvs.syncPeriod', f.duration, {
      take: (input, syncPeriodMs) => withIpvs(input, { syncPeriodMs }),
      show: ({ ipvs }) => ipvs.syncPeriodMs,
    }),
    f.field('ipvs.minSyncPeriod', f.duration, {
      take: (input, minSyncPeriodMs) => withIpvs(input, { minSyncPeriodMs }),
      show: ({ ipvs }) => ipvs.minSyncPeriodMs,
    }),
    f.field('ipvs.scheduler', f.text, {
      take: (input, scheduler) => withIpvs(input, { scheduler }),
      show: ({ ipvs }) => ipvs.scheduler,
    }),
    f.field('ipvs.excludeCIDRs', f.textList, {
      take: (input, excludeCIDRs) => withIpvs(input, { excludeCIDRs }),
      show: ({ ipvs }) => ipvs.excludeCIDRs.map(formatCidr),
    }),
    f.field('ipvs.strictARP', f.boolean, {
      take: (input, strictARP) => withIpvs(input, { strictARP }),
      show: ({ ipvs }) => ipvs.strictARP,
    }),
    f.field('ipvs.tcpTimeout', f.duration, {
      take: (input, tcpTimeoutMs) => withIpvs(input, { tcpTimeoutMs }),
      show: ({ ipvs }) => ipvs.tcpTimeoutSeconds * 1000,
    }),
    f.field('ipvs.tcpFinTimeout', f.duration, {
      take: (input, tcpFinTimeoutMs) => withIpvs(input, { tcpFinTimeoutMs }),
      show: ({ ipvs }) => ipvs.tcpFinTimeoutSeconds * 1000,
    }),
    f.field('ipvs.udpTimeout', f.duration, {
      take: (input, udpTimeoutMs) => withIpvs(input, { udpTimeoutMs }),
      show: ({ ipvs }) => ipvs.udpTimeoutSeconds * 1000,
    }),
  ]
}

export function conntrackFields(): readonly Field[] {
  return [
    conntrackField('maxPerCore', 'maxPerCore', f.wholeNumber),
    conntrackField('min', 'min', f.wholeNumber),
    conntrackField('tcpEstablishedTimeout', 'tcpEstablishedTimeoutMs', f.duration),
    conntrackField('tcpCloseWaitTimeout', 'tcpCloseWaitTimeoutMs', f.duration),
    conntrackField('tcpBeLiberal', 'tcpBeLiberal', f.boolean),
    conntrackField('udpTimeout', 'udpTimeoutMs', f.duration),
    conntrackField('udpStreamTimeout', 'udpStreamTimeoutMs', f.duration),
  ]
}

function conntrackField<K extends keyof ConntrackConfig>(
  name: string,
  key: K,
  type: f.FieldType<ConntrackConfig[K]>,
): Field {
  const change = (value: ConntrackConfig[K]): ConntrackInput => ({ [key]: value })
  return f.field(`conntrack.${name}`, type, {
    take: (input, value) => ({ ...input, conntrack: { ...input.conntrack, ...change(value) } }),
    show: ({ conntrack }) => conntrack[key],
  })
}

/** Also for Viaduct's own fields of ipvs mode. */
export function withIpvs(input: ConfigInput, changes: IpvsInput): ConfigInput {
  return { ...input, ipvs: { ...input.ipvs, ...changes } }
}

function withIptables(input: ConfigInput, changes: IptablesInput): ConfigInput {
  return { ...input, iptables: { ...input.iptables, ...changes } }
}

// Operations of IPVS in the syntax of ipvsadm(8).
import { formatEndpoint } from '../../address.js'
import {
  describeIpvsOp,
  hostPrefixLength,
  type IpvsOp,
  type RealServer,
  type VirtualServerKey,
  type VirtualServerSettings,
  VirtualServerFlag,
} from '../../kernel/index.js'
import type { KernelOperation } from './operation.js'

const protocolOptions = { tcp: '-t', udp: '-u', sctp: '--sctp-service' } as const
const forwardingOptions = { masquerade: '-m', direct: '-g', tunnel: '-i', local: '-m' } as const
const effects = {
  'add-virtual-server': 'add',
  'set-virtual-server': 'change',
  'remove-virtual-server': 'remove',
  'zero-virtual-server': 'change',
  'add-real-server': 'add',
  'set-real-server': 'change',
  'remove-real-server': 'remove',
} as const satisfies Readonly<Record<IpvsOp['op'], KernelOperation['effect']>>

export function printIpvsOp(op: IpvsOp): KernelOperation {
  return { tool: 'ipvsadm', effect: effects[op.op], object: describeIpvsOp(op), text: printOp(op) }
}

function printOp(op: IpvsOp): string {
  switch (op.op) {
    case 'add-virtual-server':
      return `-A ${printKey(op.server.key)} ${printSettings(op.server.key, op.server.settings)}`
    case 'set-virtual-server':
      return `-E ${printKey(op.server.key)} ${printSettings(op.server.key, op.server.settings)}`
    case 'remove-virtual-server':
      return `-D ${printKey(op.server)}`
    case 'zero-virtual-server':
      return `-Z ${printKey(op.server)}`
    case 'add-real-server':
      return `-a ${printKey(op.server)} ${printReal(op.real)}`
    case 'set-real-server':
      return `-e ${printKey(op.server)} ${printReal(op.real)}`
    case 'remove-real-server':
      return `-d ${printKey(op.server)} -r ${formatEndpoint(op.real.address, op.real.port)}`
  }
}

function printKey(key: VirtualServerKey): string {
  if ('mark' in key) return `-f ${key.mark}${key.family === 'ipv6' ? ' -6' : ''}`
  return `${protocolOptions[key.protocol]} ${formatEndpoint(key.address, key.port)}`
}

function printSettings(key: VirtualServerKey, settings: VirtualServerSettings): string {
  const { scheduler, flags, timeoutSeconds, netmaskLength } = settings
  const schedulerFlags = [
    [VirtualServerFlag.scheduler1, 'flag-1'],
    [VirtualServerFlag.scheduler2, 'flag-2'],
    [VirtualServerFlag.scheduler3, 'flag-3'],
  ] as const
  const named = schedulerFlags.filter(([bit]) => (flags & bit) !== 0).map(([, name]) => name)
  const parts = [
    `-s ${scheduler}`,
    (flags & VirtualServerFlag.persistent) === 0 ? '' : `-p ${timeoutSeconds}`,
    netmaskLength === hostPrefixLength(key.family) ? '' : `-M ${printNetmask(key, netmaskLength)}`,
    (flags & VirtualServerFlag.onePacket) === 0 ? '' : '-o',
    named.length === 0 ? '' : `-b ${named.join(',')}`,
  ]
  return parts.filter((part) => part !== '').join(' ')
}

/** A dotted mask for IPv4, a prefix length for IPv6. */
function printNetmask({ family }: VirtualServerKey, length: number): string {
  if (family === 'ipv6') return `${length}`
  const mask = length === 0 ? 0 : (0xffffffff << (32 - length)) >>> 0
  return [24, 16, 8, 0].map((shift) => (mask >>> shift) & 0xff).join('.')
}

function printReal({ key, settings }: RealServer): string {
  const { weight, forwarding, upperThreshold, lowerThreshold, tunnel } = settings
  const parts = [
    `-r ${formatEndpoint(key.address, key.port)} ${forwardingOptions[forwarding]} -w ${weight}`,
    upperThreshold === 0 ? '' : `-x ${upperThreshold}`,
    lowerThreshold === 0 ? '' : `-y ${lowerThreshold}`,
    tunnel === undefined ? '' : `--tun-type ${tunnel.type} --tun-port ${tunnel.port}`,
  ]
  return parts.filter((part) => part !== '').join(' ')
}

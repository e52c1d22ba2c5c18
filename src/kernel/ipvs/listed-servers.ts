// Lines of /proc/net/ip_vs: the virtual servers of IPVS, without a request, which would load the module.
import { type IpAddress, parseIpAddress } from '../../address.js'
import { octetsOf } from './real-ipvs.js'

/** The address of the virtual server in a line of ip_vs_info_seq_show(); undefined: the line has no such server, or its server has a mark. */
export function listedServerAddress(line: string): IpAddress | undefined {
  const [, ipv4, ipv6 = ''] = /^(?:TCP|UDP|SCTP) +(?:([0-9A-F]{8})|\[([0-9a-f:.]+)\]):/u.exec(line) ?? []
  return parseIpAddress(ipv4 === undefined ? ipv6 : octetsOf(ipv4))
}

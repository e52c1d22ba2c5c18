import { parseIpAddress } from '../address.js'

/**
 * Whether a request with this header Host may get the page: the host is an IP address, `localhost` or the node's name. A web site that
 * lets its own name resolve to this node's address (DNS rebinding) has another host, and its scripts must not read the page.
 */
export function isOwnHost(host: string | undefined, nodeName: string): boolean {
  const parts = /^(?:\[(?<bracketed>[^\]]*)\]|(?<bare>[^:]*))(?::\d{1,5})?$/u.exec(host ?? '')?.groups
  if (parts === undefined) return false
  const { bracketed, bare = '' } = parts
  if (bracketed !== undefined) return parseIpAddress(bracketed) !== undefined
  const name = bare.toLowerCase()
  return name === 'localhost' || name === nodeName.toLowerCase() || parseIpAddress(name) !== undefined
}

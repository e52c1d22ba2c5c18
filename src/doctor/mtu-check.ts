// Tunnels whose packets do not fit into those of the interface below.
import type { Link } from '../kernel/index.js'
import { type Check, type Examined, problemsOr, type Verdict } from './check.js'

/** VXLAN_HEADROOM of net/vxlan.h: the headers of Ethernet, VXLAN, UDP and IPv4. IPv6 needs 20 bytes more. */
const leastHeaders = 50

export const mtuCheck: Check = {
  name: 'mtu',
  looksAt:
    'the MTU of each vxlan interface, and that of the interface below it; no other MTU can be proved wrong',
  run: async (node) => {
    const links = await node.kernel.links.list()
    const found: Verdict[] = []
    for (const tunnel of links)
      if (tunnel.kind === 'vxlan') found.push(...(await tooLarge(node, tunnel, links)))
    return problemsOr(found, 'no vxlan interface has a larger MTU than the interface below it carries')
  },
}

async function tooLarge(node: Examined, { name }: Link, links: readonly Link[]): Promise<readonly Verdict[]> {
  const below = await numberOf(node, name, 'iflink')
  const lower = links.find(({ index }) => index === below)
  if (lower === undefined || lower.name === name) return []
  const [own, carried] = [await numberOf(node, name, 'mtu'), await numberOf(node, lower.name, 'mtu')]
  if (own === undefined || carried === undefined || own <= carried - leastHeaders) return []
  const most = carried - leastHeaders
  return [
    {
      status: 'warning',
      seen: `${name} has MTU ${own}, which is more than the ${most} that ${lower.name} below carries`,
      cause: 'Full packets to endpoints on other nodes are fragmented, or dropped where fragments are.',
      remedy: `Set the MTU of the pod network to at most ${most} in its own configuration, and start its pods again.`,
    },
  ]
}

/** undefined: this file system shows no such interface. */
async function numberOf({ read }: Examined, link: string, name: string): Promise<number | undefined> {
  const text = await read(`/sys/class/net/${link}/${name}`)
  return text === undefined ? undefined : Number(text)
}

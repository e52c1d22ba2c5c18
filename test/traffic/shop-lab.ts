// The network of examples/shop: a client, the node that runs the agent, and every pod of the manifests, joined by two links.
//   client 192.168.50.10 ── node-a 192.168.50.1 | 10.244.0.1 ── pods 10.244.x.y, one server for all
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import { ProbeClient, serve, type Target } from '../support/traffic.js'

/** Every address of an endpoint in examples/shop with its ports, whether ready or not: one that may not answer could. */
const pods: readonly Target[] = [
  ...['10.244.1.11', '10.244.1.12', '10.244.1.13', 'fd00:10:244::1:11', 'fd00:10:244::1:12'].flatMap(
    (address) => [
      { protocol: 'tcp' as const, address, port: 8080 },
      { protocol: 'tcp' as const, address, port: 8443 },
    ],
  ),
  ...['10.244.2.11', '10.244.2.12', 'fd00:10:244::2:11'].flatMap((address) => [
    { protocol: 'udp' as const, address, port: 5353 },
    { protocol: 'tcp' as const, address, port: 5353 },
  ]),
  ...['10.244.3.11', '10.244.3.12', '10.244.3.13', '10.244.3.14'].map((address) => tcp(address, 9090)),
  ...['fd00:10:244::4:11', 'fd00:10:244::4:12'].map((address) => tcp(address, 7000)),
  ...['10.244.5.11', '10.244.5.12', '10.244.5.13'].map((address) => tcp(address, 8000)),
  tcp('10.244.6.11', 9200),
]

/** TCP port of an address. */
export function tcp(address: string, port: number): Target {
  return { protocol: 'tcp', address, port }
}

/** UDP port of an address. */
export function udp(address: string, port: number): Target {
  return { protocol: 'udp', address, port }
}

export interface ShopLab {
  readonly node: Namespace
  readonly client: ProbeClient
  close(): Promise<void>
}

/** Builds it, pods answering, the node without a single virtual server. */
export async function buildShopLab(): Promise<ShopLab> {
  const namespaces: Namespace[] = []
  const close = async (): Promise<void> => {
    await Promise.all(namespaces.map((namespace) => namespace.close()))
  }
  try {
    for (const name of ['client', 'node-a', 'pods']) namespaces.push(await Namespace.create(name))
    const [client, node, podNamespace] = namespaces
    if (client === undefined || node === undefined || podNamespace === undefined)
      throw new Error('no namespaces')
    await join(client, node, podNamespace)
    await serve(podNamespace, pods)
    return { node, client: new ProbeClient(client), close }
  } catch (error) {
    await close()
    throw error
  }
}

async function join(client: Namespace, node: Namespace, podNamespace: Namespace): Promise<void> {
  await connect(
    { namespace: client, interfaceName: 'eth0', addresses: ['192.168.50.10/24', 'fd00:192:168:50::10/64'] },
    { namespace: node, interfaceName: 'eth0', addresses: ['192.168.50.1/24', 'fd00:192:168:50::1/64'] },
  )
  const podAddresses = [...new Set(pods.map((pod) => pod.address))]
  await connect(
    { namespace: node, interfaceName: 'pods0', addresses: ['10.244.0.1/16', 'fd00:10:244::1/64'] },
    {
      namespace: podNamespace,
      interfaceName: 'eth0',
      addresses: podAddresses.map((address) => `${address}/${address.includes(':') ? 64 : 16}`),
    },
  )
  await setSysctls(node, 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1')
  await client.ip('route add default via 192.168.50.1', 'route add default via fd00:192:168:50::1')
  await podNamespace.ip('route add default via 10.244.0.1', 'route add default via fd00:10:244::1')
}

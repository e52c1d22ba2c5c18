// A node with a pod behind an interface of its own, whose CNI plugin portmap gives host port 80 to a server: rules for the node's own
// addresses, in one of three kinds. VIPs that are local addresses meet these rules (issue 35, E5).
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { manifestText } from '../traffic/table/manifest.js'
import { nodeObject } from '../traffic/table/slot.js'
import { connect, Namespace } from './namespaces.js'
import { port, service, slice } from './objects.js'
import { ProbeClient, type ProbeResult, serve } from './traffic.js'

/** How portmap writes its rules: with iptables of a flavour, or with its backend for nf_tables. */
export type PortmapKind = 'legacy' | 'nft' | 'nftables'

const vips = { ipv4: '10.96.0.50', ipv6: 'fd00:10:96::50' } as const
const servers = {
  ipv4: { node: '10.244.1.1', pod: '10.244.1.2', prefixLength: 24 },
  ipv6: { node: 'fd00:244:1::1', pod: 'fd00:244:1::2', prefixLength: 64 },
} as const
const families = ['ipv4', 'ipv6'] as const
type HostPortFamily = (typeof families)[number]

/** Ports of the pod: a Service's endpoint, and the server behind host port 80. */
const [servedPort, hostPort] = [8080, 9090]

const answerMs = 5000

type Addresses = Readonly<Record<HostPortFamily, string>>

/** The node's own addresses. */
export const nodeAddresses: Addresses = { ipv4: servers.ipv4.node, ipv6: servers.ipv6.node }

/** The result of `askAll` if no host port takes a connection. */
export const allServed: Readonly<Record<string, string>> = {
  'pod ipv4': 'Service',
  'pod ipv6': 'Service',
  'node ipv4': 'Service',
  'node ipv6': 'Service',
}

/** The result of `askAt` if the host port answers. */
export const hostPorts: Readonly<Record<string, string>> = { ipv4: 'host port', ipv6: 'host port' }

function answerer(result: ProbeResult): string {
  if (result.kind !== 'answer') return JSON.stringify(result)
  return result.from.endsWith(` ${servedPort}`) ? 'Service' : 'host port'
}

export class HostPortNode {
  readonly node: Namespace
  readonly #pod: Namespace
  readonly #clients: Readonly<Record<'node' | 'pod', ProbeClient>>
  readonly folder: string

  private constructor(node: Namespace, pod: Namespace, folder: string) {
    this.node = node
    this.#pod = pod
    this.folder = folder
    this.#clients = { node: new ProbeClient(node), pod: new ProbeClient(pod) }
  }

  static async create(): Promise<HostPortNode> {
    const folder = await mkdtemp(join(tmpdir(), 'viaduct-host-port-'))
    const [node, pod] = [await Namespace.create('node-a'), await Namespace.create('pod')]
    const of = (side: 'node' | 'pod'): readonly string[] =>
      families.map((family) => `${servers[family][side]}/${servers[family].prefixLength}`)
    await connect(
      { namespace: node, interfaceName: 'veth0', addresses: of('node') },
      { namespace: pod, interfaceName: 'eth0', addresses: of('pod') },
    )
    await pod.ip(`route add default via ${servers.ipv4.node}`, `route add ::/0 via ${servers.ipv6.node}`)
    await node.must('sh', '-c', 'for f in 4 6; do echo 1 > /proc/sys/net/ipv$f/conf/all/forwarding; done')
    await serve(
      pod,
      families.flatMap((family) =>
        [servedPort, hostPort].map((number) => ({
          protocol: 'tcp' as const,
          address: servers[family].pod,
          port: number,
        })),
      ),
    )
    const ports = [{ name: '', protocol: 'TCP', port: servedPort }] as const
    const objects = [
      nodeObject,
      ...families.flatMap((family) => [
        service(`web-${family}`, vips[family], { ports: [port(80)] }),
        slice(`web-${family}-1`, `web-${family}`, [servers[family].pod], { ports }),
      ]),
    ]
    await writeFile(join(folder, 'web.json'), manifestText(objects))
    return new HostPortNode(node, pod, folder)
  }

  /** Adds a Service per family with such an external IP and port 8888. */
  async serveExternalIPs(externalIPs: Addresses): Promise<void> {
    const ports = [{ name: '', protocol: 'TCP', port: servedPort }] as const
    const objects = families.flatMap((family) => {
      const name = `external-${family}`
      const settings = { externalIPs: [externalIPs[family]], ports: [port(8888)] }
      const clusterIP = family === 'ipv4' ? '10.96.0.60' : 'fd00:10:96::60'
      return [service(name, clusterIP, settings), slice(`${name}-1`, name, [servers[family].pod], { ports })]
    })
    await writeFile(join(this.folder, 'external.json'), manifestText(objects))
  }

  /** Writes portmap's rules, the same as CNI plugins 1.6 writes. */
  async portmap(kind: PortmapKind): Promise<void> {
    for (const family of families) {
      const target = family === 'ipv4' ? servers.ipv4.pod : `[${servers.ipv6.pod}]`
      if (kind === 'nftables') await this.#portmapByNft(family, target)
      else {
        const tool = `${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${kind}`
        const lines = [
          '-N CNI-HOSTPORT-DNAT',
          `-A CNI-HOSTPORT-DNAT -p tcp --dport 80 -j DNAT --to-destination ${target}:${hostPort}`,
          ...['PREROUTING', 'OUTPUT'].map(
            (chain) => `-A ${chain} -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT`,
          ),
        ]
        for (const line of lines) await this.node.must(tool, '-t', 'nat', ...line.split(' '))
      }
    }
  }

  async #portmapByNft(family: HostPortFamily, target: string): Promise<void> {
    const name = family === 'ipv4' ? 'ip' : 'ip6'
    const chain = (hook: string): string =>
      `chain ${hook} { type nat hook ${hook} priority -100; fib daddr type local tcp dport 80 dnat to ${target}:${hostPort}; }`
    const text = `table ${name} cni_hostport { ${chain('prerouting')}; ${chain('output')}; }`
    await this.node.must('nft', text.replaceAll('; ', ';\n').replaceAll('{ ', '{\n').replaceAll('}; ', '}\n'))
  }

  /** The answer of port 80 of the VIP, by client and family: `Service`, `host port`, or the failed probe as text. */
  async askAll(): Promise<Readonly<Record<string, string>>> {
    const answers: Record<string, string> = {}
    for (const from of ['pod', 'node'] as const)
      for (const family of families) {
        const target = { protocol: 'tcp', address: vips[family], port: 80 } as const
        answers[`${from} ${family}`] = answerer(await this.#clients[from].probe(target, answerMs))
      }
    return answers
  }

  /** The answer of a port of these addresses to the node, by family, as that of `askAll`. */
  async askAt(addresses: Addresses, number = 80): Promise<Readonly<Record<string, string>>> {
    const answers: Record<string, string> = {}
    for (const family of families) {
      const target = { protocol: 'tcp', address: addresses[family], port: number } as const
      answers[family] = answerer(await this.#clients.node.probe(target, answerMs))
    }
    return answers
  }

  async close(): Promise<void> {
    await Promise.all([this.node.close(), this.#pod.close()])
    await rm(this.folder, { recursive: true })
  }
}

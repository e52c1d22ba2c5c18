// A node that kube-proxy programmed in ipvs mode, among things of others, with its clients and pods.
//   client 192.168.50.10 ── node-a 192.168.50.1 | 10.244.0.1 ─┬─ every pod that serves, in one namespace
//                                                            └─ 10.244.255.9, a pod that asks
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { XtFlavour } from '../../src/kernel/index.js'
import { feed, KubeProxyState } from '../support/kube-proxy-ipvs.js'
import { Load, type LoadCounts, type LoadPath, sumOf } from '../support/load.js'
import { connect, type LinkEnd, Namespace, setSysctls } from '../support/namespaces.js'
import { Prober } from '../support/probes.js'
import { localAddresses } from './node-state.js'
import { families, type Pair } from './table/world.js'
import {
  clientAddresses,
  kubeProxyNode,
  leftoverPath,
  nodeAddresses,
  podClientAddresses,
  takeoverLoad,
  takeoverManifests,
  takeoverServers,
} from './takeover-services.js'
import { dummyDeviceName } from '../../src/host/index.js'

/** The settings of kube-proxy, beside forwarding. */
const kubeProxySysctls = [
  'net.ipv4.ip_forward=1',
  'net.ipv6.conf.all.forwarding=1',
  'net.ipv4.vs.conntrack=1',
  'net.ipv4.vs.expire_nodest_conn=1',
  'net.ipv4.vs.expire_quiescent_template=1',
]

/** Foreign rules; they count no packets of this test. */
const foreign = {
  servers: [
    '-A -t 192.0.2.77:80 -s wrr',
    '-a -t 192.0.2.77:80 -r 10.244.77.1:8080 -m -w 3',
    // On the port of a node port, at an address that is not the node's.
    '-A -t 192.0.2.77:30080 -s wrr',
    '-a -t 192.0.2.77:30080 -r 10.244.77.1:8080 -m -w 5',
    '-A -f 77 -s lc',
    '-a -f 77 -r 10.244.77.2:0 -g -w 1',
  ],
  sets: ['create THEIRS hash:net comment', 'add THEIRS 192.0.2.0/25 comment "not the agent\'s"'],
  rules: [
    '*filter',
    ':THEIRS - [0:0]',
    '[7:420] -A INPUT -s 192.0.2.99/32 -j DROP',
    '[3:180] -A FORWARD -m set --match-set THEIRS src -j THEIRS',
    '[11:660] -A THEIRS -d 192.0.2.128/25 -j DROP',
    'COMMIT',
    '*nat',
    '[5:300] -A POSTROUTING -d 192.0.2.7/32 -j MASQUERADE',
    'COMMIT',
    '*mangle',
    '[9:540] -A PREROUTING -d 192.0.2.8/32 -j MARK --set-xmark 0x77/0xffffffff',
    'COMMIT',
  ],
  rules6: ['*filter', '[2:144] -A INPUT -s 2001:db8:77::1/128 -j DROP', 'COMMIT'],
} as const

/** Attempts of each path to wait for after a run. */
const triedAfter = 5

/** How many lines of `ipvsadm -Sn` they have. */
export const theirServers = foreign.servers.length

/** The state of the node's kernel, as other programs' tools print it. */
export interface NodeState {
  readonly servers: readonly string[]
  readonly sets: readonly string[]
  readonly chains: readonly string[]
  /** Addresses that local routes have. */
  readonly routes: readonly string[]
  /** The addresses of the dummy device. */
  readonly addresses: readonly string[]
}

/** The whole lab; `close` ends everything. */
export class TakeoverLab {
  readonly #namespaces: readonly Namespace[]
  readonly #folder: string
  readonly #joined: Joined
  readonly #loads: Readonly<Record<string, Load>>
  /** Where kube-proxy's rules and those of others are. */
  readonly #flavour: XtFlavour
  readonly node: Namespace
  /** A node with the same addresses, without links and without rules. */
  readonly freshNode: Namespace

  private constructor(folder: string, namespaces: readonly Namespace[], flavour: XtFlavour) {
    this.#folder = folder
    this.#flavour = flavour
    this.#namespaces = namespaces
    const [client, node, pods, podClient, freshNode] = namespaces
    if (!client || !node || !pods || !podClient || !freshNode) throw new Error('no namespaces')
    this.#joined = { client, node, pods, podClient }
    this.node = node
    this.freshNode = freshNode
    this.#loads = { pod: new Load(podClient), node: new Load(node), outside: new Load(client) }
  }

  /** Namespaces and manifests, without links. */
  static async create(flavour: XtFlavour = 'legacy'): Promise<TakeoverLab> {
    const names = ['client', 'node-a', 'pods', 'pod-client', 'fresh-node']
    const namespaces = await Promise.all(names.map((name) => Namespace.create(name)))
    const folder = await mkdtemp(join(tmpdir(), 'viaduct-takeover-'))
    const lab = new TakeoverLab(folder, namespaces, flavour)
    await mkdir(lab.manifests)
    for (const [name, text] of takeoverManifests()) await lab.publish(name, text)
    await addressAlike(lab.freshNode)
    return lab
  }

  /** All servers answer, kube-proxy's state is loaded, no client asks yet. */
  async build(): Promise<void> {
    const { node } = this
    const pods = new Prober(this.#joined.pods)
    const served = joinAll(this.#joined).then(() => pods.serve(takeoverServers))
    await node.ip('link add kube-ipvs0 type dummy')
    // Before Linux 5.16, ipvsadm runs /sbin/modprobe, which does not know the folder of the guest's modules.
    await node.must('modprobe', '-a', 'ip_vs', 'ip_vs_rr')
    const states = families.map((family) =>
      new KubeProxyState(kubeProxyNode(family)).load(node, this.#flavour),
    )
    await Promise.all([served, loadForeign(node, this.#flavour), ...states])
    await setSysctls(node, ...kubeProxySysctls)
  }

  get manifests(): string {
    return join(this.#folder, 'manifests')
  }

  /** A file beside the manifests. */
  file(name: string): string {
    return join(this.#folder, name)
  }

  /** The first manifests of the file. */
  manifestOf(name: string): string {
    return takeoverManifests().get(name) ?? ''
  }

  /** As an editor does: a new file over the old one. */
  async publish(name: string, text: string): Promise<void> {
    await writeFile(this.file('edited'), text)
    await rename(this.file('edited'), join(this.manifests, `${name}.json`))
  }

  /** Begins the load of the paths that `selects` chooses. */
  startLoad(selects: (path: LoadPath, place: string) => boolean = () => true): void {
    for (const [place, paths] of Object.entries(takeoverLoad))
      this.#loads[place]?.add(paths.filter((path) => selects(path, place)))
  }

  /** Before `startLoad`: a client stays on the real server that is gone from its Service, as kube-proxy drained it. */
  async startLeftover(): Promise<void> {
    const { address, port } = leftoverPath
    const server = `${address}:${port}`
    const weigh = async (weights: readonly string[]): Promise<void> => {
      const [stale = '', ...others] = leftoverPath.by
      const all = [stale, ...others, stale.replace(/3$/u, '1')]
      for (const [index, real] of all.entries())
        await this.node.must(
          'ipvsadm',
          '-e',
          '-t',
          server,
          '-r',
          `${real}:8080`,
          '-m',
          '-w',
          weights[index] ?? '',
        )
    }
    await weigh(['1', '0'])
    this.#loads['outside']?.add([leftoverPath])
    // It is the only one under way.
    await this.take(1)
    await weigh(['0', '1'])
  }

  /** Counts the attempts during `work`, and until every path has been tried five times more. */
  async during(work: () => Promise<void>): Promise<LoadCounts> {
    await this.take()
    await work()
    const counts = await this.take()
    return sumOf(counts, await this.take(triedAfter))
  }

  /** The attempts that ended since the last call, by place and path. Waits until each path has `atLeast` of them. */
  async take(atLeast = 0): Promise<LoadCounts> {
    const places = await Promise.all(
      Object.entries(this.#loads).map(async ([place, load]) =>
        Object.entries(await load.take(atLeast)).map(
          ([name, count]) => [`${place}, ${name}`, count] as const,
        ),
      ),
    )
    return Object.fromEntries(places.flat())
  }

  /** The client leaves the real server that drains. */
  async endLeftover(): Promise<void> {
    await this.#loads['outside']?.close(leftoverPath.name)
  }

  async close(): Promise<void> {
    await Promise.all(this.#namespaces.map((namespace) => namespace.close()))
    await rm(this.#folder, { recursive: true })
  }
}

/** Prints what was tried and what failed, and expects no failure. */
export function expectServed(context: TestContext, title: string, counts: LoadCounts): void {
  const all = Object.entries(counts)
  const total = (of: 'tried' | 'failed' | 'retransmitted'): number =>
    all.reduce((sum, [, path]) => sum + path[of], 0)
  const slowest = Math.max(...all.map(([, { slowestMs }]) => slowestMs))
  for (const [name, { tried, failed }] of all)
    context.diagnostic(`  ${name}: ${tried} tried, ${failed} failed`)
  context.diagnostic(
    `${title}: ${total('tried')} tried, ${total('failed')} failed, ${total('retransmitted')} retransmitted, slowest ${slowest} ms`,
  )
  const failures = all.flatMap(([name, path]) => path.failures.map((failure) => `${name}: ${failure}`))
  assert.deepEqual(failures, [])
}

interface Joined {
  readonly client: Namespace
  readonly node: Namespace
  readonly pods: Namespace
  readonly podClient: Namespace
}

/** With the length of a prefix. */
function sized(address: string, [ipv4, ipv6]: readonly [number, number]): string {
  return `${address}/${address.includes(':') ? ipv6 : ipv4}`
}

const wire = [24, 64] as const
const podNetwork = [16, 64] as const
const host = [32, 128] as const

function both(addresses: Pair): readonly string[] {
  return families.map((family) => addresses[family])
}

function end(
  namespace: Namespace,
  interfaceName: string,
  addresses: readonly string[],
  size: readonly [number, number],
): LinkEnd {
  return { namespace, interfaceName, addresses: addresses.map((address) => sized(address, size)) }
}

async function joinAll({ client, node, pods, podClient }: Joined): Promise<void> {
  const towardsClient = families.map((family) => nodeAddresses[family][0])
  const towardsPods = families.map((family) => nodeAddresses[family][1])
  const serving = [...new Set(takeoverServers.map(({ address }) => address))]
  await connect(end(client, 'eth0', both(clientAddresses), wire), end(node, 'eth0', towardsClient, wire))
  await connect(end(node, 'pods0', towardsPods, podNetwork), end(pods, 'eth0', serving, host))
  await connect(end(node, 'pod1', towardsPods, host), end(podClient, 'eth0', both(podClientAddresses), host))
  const byNode = towardsPods.flatMap((address) => [
    `route add ${address} dev eth0`,
    `route add default via ${address}`,
  ])
  // As on every node: packets that are not translated have a route.
  await node.ip(...both(clientAddresses).map((address) => `route add default via ${address}`))
  await Promise.all([
    node.ip(...both(podClientAddresses).map((address) => `route add ${address} dev pod1`)),
    client.ip(...towardsClient.map((address) => `route add default via ${address}`)),
    pods.ip(...byNode),
    podClient.ip(...byNode),
  ])
}

/** The node's addresses on devices that lead nowhere. */
async function addressAlike(node: Namespace): Promise<void> {
  const lines = families.flatMap((family) =>
    nodeAddresses[family].map((address) => `address add ${sized(address, host)} dev eth0`),
  )
  await node.ip('link add eth0 type dummy', 'link set eth0 up', ...lines)
}

async function loadForeign(node: Namespace, flavour: XtFlavour): Promise<void> {
  const { servers, sets, rules, rules6 } = foreign
  const restore = ['--wait', '--noflush', '--counters']
  await Promise.all([
    feed(node, servers, 'ipvsadm', '-R'),
    feed(node, sets, 'ipset', 'restore').then(() =>
      feed(node, rules, `iptables-${flavour}-restore`, ...restore),
    ),
    feed(node, rules6, `ip6tables-${flavour}-restore`, ...restore),
  ])
}

/**
 * The state of the node: `theirs` in the order of the tools, with counters; `ours` without values that depend on chance, time and
 * packets.
 */
export async function lookAt(
  node: Namespace,
  flavour: XtFlavour = 'legacy',
): Promise<{ readonly ours: NodeState; readonly theirs: readonly string[] }> {
  const [servers, sets, rules, rules6, addresses, routes] = await Promise.all([
    linesOf(node, 'ipvsadm', '-Sn'),
    linesOf(node, 'ipset', 'save'),
    linesOf(node, `iptables-${flavour}-save`, '-c'),
    linesOf(node, `ip6tables-${flavour}-save`, '-c'),
    linesOf(node, 'ip', '-brief', 'address'),
    localAddresses(node),
  ])
  const ours = {
    servers: servers.filter(isOurs).toSorted(),
    sets: sets
      .filter(isOurs)
      .map((line) => line.replace(/ (?:bucketsize|initval) \S+/gu, ''))
      .toSorted(),
    chains: [
      ...byChain(rules.filter(isOurs)),
      ...byChain(rules6.filter(isOurs)).map((line) => `IPv6 ${line}`),
    ],
    routes,
    addresses: addresses.filter((line) => line.startsWith(`${dummyDeviceName} `)),
  }
  return { ours, theirs: [...servers, ...sets, ...rules, ...rules6].filter((line) => !isOurs(line)) }
}

/** By their names and addresses. */
function isOurs(line: string): boolean {
  return !/THEIRS|192\.0\.2\.(?:[789]|77|99|128)[/:]|-f 77 |2001:db8:77:/u.test(line)
}

/** Rules of each chain in their order, without counters; the order in which tables and chains were made does not matter. */
function byChain(saved: readonly string[]): readonly string[] {
  const found: { readonly place: string; readonly line: string }[] = []
  let table = ''
  for (const line of saved) {
    if (line.startsWith('*')) table = line.slice(1)
    const rule = line.replace(/^\[\d+:\d+\] | \[\d+:\d+\]$/gu, '')
    const chain = /^(?::|-A )(\S+)/u.exec(rule)?.[1]
    if (chain !== undefined) found.push({ place: `${table} ${chain}`, line: `${table}: ${rule}` })
  }
  const places = [...new Set(found.map(({ place }) => place))].toSorted()
  return places.flatMap((place) => found.filter((rule) => rule.place === place).map(({ line }) => line))
}

async function linesOf(node: Namespace, ...command: readonly string[]): Promise<readonly string[]> {
  const text = await node.must(...command)
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
}

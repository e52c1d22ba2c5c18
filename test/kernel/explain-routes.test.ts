// Routes of the kernel in `viaduct explain`: real packets through the shipped agent's rules, and explain asked beside each. Before, it said
// that lost packets go to an endpoint, and took the node's InternalIP for the source of its own packets.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { formatEndpoint } from '../../src/address.js'
import { askingAt } from '../../src/commands/client.js'
import type { ProxyMode } from '../../src/config/index.js'
import type { Explanation } from '../../src/inspect/index.js'
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import { node as nodeObject, port, service, slice } from '../support/objects.js'
import { Prober, type ProbeOutcome } from '../support/probes.js'
import { ip } from '../support/routes.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { manifestText } from '../traffic/table/manifest.js'

interface World {
  readonly option: '-4' | '-6'
  readonly prefix: number
  /** The cluster IP of a Service with two endpoints, TCP and UDP. */
  readonly vip: string
  /** The external IP of this Service. Its packets are masqueraded. */
  readonly external: string
  /** The cluster IP of a Service without endpoints. */
  readonly empty: string
  readonly pods: readonly [string, string]
  readonly podNetwork: string
  /** The node's end of the link to the pods. */
  readonly gateway: string
  /** A client on link c0, and the node's end. */
  readonly client: string
  readonly front: string
  /** The node's end of link c1, which is the node's InternalIP, and the other end. */
  readonly side: string
  readonly neighbour: string
  /** An address of the machine on link c1. The node's route to it leads to link c0. */
  readonly stray: string
}

const ipv4: World = {
  option: '-4',
  prefix: 24,
  vip: '10.96.0.10',
  external: '203.0.113.80',
  empty: '10.96.0.20',
  pods: ['10.244.1.10', '10.244.1.11'],
  podNetwork: '10.244.1.0/24',
  gateway: '10.244.1.1',
  client: '10.1.1.1',
  front: '10.1.1.254',
  side: '10.2.2.254',
  neighbour: '10.2.2.1',
  stray: '10.9.9.9',
}
const ipv6: World = {
  option: '-6',
  prefix: 64,
  vip: 'fd00:96::10',
  external: '2001:db8::80',
  empty: 'fd00:96::20',
  pods: ['fd00:244::10', 'fd00:244::11'],
  podNetwork: 'fd00:244::/64',
  gateway: 'fd00:244::1',
  client: 'fd01::1',
  front: 'fd01::fe',
  side: 'fd02::fe',
  neighbour: 'fd02::1',
  stray: 'fd09::9',
}
/** A refusal may meet the socket still busy with its first SYN. Then it counts when the second one, after a second, is refused as well. */
const silenceMs = 1500
/** Reached by broken runs only. */
const answerMs = 10_000

type Fate = Extract<Explanation['verdict'], 'serve' | 'drop' | 'refuse' | 'reset'>

interface Case {
  readonly name: string
  /** Arguments of ip that change the node's routes and rules, and those that undo it. */
  readonly change?: (world: World) => readonly (readonly [line: string, undo: string])[]
  /** Settings of the node, with their usual values. */
  readonly sysctls?: (world: World) => readonly (readonly [name: string, value: number, usual: number])[]
  /** Default: the client on link c0. `stray`: the machine on link c1, by its other address. */
  readonly from?: 'node' | 'stray'
  /** Default: TCP. */
  readonly protocol?: 'TCP' | 'UDP'
  readonly to?: 'external' | 'empty'
  /** The fate of the packet, and the verdict of explain. */
  readonly fate: Fate
  readonly state: Explanation['route']['state']
  readonly reason?: RegExp
  readonly only?: World
}

/** A route of this type to each endpoint. */
function toPods(type: string): NonNullable<Case['change']> {
  return ({ pods }) => pods.map((pod) => [`route add ${type} ${pod}`, `route del ${type} ${pod}`])
}

const table = 100
/** A rule that leads to a table with a blackhole. */
function rule(selector: (world: World) => string): NonNullable<Case['change']> {
  return (world) => [
    [`route add blackhole default table ${table}`, `route del blackhole default table ${table}`],
    [`rule add ${selector(world)} lookup ${table}`, `rule del ${selector(world)} lookup ${table}`],
  ]
}

const withoutForwarding: NonNullable<Case['sysctls']> = ({ option }) =>
  option === '-4' ? [['net.ipv4.ip_forward', 0, 1]] : [['net.ipv6.conf.all.forwarding', 0, 1]]

/** The same in modes that translate the destination, and in userspace mode unless `inUserspace` says otherwise. */
const cases: readonly (Case & { readonly inUserspace?: Partial<Case> })[] = [
  { name: 'routes to all endpoints', fate: 'serve', state: 'routed' },
  { name: 'routes to all endpoints, from the node', from: 'node', fate: 'serve', state: 'routed' },
  {
    name: 'blackhole routes to all endpoints',
    change: toPods('blackhole'),
    fate: 'drop',
    state: 'lost',
    reason: /^the kernel does not route the packet to .*:8080, .*:8080: a route or a rule of type blackhole/u,
    inUserspace: { fate: 'reset', reason: /^the relay has no route to .* blackhole/u },
  },
  {
    name: 'a blackhole route to one endpoint',
    change: ({ pods: [pod] }) => [[`route add blackhole ${pod}`, `route del blackhole ${pod}`]],
    fate: 'serve',
    state: 'may-be-lost',
    reason: /^the kernel does not route the packet to \S+10\]?:8080: a route or a rule of type blackhole/u,
    // It takes the other one.
    inUserspace: { state: 'routed', reason: /^the relay has no route to \S+10\]?:8080: / },
  },
  {
    name: 'unreachable routes to all endpoints',
    change: toPods('unreachable'),
    fate: 'refuse',
    state: 'lost',
    reason: /a route of type unreachable \(EHOSTUNREACH\)$/u,
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'prohibit routes to all endpoints',
    change: toPods('prohibit'),
    fate: 'refuse',
    state: 'lost',
    reason: /a route or a rule of type prohibit \(EACCES\)$/u,
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'blackhole routes to all endpoints, from the node',
    change: toPods('blackhole'),
    from: 'node',
    fate: 'drop',
    state: 'lost',
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'unreachable routes to all endpoints, from the node',
    change: toPods('unreachable'),
    from: 'node',
    fate: 'drop',
    state: 'lost',
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'unreachable routes to all endpoints, for a datagram of the node',
    change: toPods('unreachable'),
    from: 'node',
    protocol: 'UDP',
    fate: 'refuse',
    state: 'lost',
    inUserspace: { fate: 'drop' },
  },
  {
    name: 'prohibit routes to all endpoints, for a datagram',
    // A socket hears of no other ICMP error of a route.
    change: toPods('prohibit'),
    protocol: 'UDP',
    fate: 'refuse',
    state: 'lost',
    inUserspace: { fate: 'drop' },
  },
  {
    name: 'no route to the endpoints',
    change: ({ podNetwork, gateway, option }) => [
      [
        `route del ${podNetwork} dev p0`,
        `route add ${podNetwork} dev p0 proto kernel ${option === '-4' ? `scope link src ${gateway}` : 'metric 256'}`,
      ],
      ['route del default', `route add default via ${option === '-4' ? ipv4.client : ipv6.client}`],
    ],
    fate: 'refuse',
    state: 'lost',
    reason: /no route, or a rule of type unreachable \(ENETUNREACH\)$/u,
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'a rule of type unreachable',
    change: ({ podNetwork }) => [
      [`rule add to ${podNetwork} unreachable`, `rule del to ${podNetwork} unreachable`],
    ],
    fate: 'refuse',
    state: 'lost',
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'a rule for the interface of the client',
    change: rule(({ podNetwork }) => `iif c0 to ${podNetwork}`),
    fate: 'drop',
    state: 'lost',
    reason: /(?:blackhole|that comes in by c0) \((?:EINVAL|EXDEV)\)$/u,
    inUserspace: { fate: 'serve', state: 'routed', reason: /^$/u },
  },
  {
    name: 'a rule for the interface of other clients, from the node',
    change: rule(({ podNetwork }) => `iif c0 to ${podNetwork}`),
    from: 'node',
    fate: 'serve',
    state: 'routed',
  },
  {
    name: 'a rule for the port of the endpoints',
    change: rule(({ podNetwork }) => `to ${podNetwork} ipproto tcp dport 8080`),
    fate: 'drop',
    state: 'lost',
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'a rule for the port of the endpoints, from the node',
    change: rule(({ podNetwork }) => `to ${podNetwork} ipproto tcp dport 8080`),
    from: 'node',
    fate: 'drop',
    state: 'lost',
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'a rule for the source of the client',
    change: rule(({ client, podNetwork }) => `from ${client} to ${podNetwork}`),
    fate: 'drop',
    state: 'lost',
    inUserspace: { fate: 'serve', state: 'routed' },
  },
  {
    name: 'a rule for the source of the node, from the node',
    change: rule(({ front, podNetwork }) => `from ${front} to ${podNetwork}`),
    from: 'node',
    fate: 'drop',
    state: 'lost',
    // The relay has no source yet.
    inUserspace: { fate: 'serve', state: 'routed' },
  },
  {
    name: 'a rule for another port of the endpoints',
    change: rule(({ podNetwork }) => `to ${podNetwork} ipproto tcp dport 80`),
    fate: 'serve',
    state: 'routed',
  },
  {
    name: 'a rule for packets that are masqueraded',
    change: rule(() => 'fwmark 0x4000/0x4000'),
    to: 'external',
    fate: 'drop',
    state: 'lost',
    inUserspace: { fate: 'serve', state: 'routed' },
  },
  {
    name: 'a rule for packets that are masqueraded, and one that is not',
    change: rule(() => 'fwmark 0x4000/0x4000'),
    fate: 'serve',
    state: 'routed',
  },
  {
    name: 'no forwarding',
    sysctls: withoutForwarding,
    fate: 'drop',
    state: 'lost',
    reason: /this node does not forward packets that come in by c0 \(\/proc\/sys\/\S+ is 0\)$/u,
    inUserspace: { fate: 'serve', state: 'routed', reason: /^$/u },
  },
  {
    name: 'no forwarding, and no route to the endpoints',
    sysctls: withoutForwarding,
    change: toPods('unreachable'),
    // IPv6 looks for the route first, and tells the client.
    fate: 'drop',
    state: 'lost',
    only: ipv4,
    inUserspace: { fate: 'reset' },
  },
  {
    name: 'no forwarding, for the node itself',
    sysctls: withoutForwarding,
    from: 'node',
    fate: 'serve',
    state: 'routed',
  },
  {
    name: 'rp_filter and a client behind another interface',
    sysctls: () => [['net.ipv4.conf.c1.rp_filter', 1, 0]],
    from: 'stray',
    fate: 'drop',
    state: 'lost',
    reason: /rp_filter of c1 is 1, and packets to 10\.9\.9\.9 do not leave by it \((?:EINVAL|EXDEV)\)$/u,
    only: ipv4,
  },
  {
    name: 'rp_filter and a client behind its own interface',
    sysctls: () => [['net.ipv4.conf.c0.rp_filter', 1, 0]],
    fate: 'serve',
    state: 'routed',
    only: ipv4,
  },
  {
    name: "no route to the Service's address, from the node",
    change: ({ client }) => [['route del default', `route add default via ${client}`]],
    from: 'node',
    fate: 'refuse',
    state: 'lost',
    reason: /^the kernel does not route the packet to \S+: no route/u,
    inUserspace: { fate: 'serve', state: 'routed', reason: /^$/u },
  },
  {
    name: "no route to the Service's address, from a client",
    change: ({ client }) => [['route del default', `route add default via ${client}`]],
    fate: 'serve',
    state: 'routed',
  },
  { name: 'a Service without endpoints', to: 'empty', fate: 'refuse', state: 'routed' },
  {
    name: 'a blackhole route to a Service without endpoints',
    change: ({ empty }) => [[`route add blackhole ${empty}`, `route del blackhole ${empty}`]],
    to: 'empty',
    fate: 'drop',
    state: 'lost',
    // The address is local there: no other route counts.
    inUserspace: { fate: 'refuse', state: 'routed' },
  },
]

const udp = { protocol: 'UDP', name: 'udp' } as const
const objects = [
  nodeObject('node-a', { ips: [ipv4.side, ipv6.side] }),
  ...[ipv4, ipv6].flatMap(({ option, vip, external, empty, pods }) => [
    service(`web${option}`, vip, {
      ports: [port(80, { name: 'tcp' }), port(80, udp)],
      externalIPs: [ip(external)],
    }),
    slice(`web${option}-1`, `web${option}`, pods, {
      ports: [
        { name: 'tcp', protocol: 'TCP', port: 8080 },
        { name: 'udp', protocol: 'UDP', port: 8080 },
      ],
    }),
    service(`empty${option}`, empty),
  ]),
]

/** The node with its links, and the machines at their ends. */
class Lab {
  readonly node: Namespace
  readonly #others: readonly Namespace[]
  readonly #probers: Readonly<Record<'client' | 'node' | 'stray', Prober>>

  private constructor(node: Namespace, [client, pods, stray]: readonly [Namespace, Namespace, Namespace]) {
    this.node = node
    this.#others = [client, pods, stray]
    this.#probers = { client: new Prober(client), node: new Prober(node), stray: new Prober(stray) }
  }

  static async build(): Promise<Lab> {
    const names = ['node', 'client', 'pods', 'stray']
    const [node, client, pods, stray] = await Promise.all(
      names.map(async (name) => await Namespace.create(name)),
    )
    assert.ok(node && client && pods && stray)
    await setSysctls(
      node,
      'net.ipv4.ip_forward=1',
      'net.ipv6.conf.all.forwarding=1',
      'net.ipv4.conf.all.rp_filter=0',
      'net.ipv4.conf.default.rp_filter=0',
      'net.ipv4.icmp_ratemask=0',
      'net.ipv6.icmp.ratemask=255',
    )
    for (const namespace of [node, client, pods, stray])
      await setSysctls(namespace, 'net.ipv6.conf.default.accept_dad=0')
    const both = (of: (world: World) => readonly string[]): readonly string[] =>
      [ipv4, ipv6].flatMap((world) => of(world).map((address) => `${address}/${world.prefix}`))
    const links = [
      ['c0', both(({ front }) => [front]), client, both((world) => [world.client])],
      ['c1', both(({ side }) => [side]), stray, both(({ neighbour, stray: own }) => [neighbour, own])],
      ['p0', both(({ gateway }) => [gateway]), pods, both((world) => world.pods)],
    ] as const
    for (const [name, own, namespace, addresses] of links)
      await connect(
        { namespace: node, interfaceName: name, addresses: own },
        { namespace, interfaceName: 'eth0', addresses },
      )
    const lab = new Lab(node, [client, pods, stray])
    for (const { option, front, gateway, side, ...world } of [ipv4, ipv6]) {
      await client.must('ip', option, ...`route add default via ${front}`.split(' '))
      await pods.must('ip', option, ...`route add default via ${gateway}`.split(' '))
      await stray.must('ip', option, ...`route add default via ${side}`.split(' '))
      await lab.ip(option, `route add default via ${world.client}`)
    }
    const targets = [ipv4, ipv6].flatMap((world) =>
      world.pods.flatMap((address) => [
        { protocol: 'TCP', address, port: 8080 } as const,
        { protocol: 'UDP', address, port: 8080 } as const,
      ]),
    )
    await new Prober(pods).serve(targets)
    return lab
  }

  async ip(option: World['option'], line: string): Promise<void> {
    await this.node.must('ip', option, ...line.split(' '))
  }

  async probe(world: World, { from, to, fate, protocol = 'TCP' }: Case): Promise<ProbeOutcome> {
    const source = from === 'stray' ? { sourceAddress: world.stray } : {}
    const target = { protocol, address: world[to ?? 'vip'], port: 80 } as const
    return await this.#probers[from ?? 'client'].probe(
      { ...target, ...source },
      fate === 'drop' ? silenceMs : answerMs,
    )
  }

  async close(): Promise<void> {
    await Promise.all([this.node, ...this.#others].map(async (namespace) => await namespace.close()))
  }
}

function fateOf(outcome: ProbeOutcome): Fate {
  if (outcome.kind === 'answer') return 'serve'
  if (outcome.kind === 'dropped') return 'drop'
  return outcome.kind === 'error' && outcome.code === 'ECONNRESET' ? 'reset' : 'refuse'
}

const modes: readonly (readonly [mode: ProxyMode, flags: readonly string[]])[] = [
  ['nftables', []],
  ['iptables', ['--iptables-flavour=legacy']],
  ['userspace', []],
]

/** Each mode has a node of its own. */
describe("explain knows the kernel's routes", { concurrency: modes.length, timeout: 240_000 }, () => {
  for (const [mode, flags] of modes) describe(`${mode} mode`, { concurrency: 1 }, () => ofMode(mode, flags))
})

function ofMode(mode: ProxyMode, flags: readonly string[]): void {
  let folder: string
  let lab: Lab
  let agent: AgentProcess

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-routes-'))
    writeFileSync(join(folder, 'objects.json'), manifestText(objects))
    lab = await Lab.build()
    const own = [...flags, '--control-socket', `${folder}.sock`]
    agent = AgentProcess.start({ node: lab.node, manifests: folder, mode, flags: own })
    await agent.line(/"Control socket listens"/u, 0)
    await agent.synced()
  })
  after(async () => {
    await agent.kill()
    await lab.close()
    rmSync(folder, { recursive: true })
  })

  async function explain(world: World, { from, to, protocol = 'TCP' }: Case): Promise<Explanation> {
    const client = from === 'node' ? 'node' : from === 'stray' ? world.stray : world.client
    const at = formatEndpoint(ip(world[to ?? 'vip']), 80)
    return await askingAt(`${folder}.sock`)('explain', {
      client,
      destination: `${at}/${protocol.toLowerCase()}`,
      ...(from === 'stray' ? { interface: 'c1' } : {}),
    })
  }

  async function check(world: World, one: Case): Promise<void> {
    const changes = one.change?.(world) ?? []
    const settings = one.sysctls?.(world) ?? []
    for (const [line] of changes) await lab.ip(world.option, line)
    for (const [name, value] of settings) await setSysctls(lab.node, `${name}=${value}`)
    const outcome = await lab.probe(world, one)
    const { client, verdict, route, kernel } = await explain(world, one)
    for (const [name, , usual] of settings) await setSysctls(lab.node, `${name}=${usual}`)
    for (const [, undo] of changes.toReversed()) await lab.ip(world.option, undo)
    const seen = `${JSON.stringify(outcome)} ${JSON.stringify(route)}`
    const fate = fateOf(outcome)
    assert.deepEqual([verdict, route.state, kernel.state], [one.fate, one.state, 'agrees'], seen)
    if (one.state === 'may-be-lost') assert.ok(fate === 'serve' || fate === 'drop', seen)
    else assert.equal(fate, one.fate, seen)
    assert.match(route.reasons.join('; '), one.reason ?? /^/u)
    if (outcome.kind === 'answer' && one.to === undefined && mode !== 'userspace')
      assert.equal(client.address, outcome.sees)
  }

  for (const { inUserspace, ...row } of cases) {
    const one: Case = mode === 'userspace' ? { ...row, ...inUserspace } : row
    it(one.name, async () => {
      const wanted = [ipv4, ipv6].filter((world) => one.only === undefined || one.only === world)
      await Promise.all(wanted.map(async (world) => await check(world, one)))
    })
  }
}

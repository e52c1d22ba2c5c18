// The questions of `explain` for the kernel's routes, and its answers, where no packets can show them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { KernelError } from '../../../src/errors.js'
import { type Explanation } from '../../../src/inspect/index.js'
import {
  explainPacket,
  type KernelRoutes,
  ownSource,
  type Packet,
  type PacketView,
  withRoutes,
} from '../../../src/inspect/testing.js'
import { LossReader } from '../../../src/inspect/route-losses.js'
import type { RouteChoice, RouteQuestion } from '../../../src/kernel/index.js'
import { withOwners } from '../../support/frontend-owners.js'
import { trackFamily } from '../../support/tracked-family.js'
import { packetRules } from '../../../src/modes/ipvs/testing.js'
import { NodeTracker } from '../../../src/node/index.js'
import { node as nodeObject, port, service, set, slice } from '../../support/objects.js'
import { ip } from '../../support/routes.js'

const nodeIP = ip('192.168.60.11')
const outside = ip('192.0.2.10')
const vip = ip('10.96.0.10')

function viewOf(endpoints: readonly string[]): PacketView {
  const services = trackFamily('ipv4', () => undefined, { allowsExternalIPs: true })
  const both = [port(80, { name: 'tcp' }), port(80, { name: 'sctp', protocol: 'SCTP' })]
  services.apply(set(service('web', vip, { ports: both })))
  const ports = [
    { name: 'tcp', protocol: 'TCP', port: 8080 },
    { name: 'sctp', protocol: 'SCTP', port: 8080 },
  ] as const
  services.apply(set(slice('web-1', 'web', endpoints, { ports })))
  const node = new NodeTracker('node-a')
  node.apply(set(nodeObject('node-a', { ips: [nodeIP] })))
  const rules = packetRules({
    nodePortAddresses: [nodeIP],
    nodeIP,
    localDetector: undefined,
    masqueradeAll: true,
    relayedLoopback: ip('127.0.0.1'),
    marks: { mask: 0x107f, masqueradeMark: 0x4000, of: () => undefined },
  })
  return withOwners({ services, node: node.facts, rules, machine: [ip('127.0.0.1'), nodeIP] })
}

/** The view in a mode that translates the destination itself. */
function translating(view: PacketView): PacketView {
  return { ...view, rules: { ...view.rules, firewallHook: 'forward' } }
}

const pods = ['10.244.1.10', '10.244.1.11']
const routed: RouteChoice = { isRouted: true, isLocal: false, interfaceIndex: 2 }
const local: RouteChoice = { isRouted: true, isLocal: true, interfaceIndex: 1 }
const blackhole: RouteChoice = { isRouted: false, errno: 'EINVAL' }

/** A kernel with the interfaces lo, eth0 and eth1, which records the questions. */
class Kernel {
  readonly questions: RouteQuestion[] = []
  /** How often the list of interfaces was read. */
  lists = 0
  readonly #answer: (question: RouteQuestion) => RouteChoice
  readonly #settings: Readonly<Record<string, string>>

  constructor(
    answer: (question: RouteQuestion) => RouteChoice,
    settings: Readonly<Record<string, string>> = {},
  ) {
    this.#answer = answer
    this.#settings = settings
  }

  get routes(): KernelRoutes {
    const link = { kind: '', isUp: true }
    const names = ['lo', 'eth0', 'eth1']
    return {
      masqueradeMark: 0x4000,
      routing: {
        lookUp: async (questions) => {
          this.questions.push(...questions)
          return await Promise.resolve(questions.map((question) => this.#answer(question)))
        },
        links: async () => {
          this.lists++
          return await Promise.resolve(names.map((name, index) => ({ ...link, name, index: index + 1 })))
        },
        sysctl: async (path) => await Promise.resolve(this.#settings[path]),
      },
    }
  }
}

async function ask(
  kernel: Kernel,
  view: PacketView,
  change: Partial<Packet> = {},
  firewall: Explanation['firewall'] = { state: 'passes', rules: [] },
): ReturnType<typeof withRoutes> {
  const packet: Packet = {
    client: outside,
    inInterface: undefined,
    destination: vip,
    port: 80,
    protocol: 'tcp',
    ...change,
  }
  return await withRoutes(packet, view, { ...explainPacket(packet, view), firewall }, kernel.routes)
}

/** Lost where the packet is for this address. */
function losing(...addresses: readonly string[]): (question: RouteQuestion) => RouteChoice {
  return ({ destination }) => (addresses.includes(destination) ? blackhole : routed)
}

/** The fates of a packet that comes in from a link-local address. */
async function forwardedFates(choice: RouteChoice, forwarding: string): Promise<readonly unknown[]> {
  const { routing } = new Kernel(() => choice, { 'net/ipv6/conf/all/forwarding': forwarding }).routes
  const entrance = { index: 2, name: 'eth0', isAssumed: true, source: ip('fe80::99') }
  const question = { destination: ip('fd00:244::10'), source: entrance.source, inInterface: 2 }
  const target = '[fd00:244::10]:8080'
  const found = await new LossReader(entrance, routing).read([
    { question, by: 'arrival', target, protocol: 'tcp' },
  ])
  return found.map((loss) => loss?.fate)
}

describe('explain asks the kernel for routes', () => {
  it('with the source, the interface, the mark and the port that the lookup of the kernel has', async () => {
    const kernel = new Kernel(() => routed)
    const { route } = await ask(kernel, translating(viewOf(pods)), { inInterface: 'eth1' })
    assert.deepEqual(route, { state: 'routed', inInterface: { name: 'eth1', isAssumed: false }, reasons: [] })
    const transport = { protocol: 'tcp', port: 8080 }
    const lookup = { source: outside, inInterface: 3, mark: 0x4000, transport }
    assert.deepEqual(
      kernel.questions,
      pods.map((destination) => ({ destination, ...lookup })),
    )
  })

  it('in ipvs mode once for the arrival, and for each endpoint as IPVS does', async () => {
    const kernel = new Kernel(({ destination }) => (destination === vip ? local : routed))
    const { route } = await ask(kernel, viewOf(pods), { inInterface: 'eth0' })
    assert.equal(route.state, 'routed')
    const transport = { protocol: 'tcp', port: 80 }
    const again = { mark: 0x4000, transport: { protocol: 'tcp', port: 8080 } }
    assert.deepEqual(kernel.questions, [
      { destination: vip, source: outside, inInterface: 2, transport },
      ...pods.flatMap((destination) => [{ destination }, { destination, ...again }]),
    ])
  })

  it('without the port of SCTP, which the kernel does not take', async () => {
    const kernel = new Kernel(() => routed)
    await ask(kernel, translating(viewOf(pods)), { protocol: 'sctp' })
    assert.ok(kernel.questions.length > 1)
    assert.ok(kernel.questions.every(({ transport }) => transport === undefined))
  })

  it('for 256 endpoints at most, and says so', async () => {
    const many = Array.from({ length: 260 }, (_, index) => `10.244.${index >> 8}.${index & 255}`)
    const { route, verdict } = await ask(new Kernel(losing(...many)), translating(viewOf(many)))
    assert.deepEqual([route.state, verdict], ['may-be-lost', 'serve'])
    assert.match(
      route.reasons[0] ?? '',
      /8080 and 253 more: a route or a rule of type blackhole \(EINVAL\)$/u,
    )
    assert.deepEqual(route.reasons.slice(1), ['the kernel was not asked for the routes to 4 more endpoints'])
  })

  it('not where another rule drops the packet', async () => {
    const kernel = new Kernel(() => routed)
    const packet: Packet = {
      client: outside,
      inInterface: undefined,
      destination: vip,
      port: 80,
      protocol: 'tcp',
    }
    const view = viewOf(pods)
    const firewall = { state: 'drops', rules: ['a rule'] } as const
    const decision = { ...explainPacket(packet, view), verdict: 'refuse', firewall } as const
    const { route, verdict } = await withRoutes(packet, view, decision, kernel.routes)
    assert.deepEqual([route.state, verdict, kernel.questions], ['not-asked', 'refuse', []])
  })

  it('for the source of the node, and does without it where the kernel gives none', async () => {
    const packet: Packet = {
      client: 'node',
      inInterface: undefined,
      destination: vip,
      port: 80,
      protocol: 'tcp',
    }
    const source = async (choice: RouteChoice): Promise<string | undefined> =>
      await ownSource(packet, new Kernel(() => choice).routes.routing)
    assert.equal(await source({ ...routed, preferredSource: nodeIP }), nodeIP)
    assert.equal(await source(routed), undefined)
    assert.equal(await source(blackhole), undefined)
    assert.equal(
      await ownSource({ ...packet, client: outside }, new Kernel(() => routed).routes.routing),
      undefined,
    )
  })
})

describe('the answer about routes', () => {
  it('is not known without a route to the client, or an interface of this name', async () => {
    const view = viewOf(pods)
    const none = await ask(new Kernel(losing(outside)), view)
    assert.deepEqual(none.route.state, 'unknown')
    assert.match(none.route.reasons.join(), /this node has no route to 192\.0\.2\.10$/u)
    const own = await ask(new Kernel(() => local), view)
    assert.match(own.route.reasons.join(), /this node takes 192\.0\.2\.10 for its own address$/u)
    const other = await ask(new Kernel(() => routed), view, { inInterface: 'eth7' })
    assert.deepEqual(other.route, { state: 'unknown', reasons: ['this node has no interface eth7'] })
  })

  it('is not known when the kernel refuses the question', async () => {
    const refusal = new KernelError({ subsystem: 'route', operation: 'look up route', errno: 1 })
    const { route, verdict } = await ask(
      new Kernel(() => {
        throw refusal
      }),
      viewOf(pods),
      { inInterface: 'eth0' },
    )
    const inInterface = { name: 'eth0', isAssumed: false }
    assert.deepEqual(
      [route, verdict],
      [{ state: 'unknown', inInterface, reasons: [refusal.message] }, 'serve'],
    )
  })

  it('is a refusal where IPVS has no route, which it tells the client', async () => {
    const { route, verdict } = await ask(new Kernel(losing(...pods)), viewOf(pods))
    assert.deepEqual([route.state, verdict], ['lost', 'refuse'])
    assert.match(route.reasons.join(), /^IPVS has no route to 10\.244\.1\.10:8080, 10\.244\.1\.11:8080: /u)
  })

  it('is in doubt where a rule of another program may take the packet away', async () => {
    const firewall = { state: 'may-bypass', rules: ['a rule'] } as const
    const { route, verdict } = await ask(new Kernel(losing(...pods)), viewOf(pods), {}, firewall)
    assert.deepEqual([route.state, verdict], ['may-be-lost', 'serve'])
  })

  it('is lost where a rule only keeps the packet from masquerading in ipvs mode', async () => {
    const firewall = { state: 'bypasses', rules: ['a rule'] } as const
    const { route, verdict } = await ask(new Kernel(losing(...pods)), viewOf(pods), {}, firewall)
    assert.deepEqual([route.state, verdict], ['lost', 'refuse'])
  })

  it('is a drop where the node does not forward the replies to IPVS', async () => {
    const kernel = new Kernel(({ destination }) => (destination === vip ? local : routed), {
      'net/ipv4/conf/eth0/forwarding': '0',
    })
    const { route, verdict } = await ask(kernel, viewOf(pods))
    assert.deepEqual([route.state, verdict], ['lost', 'drop'])
    assert.match(
      route.reasons.join(),
      /^there are no replies from .*: this node does not forward packets that come in by eth0/u,
    )
  })

  it('reads the interfaces once for all endpoints', async () => {
    const kernel = new Kernel(() => routed)
    const many = Array.from({ length: 200 }, (_, index) => `10.244.1.${index}`)
    assert.equal((await ask(kernel, viewOf(many))).route.state, 'routed')
    // Once for the interface by which the packet comes in.
    assert.equal(kernel.lists, 2)
  })

  it('is a drop where only the lookup behind IPVS finds no route', async () => {
    const kernel = new Kernel(({ mark }) => (mark === 0x4000 ? blackhole : routed))
    const { route, verdict } = await ask(kernel, viewOf(pods))
    assert.deepEqual([route.state, verdict], ['lost', 'drop'])
    assert.match(route.reasons.join(), /^the kernel does not route the packet of IPVS to /u)
  })

  for (const [name, settings, back, reason] of [
    [
      'strict',
      { all: '0', eth1: '1' },
      routed,
      /rp_filter of eth1 is 1, and packets to .* do not leave by it/u,
    ],
    ['strict for all interfaces', { all: '1', eth1: '0' }, routed, /rp_filter of eth1 is 1/u],
    ['loose', { all: '0', eth1: '2' }, blackhole, /rp_filter of eth1 is 2, and there is no route to/u],
    [
      'loose, with a route',
      { all: '0', eth1: '2' },
      routed,
      /takes no packet from .* that comes in by eth1/u,
    ],
    ['off', { all: '0', eth1: '0' }, routed, /takes no packet from .* that comes in by eth1/u],
  ] as const) {
    it(`names rp_filter: ${name}`, async () => {
      const kernel = new Kernel(
        ({ destination, inInterface }) =>
          inInterface === undefined ? (destination === outside ? back : routed) : blackhole,
        Object.fromEntries(
          Object.entries(settings).map(([at, value]) => [`net/ipv4/conf/${at}/rp_filter`, value]),
        ),
      )
      const { route, verdict } = await ask(kernel, translating(viewOf(pods)), { inInterface: 'eth1' })
      assert.deepEqual([route.state, verdict], ['lost', 'drop'])
      assert.match(route.reasons.join(), reason)
    })
  }

  it('knows that no packet of a link-local address is forwarded', async () => {
    assert.deepEqual(await forwardedFates(routed, '1'), ['refuse'])
    assert.deepEqual(await forwardedFates(routed, '0'), ['drop'])
    assert.deepEqual(await forwardedFates(local, '1'), [undefined])
  })
})

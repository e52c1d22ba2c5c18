// The clean-up of flows in the kernel's connection table: flows of real packets, flows in zones, and 100,000 flows.
import assert from 'node:assert/strict'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { after, afterEach, before, describe, it } from 'node:test'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { formatEndpoint, type IpAddress } from '../../src/address.js'
import type { ConntrackFrontend, Kernel } from '../../src/kernel/index.js'
import type { ModelFlow } from '../model/index.js'
import { ip } from '../contract/law.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { countFlows, flushFlows, insertFlows, listFlows, nameFlow } from '../support/conntrack-flows.js'
import { lostPackets, lostSince } from '../support/lost-packets.js'
import { mustRun } from '../support/processes.js'

/** The kernel's default of nf_conntrack_max is 262,144. */
const many = 100_000
const services = 1000

let kernel: Kernel
before(() => {
  kernel = openRealKernel()
})
after(() => kernel.close())
afterEach(flushFlows)

const families = [
  {
    family: 'ipv4',
    iptables: 'iptables-legacy',
    vip: ip('10.96.0.10'),
    client: ip('10.244.0.9'),
    endpoints: [ip('10.244.1.5'), ip('10.244.1.6')],
  },
  {
    family: 'ipv6',
    iptables: 'ip6tables-legacy',
    vip: ip('fd00:96::10'),
    client: ip('fd00:244::9'),
    endpoints: [ip('fd00:244:1::5'), ip('fd00:244:1::6')],
  },
] as const
type Family = (typeof families)[number]

/** A datagram that is not answered by then is lost. */
const longestAnswerMs = 15_000

/** A client of a service on loopback, and endpoints that answer with their own address. */
class ServiceOnLoopback {
  readonly #family: Family
  readonly #sockets: Socket[] = []

  constructor(family: Family) {
    this.#family = family
  }

  async open(): Promise<void> {
    const { client, endpoints, iptables, vip } = this.#family
    for (const address of [vip, client, ...endpoints])
      await mustRun([
        'ip',
        'address',
        'add',
        address,
        'dev',
        'lo',
        ...(address.includes(':') ? ['nodad'] : []),
      ])
    // The kernel tracks flows only if a rule needs connection tracking.
    await mustRun([iptables, '-A', 'OUTPUT', '-m', 'conntrack', '--ctstate', 'INVALID', '-j', 'DROP'])
    for (const endpoint of endpoints) {
      const server = await this.#bind(endpoint, 5353)
      server.on('message', (_, from) => server.send(endpoint, from.port, from.address))
    }
  }

  /** A socket, which makes one flow. */
  client(): Promise<Socket> {
    return this.#bind(this.#family.client, 0)
  }

  /** Replaces the rule that translates the VIP's port 53 with one to this endpoint. */
  async leadTo(endpoint: IpAddress): Promise<void> {
    const { iptables, vip } = this.#family
    const match = ['-d', vip, '-p', 'udp', '--dport', '53']
    await mustRun([iptables, '-t', 'nat', '-F', 'OUTPUT'])
    const target = ['-j', 'DNAT', '--to-destination', formatEndpoint(endpoint, 5353)]
    await mustRun([iptables, '-t', 'nat', '-A', 'OUTPUT', ...match, ...target])
  }

  /** Sends a request. Returns the endpoint that answers. NB: a datagram may be lost beside other work; the error says where. */
  async ask(client: Socket): Promise<string> {
    const lostBefore = await lostPackets()
    const answered = once(client, 'message', { signal: AbortSignal.timeout(longestAnswerMs) })
    client.send('?', 53, this.#family.vip)
    try {
      const [answer]: unknown[] = await answered
      return String(answer)
    } catch (error) {
      const lost = lostSince(lostBefore, await lostPackets())
      throw new Error(`no answer from ${this.#family.vip}; counters of lost packets: ${lost}`, {
        cause: error,
      })
    }
  }

  /** Sends a request without waiting for an answer. */
  async call(client: Socket): Promise<void> {
    await new Promise((sent) => client.send('?', 53, this.#family.vip, sent))
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.close()
    await mustRun([this.#family.iptables, '-t', 'nat', '-F', 'OUTPUT'])
  }

  async #bind(address: IpAddress, port: number): Promise<Socket> {
    const socket = createSocket(this.#family.family === 'ipv4' ? 'udp4' : 'udp6')
    this.#sockets.push(socket)
    socket.bind(port, address)
    await once(socket, 'listening')
    return socket
  }
}

for (const family of families) {
  describe(`flows that packets made, ${family.family}`, { timeout: 60_000 }, () => {
    const service = new ServiceOnLoopback(family)
    const [first, second] = family.endpoints
    const frontend = (...backends: readonly IpAddress[]): ConntrackFrontend => ({
      protocol: 'udp',
      address: family.vip,
      port: 53,
      backends: backends.map((address) => ({ address, port: 5353 })),
    })
    before(() => service.open())
    after(() => service.close())

    it('a client of a removed endpoint reaches the next one', async () => {
      await service.leadTo(first)
      const client = await service.client()
      assert.equal(await service.ask(client), first)
      await service.leadTo(second)
      assert.equal(await service.ask(client), first, 'the flow outlives the rule')
      const { deleted } = await kernel.conntrack.deleteStale(family.family, [frontend(second)], [])
      assert.equal(deleted, 1)
      assert.equal(await service.ask(client), second)
    })

    it('a flow to a current backend stays', async () => {
      await service.leadTo(first)
      const client = await service.client()
      assert.equal(await service.ask(client), first)
      await service.leadTo(second)
      const { deleted } = await kernel.conntrack.deleteStale(family.family, [frontend(first, second)], [])
      assert.equal(deleted, 0)
      assert.equal(await service.ask(client), first)
    })

    it('a client that sent before the first endpoint existed reaches an endpoint', async () => {
      await mustRun([family.iptables, '-t', 'nat', '-F', 'OUTPUT'])
      const client = await service.client()
      await service.call(client)
      const untranslated = (await listFlows()).filter((name) => name.endsWith(`-> ${family.vip} 53`))
      assert.equal(untranslated.length, 1)
      await service.leadTo(first)
      const { deleted } = await kernel.conntrack.deleteStale(family.family, [frontend(first)], [])
      assert.equal(deleted, 1)
      assert.equal(await service.ask(client), first)
    })
  })
}

function flow(number: number): ModelFlow {
  const service = number % services
  return {
    protocol: 'udp',
    source: ip(`10.${128 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`),
    sourcePort: 1024 + (number % 60_000),
    destination: ip(`10.96.${service >> 8}.${service & 255}`),
    destinationPort: 53,
    // The flows of a service use its three endpoints in turn.
    replySource: ip(`10.244.${Math.floor(number / services) % 3}.${service & 255}`),
    replySourcePort: 5353,
  }
}

/** The first two endpoints of a service; the third was removed. */
function frontendOf(service: number): ConntrackFrontend {
  return {
    protocol: 'udp',
    address: ip(`10.96.${service >> 8}.${service & 255}`),
    port: 53,
    backends: [0, 1].map((turn) => ({ address: ip(`10.244.${turn}.${service & 255}`), port: 5353 })),
  }
}

describe('flows in zones', () => {
  const zoned: readonly (readonly [name: string, options: string])[] = [
    ['of both directions', '-w 7'],
    ['of one direction', '--orig-zone 8'],
  ]
  for (const [name, options] of zoned) {
    it(`a deletion includes the zone ${name}`, async () => {
      const stale: ModelFlow = { ...flow(0), replySource: ip('10.244.2.0') }
      const twin = flow(0)
      await insertFlows([twin])
      await insertFlows([stale], options)
      assert.equal(await countFlows(), 2)
      assert.equal((await kernel.conntrack.deleteStale('ipv4', [frontendOf(0)], [])).deleted, 1)
      assert.deepEqual(await listFlows(), [nameFlow(twin)])
    })
  }
})

describe(`${many} flows`, { timeout: 120_000 }, () => {
  const sizes = [
    { name: 'of all services, by one dump', cleaned: services },
    { name: 'of one service, by the kernel’s filter', cleaned: 1 },
  ]
  for (const { name, cleaned } of sizes) {
    it(`deletes exactly the stale ones ${name}, while the event loop runs`, async (context) => {
      const flows = Array.from({ length: many }, (_, number) => flow(number))
      const isStale = (number: number): boolean =>
        number % services < cleaned && Math.floor(number / services) % 3 === 2
      const stale = flows.filter((_, number) => isStale(number)).length
      const left = flows.flatMap((kept, number) => (isStale(number) ? [] : [nameFlow(kept)]))
      await insertFlows(flows)
      assert.equal(await countFlows(), many)
      const frontends = Array.from({ length: cleaned }, (_, service) => frontendOf(service))

      const delays = monitorEventLoopDelay({ resolution: 1 })
      const rssBefore = process.memoryUsage.rss()
      delays.enable()
      const start = performance.now()
      const { deleted, seen } = await kernel.conntrack.deleteStale('ipv4', frontends, [])
      const elapsedMs = performance.now() - start
      delays.disable()
      const grownMib = (process.memoryUsage.rss() - rssBefore) / 2 ** 20

      assert.equal(deleted, stale)
      assert.equal(seen, cleaned === 1 ? undefined : many)
      assert.deepEqual(await listFlows(), left.toSorted())
      context.diagnostic(
        `${deleted} of ${many} deleted in ${elapsedMs.toFixed(0)} ms, longest stop of the event loop ` +
          `${(delays.max / 1e6).toFixed(1)} ms, ${grownMib.toFixed(1)} MiB more resident`,
      )
    })
  }
})

// Packets in every intermediate state of a change: a served client stays served after each single operation (issue 18, C7).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { XtRule } from '../../src/kernel/index.js'
import { type ModelKernel, openModelKernel } from '../model/index.js'
import type { ObjectEvent, Service } from '../../src/source/index.js'
import { type Fate, IpvsPackets } from '../support/ipvs-packets.js'
import { endpoint, port, service, set, slice, synced } from '../support/objects.js'
import { ip, type LabOptions, PipelineLab } from '../support/pipeline-lab.js'

const nodeAddress = ip('192.168.50.1')
const config = { detectLocalMode: 'ClusterCIDR', clusterCIDR: ['10.1.0.0/16'] } as const

const clients = {
  outside: { inInterface: 'eth0', source: ip('192.168.50.10') },
  pod: { inInterface: 'pod1', source: ip('10.1.9.9') },
  node: { inInterface: undefined, source: nodeAddress },
} as const
type ClientName = keyof typeof clients
const clientNames = ['outside', 'pod', 'node'] as const satisfies readonly ClientName[]

const frontends = {
  'cluster IP': { destination: ip('10.96.0.1'), port: 80 },
  'external IP': { destination: ip('203.0.113.1'), port: 80 },
  'load balancer': { destination: ip('198.51.100.1'), port: 80 },
  'node port': { destination: nodeAddress, port: 30_080 },
} as const

/** One Service with every kind of frontend, and its endpoints on this node and on another node. */
interface World {
  readonly of?: Partial<Service>
  readonly here: readonly string[]
  readonly there: readonly string[]
}

function serviceOf({ of = {} }: World): ObjectEvent {
  return set(
    service('web', '10.96.0.1', {
      type: 'LoadBalancer',
      ports: [port(80, { nodePort: 30_080 })],
      externalIPs: ['203.0.113.1'],
      loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' }],
      ...of,
    }),
  )
}

function eventsOf(world: World): readonly ObjectEvent[] {
  const { here, there } = world
  const endpoints = [
    ...here.map((address) => endpoint(address, { nodeName: 'here' })),
    ...there.map((address) => endpoint(address, { nodeName: 'there' })),
  ]
  return [serviceOf(world), set(slice('web-1', 'web', endpoints))]
}

/** Checks after each operation that every served client of every frontend stays served. */
class Watch {
  readonly kernel: ModelKernel
  /** Clients that lost their service, each with the operation that caused it. */
  readonly losses: string[] = []
  /** Clients that were not served when a table of rules was written. */
  readonly unservedAtWrites = new Set<string>()
  readonly #packets: IpvsPackets
  #world: World = { here: [], there: [] }
  #served = new Set<string>()

  private constructor(kernel: ModelKernel) {
    this.kernel = kernel
    this.#packets = new IpvsPackets(kernel, [nodeAddress], (operation) => this.#look(operation))
  }

  /** `hasGuard`: another program translates addresses too, so that the guard of VIPs stands (docs/adr/0027). */
  static async open({ hasGuard }: { readonly hasGuard: boolean }): Promise<Watch> {
    const kernel = openModelKernel()
    if (hasGuard) await translateToo(kernel)
    const watch = new Watch(kernel)
    const { index: interfaceIndex } = await kernel.links.addDummy('eth0')
    await kernel.routes.apply([
      { op: 'add-address', address: { address: nodeAddress, prefixLength: 24, interfaceIndex } },
    ])
    return watch
  }

  /** Sets the endpoints that answer from now on. */
  begin(world: World): void {
    this.#world = world
    this.#served = new Set()
    this.#look('the change')
    this.unservedAtWrites.clear()
  }

  /** A new process, with its own interfaces to the tables. */
  lab(options: LabOptions['config'] = config): PipelineLab {
    const opened = openModelKernel({ xtNamespace: this.kernel.xtNamespace })
    const kernel = { ...this.kernel, xtables: opened.xtables.bind(opened) }
    return new PipelineLab({ kernel, config: options })
  }

  get served(): readonly string[] {
    return [...this.#served].toSorted()
  }

  #look(operation: string): void {
    for (const client of clientNames) {
      for (const [name, frontend] of Object.entries(frontends)) {
        const who = `${client}, ${name}`
        const fates = this.#packets.fates({ ...clients[client], ...frontend })
        const isServed = fates.every((fate) => this.#isGood(client, fate))
        if (isServed) this.#served.add(who)
        else if (this.#served.delete(who))
          this.losses.push(`${who}: ${JSON.stringify(fates)} after ${operation}`)
        if (!isServed && operation.startsWith('write table')) this.unservedAtWrites.add(who)
      }
    }
  }

  /** Whether an endpoint that answers gets the packet. An answer from another node reaches the outside only through this node. */
  #isGood(client: ClientName, fate: Fate): boolean {
    if (typeof fate === 'string') return false
    const { here, there } = this.#world
    if (here.includes(fate.by)) return true
    return there.includes(fate.by) && (client !== 'outside' || fate.isMasqueraded)
  }
}

/** A table of nf_tables with a chain of type nat. */
async function translateToo({ nftables }: ModelKernel): Promise<void> {
  const key = { family: 'ipv4', table: 'cni_hostport' } as const
  const hook = { type: 'nat', hook: 'prerouting', priority: -100 } as const
  await nftables.apply([
    { op: 'add-table', table: key },
    { op: 'add-chain', chain: { ...key, chain: 'prerouting', hook } },
  ])
}

const everyClient = clientNames
  .flatMap((client) => Object.keys(frontends).map((name) => `${client}, ${name}`))
  .toSorted()

const both = { here: ['10.1.0.1'], there: ['10.1.5.1'] } as const
const local = { externalTrafficPolicy: 'Local', healthCheckNodePort: 32_000 } as const
const guarded = { loadBalancerSourceRanges: ['192.168.50.0/24', '10.1.0.0/16'] } as const
const guardedOtherwise = { loadBalancerSourceRanges: ['192.168.0.0/16', '10.0.0.0/8'] } as const

/** Changes after which every client is served. */
const changes: Readonly<Record<string, readonly [before: World, after: World]>> = {
  'other endpoints': [both, { here: ['10.1.0.2'], there: ['10.1.5.2'] }],
  'one endpoint less': [{ here: ['10.1.0.1', '10.1.0.2'], there: ['10.1.5.1'] }, both],
  'the first endpoints': [{ here: [], there: [] }, both],
  'the first endpoints, policy Local': [
    { of: local, here: [], there: [] },
    { of: local, ...both },
  ],
  'the first endpoint here, policy Local': [
    { of: local, here: [], there: ['10.1.5.1'] },
    { of: local, ...both },
  ],
  'other endpoints, policy Local': [
    { of: local, ...both },
    { of: local, here: ['10.1.0.2'], there: ['10.1.5.2'] },
  ],
  'policy Cluster to Local': [both, { of: local, ...both }],
  'policy Local to Cluster': [{ of: local, ...both }, both],
  'policy Local to Cluster, without endpoints here': [
    { of: local, here: [], there: ['10.1.5.1'] },
    { here: [], there: ['10.1.5.1'] },
  ],
  'the first endpoint here, internal policy Local': [
    { of: { internalTrafficPolicy: 'Local' }, here: [], there: ['10.1.5.1'] },
    { of: { internalTrafficPolicy: 'Local' }, ...both },
  ],
  'source ranges where there were none': [both, { of: guarded, ...both }],
  'other source ranges': [
    { of: guarded, ...both },
    { of: guardedOtherwise, ...both },
  ],
  'no source ranges any more': [{ of: guarded, ...both }, both],
  'an external IP becomes one of the load balancer': [
    { of: { externalIPs: ['203.0.113.1', '198.51.100.1'], loadBalancerIngress: [] }, ...both },
    both,
  ],
}

const otherMode = { ...config, mode: 'iptables' } as const

for (const hasGuard of [false, true]) {
  describe(hasGuard ? 'with the guard of VIPs' : 'without the guard of VIPs', () => {
    describe('a change: served clients stay served after each operation', () => {
      for (const [name, [before, after]] of Object.entries(changes)) {
        it(`${name}, while the agent runs`, async () => {
          const watch = await Watch.open({ hasGuard })
          const lab = watch.lab()
          await lab.deliver(...eventsOf(before), synced)
          watch.begin(after)
          await lab.deliver(...eventsOf(after))
          assert.deepEqual(watch.losses, [])
          assert.deepEqual(watch.served, everyClient)
          await lab.stop()
        })

        it(`${name}, while no agent runs`, async () => {
          const watch = await Watch.open({ hasGuard })
          const former = watch.lab()
          await former.deliver(...eventsOf(before), synced)
          await former.stop()
          watch.begin(after)
          const lab = watch.lab()
          await lab.deliver(...eventsOf(after), synced)
          assert.deepEqual(watch.losses, [])
          assert.deepEqual(watch.served, everyClient)
          await lab.stop()
        })
      }
    })

    describe('a start on an empty node: served clients stay served', () => {
      for (const of of [{}, local, guarded, { ...local, ...guarded }]) {
        it(JSON.stringify(of), async () => {
          const watch = await Watch.open({ hasGuard })
          const world = { of, ...both }
          watch.begin(world)
          const lab = watch.lab()
          await lab.deliver(...eventsOf(world), synced)
          assert.deepEqual(watch.losses, [])
          assert.deepEqual(watch.served, everyClient)
          await lab.stop()
        })
      }
    })

    it('a Service whose endpoints are not known yet keeps its real servers, and refuses no client', async () => {
      const watch = await Watch.open({ hasGuard })
      const former = watch.lab()
      await former.deliver(...eventsOf(both), synced)
      await former.stop()
      watch.begin(both)
      const lab = watch.lab()
      await lab.deliver(serviceOf(both), { type: 'listed' })
      assert.deepEqual(watch.losses, [])
      assert.deepEqual(watch.served, everyClient)
      await lab.deliver(...eventsOf(both), synced)
      assert.deepEqual(watch.losses, [])
      await lab.stop()
    })

    describe('a switch of the mode: served clients stay served', () => {
      for (const of of [{}, local, guarded, { ...local, ...guarded }]) {
        it(`iptables to ipvs, ${JSON.stringify(of)}`, async () => {
          const watch = await Watch.open({ hasGuard })
          await switchModes(watch, { of, ...both }, [otherMode, config])
        })

        it(`ipvs to iptables, ${JSON.stringify(of)}`, async () => {
          const watch = await Watch.open({ hasGuard })
          await switchModes(watch, { of, ...both }, [config, otherMode])
        })
      }
    })

    describe('a takeover from kube-proxy in ipvs mode', () => {
      const stale: World = { here: ['10.1.0.8'], there: ['10.1.5.8'] }
      for (const of of [{}, local, guarded, { ...local, ...guarded }]) {
        it(`with the same endpoints loses no client, ${JSON.stringify(of)}`, async () => {
          const watch = await Watch.open({ hasGuard })
          const world = { of, ...both }
          await becomeKubeProxy(watch, world)
          watch.begin(world)
          const lab = watch.lab()
          await lab.deliver(...eventsOf(world), synced)
          assert.deepEqual(watch.losses, [])
          assert.deepEqual(watch.served, everyClient)
          await lab.stop()
        })

        it(`with stale endpoints serves all clients before it writes rules, ${JSON.stringify(of)}`, async () => {
          const watch = await Watch.open({ hasGuard })
          await becomeKubeProxy(watch, { ...stale, of })
          const world = { of, ...both }
          watch.begin(world)
          assert.deepEqual(watch.served, [])
          const lab = watch.lab()
          await lab.deliver(...eventsOf(world), synced)
          assert.deepEqual([...watch.unservedAtWrites], [])
          assert.deepEqual(watch.losses, [])
          assert.deepEqual(watch.served, everyClient)
          await lab.stop()
        })
      }

      it('a Service that had no endpoints is served before rules are written', async () => {
        const watch = await Watch.open({ hasGuard })
        await becomeKubeProxy(watch, { here: [], there: [] })
        watch.begin(both)
        const lab = watch.lab()
        await lab.deliver(...eventsOf(both), synced)
        assert.deepEqual([...watch.unservedAtWrites], [])
        assert.deepEqual(watch.losses, [])
        await lab.stop()
      })
    })

    it('a Service that had no endpoints when the agent stopped is not refused while rules are written', async () => {
      const watch = await Watch.open({ hasGuard })
      const former = watch.lab()
      await former.deliver(...eventsOf({ here: [], there: [] }), synced)
      await former.stop()
      watch.kernel.xtNamespace.table('ipv4', 'mangle').flush('KUBE-IPVS-OUT')
      watch.begin(both)
      const lab = watch.lab()
      await lab.deliver(...eventsOf(both), synced)
      assert.deepEqual([...watch.unservedAtWrites], [])
      assert.deepEqual(watch.losses, [])
      await lab.stop()
    })
  })
}

async function switchModes(
  watch: Watch,
  world: World,
  [first, second]: readonly [LabOptions['config'], LabOptions['config']],
): Promise<void> {
  const former = watch.lab(first)
  await former.deliver(...eventsOf(world), synced)
  await former.stop()
  watch.begin(world)
  assert.deepEqual(watch.served, everyClient)
  const lab = watch.lab(second)
  await lab.deliver(...eventsOf(world), synced)
  await lab.clock.advance(30_000)
  assert.deepEqual(watch.losses, [])
  await lab.stop()
}

/** Programs kube-proxy's ipvs mode, with those rules that matter for the packets of these tests. */
async function becomeKubeProxy({ kernel }: Watch, world: World): Promise<void> {
  const former = new PipelineLab({ kernel, config, vipBinding: 'addresses' })
  await former.deliver(...eventsOf(world), synced)
  await former.stop()
  await kernel.nftChains.discardTable('ipv4', 'viaduct-ipvs')
  const own = (await kernel.ipset.sets())
    .map(({ name }) => name)
    .filter((name) =>
      /^KUBE-(?:EXTERNAL-LOCAL-MARKS?|EXTERNAL-NO-LOCAL|NO-(?:LOCAL-)?ENDPOINTS|NODE-PORT-IP)$/u.test(name),
    )
  const nat = kernel.xtNamespace.table('ipv4', 'nat')
  const mangle = kernel.xtNamespace.table('ipv4', 'mangle')
  const filter = kernel.xtNamespace.table('ipv4', 'filter')
  mangle.replace(
    new Map([...mangle.chains].filter(([chain]) => mangle.isHook(chain)).map(([chain]) => [chain, []])),
  )
  const theirs = nat.chains.get('KUBE-SERVICES') ?? []
  const toNodePorts: XtRule = {
    addressType: { of: 'destination' },
    target: { kind: 'jump', chain: 'KUBE-NODE-PORT' },
  }
  nat.replace(
    new Map([...nat.chains, ['KUBE-SERVICES', theirs.map((rule) => (isOn(rule, own) ? toNodePorts : rule))]]),
  )
  filter.replace(
    new Map([...filter.chains].map(([chain, rules]) => [chain, rules.filter((rule) => !isOn(rule, own))])),
  )
  await kernel.ipset.apply(own.map((name) => ({ op: 'destroy-set', name })))
}

function isOn({ set: match }: XtRule, names: readonly string[]): boolean {
  return match !== undefined && names.includes(match.name)
}

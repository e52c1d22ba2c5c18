// Issue 37, demand 2: the chains and clients of one service port with session affinity.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { NfElements, type NfOp, packFields, printTransaction } from '../../../../src/kernel/index.js'
import { schemaOf } from '../../../../src/layers/nft-table/testing.js'
import type { Route } from '../../../../src/routing/index.js'
import { ModelNftables } from '../../../model/nftables.js'
import { type NftLab, openNftLab } from '../../../support/nft-lab.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

const schema = schemaOf('ipv4')
const { table } = schema
/** The chain of default/sticky:/TCP. */
const chain = 'own-SG4OVUJ5RLTW2DEHMZ6JFAGBZM'
const clients = schema.clients('SG4OVUJ5RLTW2DEHMZ6JFAGBZM')

function sticky(endpoints: readonly number[], rest: Partial<Route> = {}): Route {
  return plainRoute({
    service: 'default/sticky',
    clusterIP: ip('10.96.0.50'),
    affinitySeconds: 600,
    clusterBackends: backends(80, ...endpoints.map((endpoint) => `10.244.0.${endpoint}`)),
    ...rest,
  })
}

async function written(...routes: readonly Route[]): Promise<NftLab> {
  const lab = openNftLab()
  await claim(lab, ...routes)
  lab.nftables.transactions.length = 0
  return lab
}

async function claim(lab: NftLab, ...routes: readonly Route[]): Promise<void> {
  lab.claim(...routes)
  assert.equal(await lab.write(), true, JSON.stringify(lab.log.lines))
}

/** The slot of each endpoint, by the last byte of its address. */
function slotsIn(lab: NftLab, name = chain): Readonly<Record<string, number>> {
  const found: Record<string, number> = {}
  for (const rule of rulesOf(lab, name)) {
    const { endpoint, slot } =
      /@clients.* \| 0x(?<slot>[0-9a-f]+) timeout.* dnat to 10\.244\.0\.(?<endpoint>\d+):/u.exec(rule)
        ?.groups ?? {}
    if (endpoint !== undefined && slot !== undefined) found[endpoint] = Number(`0x${slot}`)
  }
  return found
}

function rulesOf(lab: NftLab, name = chain): readonly string[] {
  const rules = lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.chains.get(name)?.rules ?? []
  return rules.map((rule) =>
    printTransaction([{ op: 'add-rule', rule }])
      .trim()
      .replace(/^add rule \S+ \S+ \S+ /u, ''),
  )
}

function hasChain(lab: NftLab, name = chain): boolean {
  return lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.chains.has(name) === true
}

/** Number of elements of a set; 0 also without the set. */
function elementsIn(lab: NftLab, set: string): number {
  return lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.sets.get(set)?.elements.size ?? 0
}

/** Another program changes the table, and the agent looks. */
async function asOther(lab: NftLab, ...ops: readonly NfOp[]): Promise<void> {
  const watch = lab.nftables.watch()
  const { failures } = await new ModelNftables(lab.nftables.namespace).apply(ops)
  assert.deepEqual(failures, [])
  lab.tables.noteChanges((await watch.next()) ?? [])
  await watch.close()
  assert.equal(await lab.tables.look('partial'), true)
  assert.equal(await lab.write(), true)
}

describe('own chains of a service port with session affinity', () => {
  it('know the clients of each endpoint, choose for new ones, and count those without room', async () => {
    const lab = await written(sticky([4, 5]))
    const slots = slotsIn(lab)
    // nft lists the mask 0 so: a bit that is set afterwards makes no difference.
    const of = (endpoint: number): string => {
      const slot = `0x${(slots[endpoint] ?? 0).toString(16)}`
      return `ip saddr . meta mark & ${slot} | ${slot}`
    }
    const update = (endpoint: number): string =>
      `update @clients-SG4OVUJ5RLTW2DEHMZ6JFAGBZM { ${of(endpoint)} timeout 10m } meta l4proto tcp dnat to 10.244.0.${endpoint}:80`
    assert.deepEqual(rulesOf(lab), [
      `${of(4)} @clients-SG4OVUJ5RLTW2DEHMZ6JFAGBZM ${update(4)}`,
      `${of(5)} @clients-SG4OVUJ5RLTW2DEHMZ6JFAGBZM ${update(5)}`,
      `numgen random mod 2 0 ${update(4)}`,
      update(5),
      'meta l4proto tcp counter dnat ip to numgen random mod 2 map { 0 : 10.244.0.4 . 80, 1 : 10.244.0.5 . 80 } comment "default/sticky:/TCP"',
    ])
  })

  it('are one for all frontends with the same endpoints, and share the clients between both lists', async () => {
    const lab = await written(
      sticky([4, 5], {
        nodePort: 30_080,
        externalIPs: [ip('203.0.113.1')],
        isExternallyAccessible: true,
        isExternalLocal: true,
        localBackends: backends(80, '10.244.0.4'),
      }),
    )
    const { 4: slot } = slotsIn(lab)
    assert.deepEqual(slotsIn(lab, `${chain}-local`), { 4: slot })
  })

  it('lose an endpoint, and so the affinity to it, in the transaction of the endpoint, without a look at the clients', async () => {
    const lab = await written(sticky([4, 5]))
    const before = slotsIn(lab)
    const read: string[] = []
    const elements = lab.nftables.elements.bind(lab.nftables)
    lab.nftables.elements = async (set) => {
      read.push(set.set)
      return await elements(set)
    }
    await claim(lab, sticky([4]))
    assert.equal(lab.nftables.transactions.length, 1)
    assert.deepEqual(slotsIn(lab), { 4: before[4] })
    await lab.clock.advance(200_000)
    assert.deepEqual([lab.tables.isWriteDue, read], [false, []])
  })

  it('never use a slot again: not for an endpoint that comes back, and not after a restart', async () => {
    const lab = await written(sticky([4, 5]))
    const used = new Set(Object.values(slotsIn(lab)))
    await claim(lab, sticky([4]))
    await claim(lab, sticky([4, 5]))
    const { 5: back = 0 } = slotsIn(lab)
    assert.equal(used.has(back), false)
    used.add(back)
    await claim(lab, sticky([4]))
    const next = openNftLab({ namespace: lab.nftables.namespace })
    await next.clock.advance(5000)
    await claim(next, sticky([4, 5]))
    assert.equal(used.has(slotsIn(next)[5] ?? 0), false)
    assert.equal(slotsIn(next)[4], slotsIn(lab)[4])
  })

  it('give no slot of a former endpoint to another one after a restart', async () => {
    const many = Array.from({ length: 40 }, (_, index) => index + 1)
    const lab = await written(sticky(many))
    const used = new Set(Object.values(slotsIn(lab)))
    await claim(lab, sticky([1, 2, 3]))
    const next = openNftLab({ namespace: lab.nftables.namespace })
    await next.clock.advance(10_000)
    await claim(next, sticky([1, 2, 3, 50, 51, 52, 53]))
    const slots = slotsIn(next)
    assert.deepEqual(
      [50, 51, 52, 53].filter((endpoint) => used.has(slots[endpoint] ?? 0)),
      [],
    )
  })

  it('stay as they are when the endpoints come in another order, also after a restart', async () => {
    const lab = await written(sticky([4, 5, 6]))
    await claim(lab, sticky([6, 4, 5]))
    const next = openNftLab({ namespace: lab.nftables.namespace })
    await claim(next, sticky([5, 6, 4]))
    assert.deepEqual([lab.nftables.transactions, next.nftables.transactions], [[], []])
  })

  it('have names of their own, also for Services whose shorter hashes are the same', async () => {
    const collide = ['default/s169304', 'default/s484365'].map((service, index) =>
      plainRoute({
        service,
        clusterIP: ip(`10.96.0.${60 + index}`),
        affinitySeconds: 600,
        clusterBackends: backends(80, `10.244.0.${60 + index}`),
      }),
    )
    const lab = await written(...collide)
    const chains = [...(lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.chains.keys() ?? [])]
    assert.equal(chains.filter((name) => /^own-[A-Z2-7]{26}$/u.test(name)).length, 2)
  })

  it('are adopted with their slots', async () => {
    const lab = await written(sticky([4, 5]))
    const next = openNftLab({ namespace: lab.nftables.namespace })
    await next.clock.advance(60_000)
    await claim(next, sticky([4, 5]))
    assert.deepEqual(next.nftables.transactions, [])
  })

  it('keep the slots when the time gets longer, and get new ones when it gets shorter', async () => {
    const lab = await written(sticky([4, 5]))
    const before = slotsIn(lab)
    await claim(lab, sticky([4, 5], { affinitySeconds: 1200 }))
    assert.deepEqual(slotsIn(lab), before)
    await claim(lab, sticky([4, 5], { affinitySeconds: 60 }))
    const after = Object.values(slotsIn(lab))
    assert.deepEqual(
      after.filter((slot) => Object.values(before).includes(slot)),
      [],
    )
    assert.equal(
      rulesOf(lab).every((rule) => !rule.includes('timeout') || rule.includes('timeout 1m')),
      true,
    )
  })

  it('go a second after the last element that leads there', async () => {
    const lab = await written(sticky([4, 5]))
    lab.release(sticky([4]).key)
    assert.equal(await lab.write(), true)
    assert.equal(rulesOf(lab).length, 5)
    assert.equal(lab.tables.isWriteDue, false)
    assert.equal(lab.tables.nextInMs(), 1000)
    await lab.clock.advance(1000)
    assert.equal(lab.tables.isWriteDue, true)
    assert.equal(await lab.write(), true)
    assert.equal(hasChain(lab), false)
    assert.equal(lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.sets.has(clients.set), false)
    assert.equal(lab.tables.nextInMs(), undefined)
  })

  it('stay when they are needed again within that second', async () => {
    const lab = await written(sticky([4, 5]))
    const before = slotsIn(lab)
    lab.release(sticky([4]).key)
    await lab.write()
    await lab.clock.advance(500)
    await claim(lab, sticky([4, 5]))
    await lab.clock.advance(5000)
    assert.equal(lab.tables.isWriteDue, false)
    assert.deepEqual(slotsIn(lab), before)
  })

  it('take over from the sets of all frontends, and give back, in two transactions a second apart', async () => {
    const lab = await written(sticky([4, 5], { affinitySeconds: 0 }))
    await claim(lab, sticky([4, 5]))
    const sizes = (): readonly number[] =>
      [
        'services-with-endpoints',
        'services-with-2',
        'service-endpoint-1',
        'services-with-own-chain',
        'own-services',
      ].map((set) => elementsIn(lab, set))
    assert.deepEqual(sizes(), [0, 1, 1, 1, 1])
    assert.equal(lab.tables.nextInMs(), 1000)
    await lab.clock.advance(1000)
    assert.equal(lab.tables.isWriteDue, true)
    await lab.write()
    assert.deepEqual(sizes(), [0, 0, 0, 1, 1])
    await claim(lab, sticky([4, 5], { affinitySeconds: 0 }))
    assert.deepEqual(sizes(), [1, 1, 1, 1, 1])
    await lab.clock.advance(1000)
    await lab.write()
    assert.deepEqual(sizes(), [1, 1, 1, 0, 0])
  })

  it('are repaired: a rule of another program, no rules, no element that leads there', async () => {
    const lab = await written(sticky([4, 5]))
    const before = rulesOf(lab)
    const place = { ...table, chain }
    const drop = {
      ...place,
      expressions: [{ kind: 'immediate', to: 'verdict', data: { verdict: { code: 'drop' } } } as const],
    }
    await asOther(lab, { op: 'insert-rule', rule: drop })
    assert.deepEqual(rulesOf(lab), before)
    await asOther(lab, { op: 'flush-chain', chain: place })
    assert.deepEqual(rulesOf(lab), before)
    await asOther(lab, { op: 'flush-set', set: schema.services.endpoints.ownChains })
    assert.equal(elementsIn(lab, 'own-services'), 1)
    await asOther(
      lab,
      { op: 'flush-set', set: schema.services.endpoints.ownChains },
      { op: 'delete-chain', chain: place },
      { op: 'delete-set', set: clients },
    )
    assert.deepEqual([rulesOf(lab), elementsIn(lab, 'own-services')], [before, 1])
  })

  it('are repaired when an element leads elsewhere', async () => {
    const lab = await written(sticky([4, 5]))
    const map = schema.services.endpoints.ownChains
    const [kept] =
      lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.sets.get(map.set)?.elements.values() ?? []
    assert.ok(kept !== undefined)
    const key = packFields(map.key, ['10.96.0.50', 6, 80])
    await asOther(
      lab,
      { op: 'flush-set', set: map },
      { op: 'add-elements', elements: new NfElements(map).add(key, { verdict: { code: 'drop' } }) },
    )
    const look = await new ModelNftables(lab.nftables.namespace).elements(map)
    assert.deepEqual(look.verdict(0), { code: 'goto', chain })
  })

  it('of a service port that is left out go with it, and the others are served', async () => {
    const lab = openNftLab()
    lab.nftables.plan = {
      fault: (op) => (op.op === 'add-chain' && op.chain.chain === chain ? 28 : undefined),
    }
    lab.claim(sticky([4, 5]), plainRoute({ clusterBackends: backends(80, '10.244.0.9') }))
    assert.equal(await lab.write(), true)
    assert.equal(hasChain(lab), false)
    assert.equal(elementsIn(lab, 'services-with-endpoints'), 1)
    assert.equal(lab.tables.hasRefusals, true)
  })
})

describe('clients of a former owner of the table', () => {
  it('of kube-proxy keep their endpoints, with the time that they have left', async () => {
    const other = new ModelNftables()
    const set = {
      ...table,
      set: 'affinity-ABCDEFGH-default/sticky/tcp/__10.244.0.5/80',
      key: ['ipv4_addr'],
      flags: ['dynamic', 'timeout'],
      size: 65_535,
      timeoutMs: 600_000,
    } as const
    const client = packFields(set.key, ['192.0.2.7'])
    const elements = new NfElements(set).add(client, { timeoutMs: 600_000, expirationMs: 120_000 })
    await other.apply([
      { op: 'add-table', table },
      { op: 'add-set', set },
      { op: 'add-elements', elements },
    ])
    const lab = openNftLab({ namespace: other.namespace })
    await claim(lab, sticky([4, 5]))
    const found = await other.elements(clients)
    const { 5: slot = 0 } = slotsIn(lab)
    assert.deepEqual(
      [found.length, found.key(0), found.timeoutMs(0), found.expirationMs(0)],
      [1, packFields(clients.key, ['192.0.2.7', slot]), 600_000, 120_000],
    )
    await lab.clock.advance(1000)
    await lab.write()
    assert.equal(other.namespace.tables.ipv4.get('kube-proxy')?.sets.has(set.set), false)
  })

  it('of the maps of all frontends keep theirs', async () => {
    const other = new ModelNftables()
    const map = {
      ...table,
      set: 'session-affinity',
      key: ['ip saddr', 'ip daddr', 'meta l4proto', 'th dport'],
      data: ['ip daddr', 'th dport'],
      flags: ['timeout', 'dynamic'],
      size: 262_144,
      gcIntervalMs: 10_000,
    } as const
    const elements = new NfElements(map).add(packFields(map.key, ['192.0.2.7', '10.96.0.50', 6, 80]), {
      data: packFields(map.data, ['10.244.0.4', 80]),
      timeoutMs: 600_000,
      expirationMs: 60_000,
    })
    await other.apply([
      { op: 'add-table', table },
      { op: 'add-set', set: map },
      { op: 'add-elements', elements },
    ])
    const lab = openNftLab({ namespace: other.namespace })
    await claim(lab, sticky([4, 5]))
    const found = await other.elements(clients)
    const { 4: slot = 0 } = slotsIn(lab)
    assert.deepEqual([found.length, found.key(0)], [1, packFields(clients.key, ['192.0.2.7', slot])])
    await lab.clock.advance(1000)
    await lab.write()
    assert.equal(other.namespace.tables.ipv4.get('kube-proxy')?.sets.has(map.set), false)
  })
})

describe('clients of a former owner, when the kernel refuses a chain of another Service', () => {
  it('come with the next transaction', async () => {
    const other = new ModelNftables()
    const set = {
      ...table,
      set: 'affinity-ABCDEFGH-default/sticky/tcp/__10.244.0.5/80',
      key: ['ipv4_addr'],
      flags: ['dynamic', 'timeout'],
      timeoutMs: 600_000,
      size: 65_535,
    } as const
    const client = packFields(set.key, ['192.0.2.7'])
    await other.apply([
      { op: 'add-table', table },
      { op: 'add-set', set },
      {
        op: 'add-elements',
        elements: new NfElements(set).add(client, { timeoutMs: 600_000, expirationMs: 120_000 }),
      },
    ])
    const lab = openNftLab({ namespace: other.namespace })
    const bad = sticky([6], { key: plainRoute({ service: 'default/bad' }).key, clusterIP: ip('10.96.0.51') })
    lab.nftables.plan = {
      fault: (op) =>
        op.op === 'add-chain' && /^own-(?!SG4OVUJ5)[A-Z2-7]{26}/u.test(op.chain.chain) ? 28 : undefined,
    }
    await claim(lab, sticky([4, 5]), bad)
    assert.equal((await other.elements(clients)).length, 1)
  })
})

describe('a full set of clients', () => {
  it('is reported with its service port until there is room', async () => {
    const lab = await written(
      sticky([4, 5]),
      sticky([6], {
        service: 'default/other',
        key: plainRoute({ service: 'default/other' }).key,
        clusterIP: ip('10.96.0.51'),
      }),
    )
    let count = 262_144
    const sets = lab.nftables.sets.bind(lab.nftables)
    lab.nftables.sets = async (scope) =>
      (await sets(scope)).map((set) =>
        set.set === clients.set ? { ...set, attributes: { ...set.attributes, count } } : set,
      )
    await lab.tables.look('full')
    const lines = lab.log.find('error', 'clients')
    assert.equal(lines.length, 1, JSON.stringify(lab.log.lines))
    assert.match(JSON.stringify(lines), /default\/sticky:\/TCP/u)
    count = 262_143
    await lab.tables.look('full')
    assert.equal(lab.log.find('info', 'Programmed again').length, 1, JSON.stringify(lab.log.lines))
  })
})

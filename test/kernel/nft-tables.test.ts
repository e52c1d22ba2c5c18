// The table of nftables mode in the real kernel: made, adopted by a second program without a write, changed, and repaired.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import type { Nftables, NfTransaction } from '../../src/kernel/index.js'
import { compileRoute, compileStructure } from '../../src/layers/nft-table/testing.js'
import type { Route } from '../../src/routing/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { contentOf, countElements, inByteOrder, NftLab, wantedContent } from '../support/nft-lab.js'
import { makeNftSettings, useOf } from '../support/nft-table.js'
import { mustRun } from '../support/processes.js'
import { backends, cidr, ip, plainRoute } from '../support/routes.js'

requireFreshNamespace()

const pods = { ipv4: '10.244.0.', ipv6: 'fd00:244::' } as const
const services = { ipv4: '10.96.0.', ipv6: 'fd00:96::' } as const
const outside = { ipv4: '203.0.113.', ipv6: '2001:db8::' } as const
const networks = {
  ipv4: ['192.0.2.0/24', '0.0.0.0/0', '198.51.100.7/32'],
  ipv6: ['2001:db8:1::/48', '::/0', '2001:db8::7/128'],
} as const

function routesOf(family: IpFamily, endpoints: number): readonly Route[] {
  const list = Array.from({ length: endpoints }, (_, index) => `${pods[family]}${index + 1}`)
  const all = backends(8080, ...list)
  return [
    plainRoute({ clusterIP: ip(`${services[family]}1`), clusterBackends: all }),
    plainRoute({ service: 'default/empty', clusterIP: ip(`${services[family]}2`) }),
    plainRoute({
      service: 'default/outside',
      protocol: 'UDP',
      clusterIP: ip(`${services[family]}3`),
      nodePort: 30_053,
      externalIPs: [ip(`${outside[family]}1`)],
      loadBalancerIPs: [ip(`${outside[family]}2`)],
      sourceRanges: networks[family].map(cidr),
      affinitySeconds: 600,
      isExternallyAccessible: true,
      isExternalLocal: true,
      clusterBackends: all,
      localBackends: all.slice(0, 1),
    }),
  ]
}

/** Keeps the transactions that go through it. */
function recording(nftables: Nftables, transactions: NfTransaction[]): Nftables {
  return new Proxy(nftables, {
    get: (target, name) => {
      if (name === 'apply')
        return async (...[transaction, options]: Parameters<Nftables['apply']>) => {
          transactions.push(transaction)
          return await target.apply(transaction, options)
        }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

describe('the table of nftables mode in the kernel', () => {
  let nftables: Nftables
  const transactions: NfTransaction[] = []
  before(() => (nftables = recording(openRealKernel().nftables, transactions)))
  after(() => nftables.close())
  beforeEach(async () => {
    await mustRun(['nft', 'flush', 'ruleset'])
    transactions.length = 0
  })

  async function assertContent(family: IpFamily, routes: readonly Route[]): Promise<void> {
    const settings = makeNftSettings(family)
    const desired = routes.map((route) => compileRoute(route, settings))
    const { sets } = compileStructure(settings, useOf(desired))
    const found = await Promise.all(
      sets.map(async (set) => ({ set, elements: await nftables.elements(set) })),
    )
    assert.deepEqual(inByteOrder(contentOf(found)), inByteOrder(wantedContent(desired, family)))
  }

  for (const family of ['ipv4', 'ipv6'] as const) {
    const settings = makeNftSettings(family)

    it(`is made, changed, and adopted without a write: ${family}`, async () => {
      const lab = new NftLab(nftables, { settings })
      lab.claim(...routesOf(family, 3))
      assert.equal(await lab.write(), true, JSON.stringify(lab.log.lines))
      assert.equal(transactions.length, 1)
      await assertContent(family, routesOf(family, 3))
      for (const endpoints of [4, 2, 1, 3]) {
        lab.claim(...routesOf(family, endpoints))
        assert.equal(await lab.write(), true, JSON.stringify(lab.log.lines))
        await assertContent(family, routesOf(family, endpoints))
      }
      assert.equal(transactions.length, 5)
      await lab.tables.look('full')
      await lab.write()
      transactions.length = 0
      const next = new NftLab(nftables, { settings })
      next.claim(...routesOf(family, 3))
      assert.equal(await next.write(), true)
      assert.deepEqual(countElements(transactions), {})
    })

    it(`is repaired after nft changed or removed it: ${family}`, async () => {
      const lab = new NftLab(nftables, { settings })
      const watch = nftables.watch()
      lab.claim(...routesOf(family, 3))
      await lab.write()
      const ip4or6 = family === 'ipv4' ? 'ip' : 'ip6'
      const commands = [
        'flush ruleset',
        `flush table ${ip4or6} kube-proxy`,
        `flush map ${ip4or6} kube-proxy service-endpoint-0`,
        `add rule ${ip4or6} kube-proxy services drop`,
        `delete chain ${ip4or6} kube-proxy nat-prerouting`,
        `delete element ${ip4or6} kube-proxy cluster-ips { ${services[family]}1 }`,
        `add element ${ip4or6} kube-proxy services-with-endpoints { ${services[family]}7 . tcp . 80 }`,
        `add table ${ip4or6} kube-proxy { flags dormant ; }`,
        `add table ${ip4or6} kube-proxy { flags dormant ; } ; delete chain ${ip4or6} kube-proxy nat-prerouting`,
      ]
      for (const command of commands) {
        await mustRun(['nft', ...command.split(' ')])
        assert.equal(lab.tables.noteChanges((await watch.next()) ?? []), true, command)
        assert.equal(await lab.tables.look('partial'), true, command)
        assert.equal(await lab.write(), true, JSON.stringify(lab.log.lines))
        assert.equal(await lab.tables.look('full'), false, command)
        await assertContent(family, routesOf(family, 3))
      }
      await watch.close()
    })

    it(`is made again if it is dormant and empty: ${family}`, async () => {
      await mustRun(['nft', `add table ${family === 'ipv4' ? 'ip' : 'ip6'} kube-proxy { flags dormant ; }`])
      const lab = new NftLab(nftables, { settings })
      lab.claim(...routesOf(family, 3))
      assert.equal(await lab.write(), true, JSON.stringify(lab.log.lines))
      assert.equal(await lab.tables.look('full'), false)
      const made = (await nftables.tables(family)).find(({ table }) => table === 'kube-proxy')
      assert.equal(made?.flags, undefined)
      await assertContent(family, routesOf(family, 3))
    })
  }
})

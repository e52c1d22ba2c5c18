import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Route } from '../../../../src/routing/index.js'
import { compileRoute } from '../../../../src/layers/nft-table/testing.js'
import {
  countElements,
  inByteOrder,
  modelContent,
  type NftLab,
  openNftLab,
  wantedContent,
} from '../../../support/nft-lab.js'
import { makeNftSettings } from '../../../support/nft-table.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

function web(...addresses: readonly string[]): Route {
  return plainRoute({ clusterBackends: backends(8080, ...addresses) })
}

const busy = plainRoute({
  service: 'default/busy',
  clusterIP: ip('10.96.0.9'),
  nodePort: 30_080,
  externalIPs: [ip('203.0.113.1')],
  loadBalancerIPs: [ip('203.0.113.2')],
  sourceRanges: [cidr('192.0.2.0/24'), cidr('0.0.0.0/0'), cidr('198.51.100.7/32')],
  affinitySeconds: 600,
  isExternallyAccessible: true,
  isExternalLocal: true,
  clusterBackends: backends(8080, '10.244.0.1', '10.244.1.1', '10.244.1.2'),
  localBackends: backends(8080, '10.244.0.1'),
})

function addressOf(letter: string): string {
  return `10.244.0.${letter.charCodeAt(0)}`
}

function assertContent(lab: NftLab, routes: readonly Route[]): void {
  const desired = routes.map((route) => compileRoute(route, lab.settings))
  assert.deepEqual(inByteOrder(modelContent(lab)), inByteOrder(wantedContent(desired, lab.family)))
}

describe('the table of nftables mode', () => {
  it('is made by one transaction', async () => {
    const lab = openNftLab()
    const routes = [web('10.244.0.1', '10.244.0.2'), busy]
    lab.claim(...routes)
    assert.equal(await lab.write(), true)
    assert.equal(lab.nftables.transactions.length, 1)
    assertContent(lab, routes)
    assert.equal(lab.tables.isBehind, false)
  })

  it('is made for IPv6', async () => {
    const lab = openNftLab({ settings: makeNftSettings('ipv6') })
    const routes = [
      plainRoute({ clusterIP: ip('fd00:10:96::1'), clusterBackends: backends(53, 'fd00::1', 'fd00::2') }),
    ]
    lab.claim(...routes)
    await lab.write()
    assertContent(lab, routes)
  })

  it('is left alone by a second write', async () => {
    const lab = openNftLab()
    lab.claim(busy)
    await lab.write()
    lab.claim(busy)
    assert.equal(await lab.write(), true)
    assert.equal(lab.nftables.transactions.length, 1)
  })

  const changes = [
    { name: 'an endpoint is added', from: ['a', 'b'], to: ['a', 'b', 'c'], added: 2, deleted: 1 },
    { name: 'the last endpoint is removed', from: ['a', 'b', 'c'], to: ['a', 'b'], added: 1, deleted: 2 },
    { name: 'the first endpoint is removed', from: ['a', 'b', 'c'], to: ['b', 'c'], added: 2, deleted: 3 },
    { name: 'an endpoint is replaced', from: ['a', 'b', 'c'], to: ['a', 'c', 'd'], added: 1, deleted: 1 },
    { name: 'the order changes', from: ['a', 'b', 'c'], to: ['c', 'b', 'a'], added: 0, deleted: 0 },
    { name: 'all endpoints go', from: ['a', 'b'], to: [], added: 1, deleted: 4 },
    { name: 'the first endpoint comes', from: [], to: ['a'], added: 3, deleted: 1 },
    { name: 'two of five go', from: ['a', 'b', 'c', 'd', 'e'], to: ['b', 'c', 'e'], added: 2, deleted: 4 },
  ]
  for (const { name, from, to, added, deleted } of changes) {
    it(`changes as few elements as it can: ${name}`, async () => {
      const lab = openNftLab()
      lab.claim(web(...from.map(addressOf)))
      await lab.write()
      const after = web(...to.map(addressOf))
      lab.claim(after)
      await lab.write()
      const transactions = lab.nftables.transactions.slice(1)
      assert.equal(transactions.length, added + deleted === 0 ? 0 : 1)
      const counts = countElements(transactions)
      assert.deepEqual([counts['add-elements'] ?? 0, counts['delete-elements'] ?? 0], [added, deleted])
      assertContent(lab, [after])
    })
  }

  it('moves a frontend in one transaction, whichever of its two service ports is claimed first', async () => {
    const former = web('10.244.0.1')
    const next = plainRoute({ service: 'default/api', clusterBackends: backends(1, '10.244.3.3') })
    for (const isNextFirst of [true, false]) {
      const lab = openNftLab()
      const { tables } = lab
      const claim = (route: Route): void => tables.claim(route.key, compileRoute(route, lab.settings))
      claim(former)
      await lab.write()
      const { length } = lab.nftables.transactions
      if (isNextFirst) claim(next)
      tables.claim(former.key, undefined)
      if (!isNextFirst) claim(next)
      await lab.write()
      assert.equal(lab.nftables.transactions.length, length + 1)
      assertContent(lab, [next])
      // The former owner has no object of the frontend to give up.
      tables.claim(former.key, undefined)
      await lab.write()
      assertContent(lab, [next])
      assert.equal(tables.sizes.frontend, 1)
    }
  })

  it('keeps a cluster IP and an endpoint on this node while a holder is left', async () => {
    const settings = makeNftSettings()
    const lab = openNftLab({ settings })
    const endpoint = { address: ip('10.244.0.1'), port: 80, nodeName: settings.nodeName }
    const ports = ['a', 'b'].map((portName, index) =>
      plainRoute({ portName, port: 80 + index, clusterBackends: [endpoint] }),
    )
    lab.claim(...ports)
    await lab.write()
    for (const left of [ports.slice(1), []]) {
      lab.release(...ports.filter((route) => !left.includes(route)).map(({ key }) => key))
      await lab.write()
      assertContent(lab, left)
    }
  })

  it('has the networks of cluster IPs as intervals', async () => {
    const cases = [
      { networks: ['10.96.0.0/16'], intervals: ['0a600000 ', '0a610000  end'] },
      { networks: ['10.97.0.0/16', '10.96.0.0/16'], intervals: ['0a600000 ', '0a620000  end'] },
      { networks: ['10.96.0.0/12', '10.96.0.0/16'], intervals: ['0a600000 ', '0a700000  end'] },
      { networks: ['240.0.0.0/4', '10.0.0.0/8'], intervals: ['0a000000 ', '0b000000  end', 'f0000000 '] },
      { networks: ['fd00::/112'], intervals: undefined },
    ]
    const lab = openNftLab()
    for (const { networks, intervals } of cases) {
      lab.tables.setServiceCidrs(networks.map(cidr))
      await lab.write()
      assert.deepEqual(modelContent(lab)['service-cidrs'], intervals)
    }
  })

  it('follows the addresses that serve node ports', async () => {
    const lab = openNftLab()
    for (const addresses of [['192.0.2.1'], ['192.0.2.1', '192.0.2.2'], []]) {
      lab.tables.setSettings(makeNftSettings('ipv4', { nodePortAddresses: addresses.map(ip) }))
      await lab.write()
      assert.equal(modelContent(lab)['nodeport-ips']?.length ?? 0, addresses.length)
    }
    lab.tables.setSettings(makeNftSettings())
    await lab.write()
    assert.equal(await lab.tables.look('full'), false)
    await lab.write()
    await lab.cleanUp()
    assert.equal(lab.nftables.namespace.tables.ipv4.get('kube-proxy')?.sets.has('nodeport-ips'), false)
  })

  it('drops chains and sets for values that are out of use at a full comparison', async () => {
    const lab = openNftLab()
    lab.claim(web('10.244.0.1', '10.244.0.2'), busy)
    await lab.write()
    lab.claim(web('10.244.0.1'))
    lab.release(busy.key)
    await lab.write()
    const table = lab.nftables.namespace.tables.ipv4.get('kube-proxy')
    assert.ok(table !== undefined && table.chains.has('service-with-2'))
    assert.equal(await lab.tables.look('full'), false)
    assert.equal(lab.tables.isWriteDue, true)
    await lab.write()
    await lab.cleanUp()
    assert.equal(lab.tables.isWriteDue, false)
    const names = [...table.chains.keys(), ...table.sets.keys()]
    assert.deepEqual(
      names.filter((name) => /^services?-with-2$|-endpoint-1$|allowed-sources-|session-affinity/.test(name)),
      [],
    )
    const fresh = openNftLab()
    fresh.claim(web('10.244.0.1'))
    await fresh.write()
    const expected = fresh.nftables.namespace.tables.ipv4.get('kube-proxy')
    assert.deepEqual([...table.chains.keys()].toSorted(), [...(expected?.chains.keys() ?? [])].toSorted())
  })
})

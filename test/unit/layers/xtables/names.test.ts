import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { compileRoute, compileSkeleton } from '../../../../src/modes/iptables/testing.js'
import { ownedChains } from '../../../../src/layers/xtables/index.js'
import { makeSettings } from '../../../support/packet-model-settings.js'
import { tablesOf } from '../../../support/packet-model-tables.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

describe('names of chains', () => {
  const route = plainRoute({
    service: 'ns1/svc1',
    portName: 'p80',
    affinitySeconds: 10,
    nodePort: 30080,
    loadBalancerIPs: [ip('5.6.7.8')],
    clusterBackends: [{ address: ip('10.180.0.1'), port: 80 }],
    localBackends: [{ address: ip('10.180.0.1'), port: 80 }],
    isExternalLocal: true,
  })

  it("have kube-proxy's hashes", () => {
    const names = compileRoute(route, makeSettings()).chains.map(({ chain }) => chain)
    assert.deepEqual(names.toSorted(), [
      'KUBE-EXT-XPGD46QRK7WJZT7O',
      'KUBE-SEP-SXIVWICOYRO3J4NJ',
      'KUBE-SVC-XPGD46QRK7WJZT7O',
      'KUBE-SVL-XPGD46QRK7WJZT7O',
    ])
  })

  it('differ by port name, protocol and endpoint', () => {
    const others = [
      plainRoute({ service: 'ns1/svc1', clusterBackends: backends(8080, '10.180.0.1') }),
      plainRoute({ service: 'ns1/svc1', clusterBackends: backends(8080, '10.180.0.1'), protocol: 'UDP' }),
      plainRoute({
        service: 'ns1/svc1:p80',
        clusterBackends: backends(8080, '10.180.0.1'),
        protocol: 'SCTP',
      }),
      plainRoute({
        service: 'ns1/svc1',
        clusterBackends: backends(8080, 'fd00:1::1', 'fd00:1::2'),
        portName: 'p81',
        affinitySeconds: 1,
      }),
    ]
    const names = others.flatMap((other) =>
      compileRoute(other, makeSettings()).chains.map(({ chain }) => chain),
    )
    assert.equal(new Set(names).size, 6)
  })

  it('match the patterns of own chains', () => {
    const many = Array.from({ length: 40 }, (_, i) => [
      plainRoute({
        service: `ns/refused-${i}`,
        clusterIP: ip(`10.96.1.${i}`),
        nodePort: 31000 + i,
        externalIPs: [ip(`5.6.7.${i}`)],
      }),
      {
        ...route,
        service: `ns/served-${i}`,
        clusterIP: ip(`10.96.0.${i}`),
        loadBalancerIPs: [ip(`5.5.5.${i}`)],
        sourceRanges: [{ family: 'ipv4' as const, address: ip('10.0.0.0'), prefixLength: 8 }],
        nodePort: 30000 + i,
        healthCheckNodePort: 32000 + i,
      },
    ]).flat()
    const tables = tablesOf(many, makeSettings())
    for (const table of ['nat', 'filter'] as const) {
      const isOwned = (chain: string) =>
        ownedChains[table].some((name) =>
          name.endsWith('*') ? chain.startsWith(name.slice(0, -1)) : chain === name,
        )
      const foreign = [...tables[table].chains.keys()].filter((chain) => !isOwned(chain))
      assert.deepEqual(foreign, table === 'filter' ? ['KUBE-FIREWALL'] : [])
      const long = [...tables[table].chains.keys()].filter((chain) => chain.length > 28)
      assert.deepEqual(long, [])
    }
    assert.ok(tables.nat.chains.size > 80)
    assert.equal(compileSkeleton(makeSettings('ipv6')).chains.at(-1)?.chain, 'KUBE-PROXY-CANARY')
  })
})

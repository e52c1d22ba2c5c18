import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { compileRoute, describeDesired } from '../../../../src/layers/nft-table/testing.js'
import { makeNftSettings } from '../../../support/nft-table.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

describe('the description of a route in nftables mode', () => {
  it('has every element of a Service of external policy Local', () => {
    const route = plainRoute({
      nodePort: 30080,
      loadBalancerIPs: [ip('203.0.113.1')],
      sourceRanges: [cidr('192.0.2.0/24')],
      isExternallyAccessible: true,
      isExternalLocal: true,
      affinitySeconds: 10_800,
      clusterBackends: backends(8080, '10.1.0.1', '10.2.0.1'),
      localBackends: backends(8080, '10.1.0.1').map((backend) => ({ ...backend, nodeName: 'node-a' })),
    })
    assert.deepEqual(describeDesired(compileRoute(route, makeNftSettings()), 'ipv4'), [
      'add element ip kube-proxy cluster-ips { 10.96.0.1 }',
      'add element ip kube-proxy services-with-own-chain { 10.96.0.1 . tcp . 80 }',
      'add element ip kube-proxy own-services { 10.96.0.1 . tcp . 80 : goto own-LADD6ECIKXGNICRRZFQCWSJYJJ }',
      'add element ip kube-proxy firewalled-services { 203.0.113.1 . tcp . 80 }',
      'add element ip kube-proxy allowed-sources-24 { 203.0.113.1 . tcp . 80 . 192.0.2.0 }',
      'add element ip kube-proxy services-with-own-chain { 203.0.113.1 . tcp . 80 }',
      'add element ip kube-proxy own-services { 203.0.113.1 . tcp . 80 : goto own-LADD6ECIKXGNICRRZFQCWSJYJJ-local }',
      'add element ip kube-proxy short-circuit-services-with-own-chain { 203.0.113.1 . tcp . 80 }',
      'add element ip kube-proxy short-circuit-own-services { 203.0.113.1 . tcp . 80 : goto own-LADD6ECIKXGNICRRZFQCWSJYJJ }',
      'add element ip kube-proxy nodeports-with-own-chain { tcp . 30080 }',
      'add element ip kube-proxy own-nodeports { tcp . 30080 : goto own-LADD6ECIKXGNICRRZFQCWSJYJJ-local }',
      'add element ip kube-proxy short-circuit-nodeports-with-own-chain { tcp . 30080 }',
      'add element ip kube-proxy short-circuit-own-nodeports { tcp . 30080 : goto own-LADD6ECIKXGNICRRZFQCWSJYJJ }',
      'add element ip kube-proxy hairpin-connections { 10.1.0.1 . 10.1.0.1 . tcp . 8080 }',
      'add chain ip kube-proxy own-LADD6ECIKXGNICRRZFQCWSJYJJ',
      'add rule ip kube-proxy own-LADD6ECIKXGNICRRZFQCWSJYJJ meta l4proto tcp counter dnat ip to numgen random mod 2 map { 0 : 10.1.0.1 . 8080, 1 : 10.2.0.1 . 8080 } comment "default/web:/TCP"',
      'add chain ip kube-proxy own-LADD6ECIKXGNICRRZFQCWSJYJJ-local',
      'add rule ip kube-proxy own-LADD6ECIKXGNICRRZFQCWSJYJJ-local meta l4proto tcp counter dnat ip to numgen random mod 1 map { 0 : 10.1.0.1 . 8080 } comment "default/web:/TCP"',
    ])
  })

  it('has the refusals of a Service without endpoints', () => {
    const route = plainRoute({
      protocol: 'SCTP',
      clusterIP: ip('fd00::1'),
      externalIPs: [ip('fd00::2')],
      nodePort: 30080,
      isExternallyAccessible: true,
      isInternalLocal: true,
      hasEndpoints: true,
    })
    assert.deepEqual(describeDesired(compileRoute(route, makeNftSettings('ipv6')), 'ipv6'), [
      'add element ip6 kube-proxy cluster-ips { fd00::1 }',
      'add element ip6 kube-proxy dropped-services { fd00::1 . sctp . 80 }',
      'add element ip6 kube-proxy rejected-services { fd00::2 . sctp . 80 }',
      'add element ip6 kube-proxy masqueraded-services { fd00::2 . sctp . 80 }',
      'add element ip6 kube-proxy rejected-nodeports { sctp . 30080 }',
      'add element ip6 kube-proxy masqueraded-nodeports { sctp . 30080 }',
    ])
  })

  it('ends after 1000 lines', () => {
    const addresses = Array.from({ length: 1000 }, (_, index) => `10.1.${index >> 8}.${index & 255}`)
    const route = plainRoute({ clusterBackends: backends(80, ...addresses) })
    const lines = describeDesired(compileRoute(route, makeNftSettings()), 'ipv4')
    assert.equal(lines.length, 1001)
    assert.equal(lines.at(-1), '# more than 1000 lines, the rest is left out')
  })
})

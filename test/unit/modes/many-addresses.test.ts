// Routes with very many addresses: the work of a change grows with their number, not with its square.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpAddress } from '../../../src/address.js'
import { resolveConfig } from '../../../src/config/index.js'
import { compileRoute as compileIptables } from '../../../src/modes/iptables/testing.js'
import { compileRoute as compileIpvs } from '../../../src/modes/ipvs/testing.js'
import { compileRoute as compileNft } from '../../../src/layers/nft-table/testing.js'
import { compileRoute as compileRelay } from '../../../src/layers/relay/index.js'
import { explainFrontends, frontendsOf, type Route } from '../../../src/routing/index.js'
import { standingOf } from '../../../src/routing/testing.js'
import { makeNftSettings } from '../../support/nft-table.js'
import { makeSettings } from '../../support/packet-model-settings.js'
import { backends, cidr, ip, plainRoute } from '../../support/routes.js'

const count = 500
const addresses = Array.from({ length: 2 * count }, (_, i) => ip(`192.0.${i >> 8}.${i & 255}`))
const nodeIP = ip('198.51.100.1')
const node = { nodePortAddresses: [], nodeAddresses: new Set([nodeIP]), nodeIP }

/** Calls `work` with a route of 500 external IPs and 500 load-balancer IPs. Returns how often it reads one of them. */
function readsOf(work: (route: Route) => unknown): number {
  let reads = 0
  const counted = (list: readonly IpAddress[]): readonly IpAddress[] =>
    new Proxy(list, {
      get: (target, property): unknown => {
        if (typeof property === 'string' && /^\d+$/u.test(property)) reads++
        return Reflect.get(target, property)
      },
    })
  const clusterBackends = backends(8080, '10.1.0.1')
  work(
    plainRoute({
      isExternallyAccessible: true,
      externalIPs: counted(addresses.slice(0, count)),
      loadBalancerIPs: counted(addresses.slice(count)),
      sourceRanges: [cidr('198.51.100.0/24')],
      clusterBackends,
      hasEndpoints: true,
    }),
  )
  return reads
}

describe('a route with 500 external IPs and 500 load-balancer IPs', () => {
  const works: readonly (readonly [string, (route: Route) => unknown])[] = [
    ['claims', (route) => frontendsOf(route).map((frontend) => standingOf(frontend, route))],
    ['is explained', explainFrontends],
    ['is compiled for iptables mode', (route) => compileIptables(route, makeSettings())],
    ['is compiled for nftables mode', (route) => compileNft(route, makeNftSettings())],
    [
      'is compiled for ipvs mode',
      (route) => {
        const { ipvs } = resolveConfig({ manifests: 'none' })
        compileIpvs(route, { ...ipvs, masqueradeMark: 0x4000, missing: new Set<string>(), ...node }, 1)
      },
    ],
    ['is compiled for the relay', (route) => compileRelay(route, { ...node, servesAllAddresses: true })],
  ]
  for (const [name, work] of works) {
    it(`${name} with few reads of each address`, () => {
      const reads = readsOf(work)
      assert.ok(reads >= 2 * count && reads <= 20 * count, `${reads} reads of ${2 * count} addresses`)
    })
  }
})

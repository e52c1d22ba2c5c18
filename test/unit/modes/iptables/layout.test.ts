import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { compileRoute, type IptablesModeSettings } from '../../../../src/modes/iptables/testing.js'
import { describeFrontend, frontendsOf, type Route } from '../../../../src/routing/index.js'
import { makeSettings } from '../../../support/packet-model-settings.js'
import { tablesOf, type Weight, weightOf } from '../../../support/packet-model-tables.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

const endpoints = fc.subarray([1, 2, 3, 4]).map((hosts) => backends(8080, ...hosts.map((n) => `10.1.0.${n}`)))
const routes: fc.Arbitrary<Route> = fc
  .record({
    clusterBackends: endpoints,
    localBackends: endpoints,
    hasEndpoints: fc.boolean(),
    nodePort: fc.constantFrom(0, 30080),
    externalIPs: fc.subarray(['5.5.5.1', '5.5.5.2'].map(ip)),
    loadBalancerIPs: fc.subarray(['6.6.6.1', '6.6.6.2'].map(ip)),
    sourceRanges: fc.subarray(['10.0.0.0/8', '192.168.0.0/16'].map(cidr)),
    affinitySeconds: fc.constantFrom(0, 10),
    isInternalLocal: fc.boolean(),
    isExternalLocal: fc.boolean(),
    healthCheckNodePort: fc.constantFrom(0, 31000),
  })
  .map((rest) => plainRoute(rest))
const settings: fc.Arbitrary<IptablesModeSettings> = fc
  .record({
    masqueradeAll: fc.boolean(),
    localDetector: fc.constantFrom(undefined, { kind: 'interface', name: 'cni0' } as const),
    nodeIP: fc.constantFrom(undefined, ip('192.168.0.1')),
    withComments: fc.boolean(),
  })
  .map((rest) => makeSettings('ipv4', rest))

describe('properties of a compiled route for any routing result', () => {
  it('jumps only to existing chains, and has no chain without a jump to it', () => {
    fc.assert(
      fc.property(routes, settings, (route, mode) => {
        const { nat } = tablesOf([route], mode)
        const rules = [...nat.chains.values(), ...nat.hooks.values()].flat()
        const reached = new Set(rules.flatMap(({ target }) => ('chain' in target ? [target.chain] : [])))
        for (const chain of reached) assert.ok(nat.chains.has(chain), `${chain} is missing`)
        const { chains } = compileRoute(route, mode)
        const names = chains.map(({ chain }) => chain)
        assert.equal(new Set(names).size, names.length)
        // Without that external policy routing gives no such backends, and the chain does not exist.
        const isUsed = (chain: string) => reached.has(chain) || /KUBE-(SVC|SVL)-/.test(chain)
        const unused = names.filter((chain) => !isUsed(chain) && !chain.startsWith('KUBE-SEP-'))
        assert.deepEqual(unused, [])
      }),
    )
  })

  it('serves or refuses each of its frontends', () => {
    fc.assert(
      fc.property(routes, settings, (route, mode) => {
        const { frontends } = compileRoute(route, mode)
        const claimed = frontends.map(({ frontend }) => describeFrontend(frontend))
        const { healthCheckNodePort: port } = route
        const wanted = frontendsOf(route).map(describeFrontend)
        if (port !== 0) wanted.push(describeFrontend({ kind: 'health-check', protocol: 'tcp', port }))
        assert.deepEqual(new Set(claimed), new Set(wanted))
        assert.equal(claimed.filter((name) => name === wanted[0]).length, 1)
      }),
    )
  })
})

/** Services scattered over one /16. */
const world = (count: number, endpointCount: number, rest: (i: number) => Partial<Route> = () => ({})) =>
  Array.from({ length: count }, (_, i) => {
    const place = (i * 40503 + 7) % 65536
    return plainRoute({
      service: `ns/svc-${i}`,
      clusterIP: ip(`10.96.${place >> 8}.${place & 255}`),
      clusterBackends: Array.from({ length: endpointCount }, (_unused, k) => ({
        address: ip(`10.128.${(i >> 4) & 255}.${k}`),
        port: 8080,
      })),
      ...rest(i),
    })
  })

describe('the size of a table of services', () => {
  const mode = makeSettings('ipv4', { localDetector: { kind: 'cidr', cidr: cidr('10.244.0.0/16') } })
  const added = (route: readonly Route[], settingsOf = mode): Weight => {
    const empty = weightOf(tablesOf([], settingsOf).nat.chains, 'ipv4')
    const full = weightOf(tablesOf(route, settingsOf).nat.chains, 'ipv4')
    return {
      chains: full.chains - empty.chains,
      entries: full.entries - empty.entries,
      bytes: full.bytes - empty.bytes,
    }
  }

  const cases = [
    { name: 'a cluster IP', routes: world(1, 1), entries: 5, bytes: 872 },
    {
      name: 'a cluster IP without a detector',
      routes: world(1, 1),
      mode: makeSettings(),
      entries: 4,
      bytes: 720,
    },
    { name: 'each further endpoint', routes: world(1, 2), entries: 6, bytes: 872 + 248 },
    { name: 'a node port', routes: world(1, 1, () => ({ nodePort: 30080 })), entries: 10, bytes: 1704 },
    { name: 'affinity', routes: world(1, 1, () => ({ affinitySeconds: 10 })), entries: 9, bytes: 2032 },
  ]
  for (const { name, routes: some, mode: other = mode, entries, bytes } of cases) {
    it(`${name}: ${entries} entries`, () => {
      const weight = added(some, other)
      assert.deepEqual({ entries: weight.entries, bytes: weight.bytes }, { entries, bytes })
    })
  }

  it('10,000 services: half an entry per service for the dispatch', () => {
    const { entries, bytes } = added(world(10_000, 1))
    assert.ok(entries <= 10_000 * 5.5, `${entries} entries`)
    assert.ok(bytes < 9.5e6, `${bytes} bytes`)
  })
})

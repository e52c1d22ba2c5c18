// No mode accepts packets before the host's firewall that kube-proxy's rules do not accept.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpFamily } from '../../../src/address.js'
import { describeXtRule, type XtRule } from '../../../src/kernel/index.js'
import { compileChains } from '../../../src/layers/ipvs/testing.js'
import type { Route } from '../../../src/routing/index.js'
import { makeSettings } from '../../support/packet-model-settings.js'
import { tablesOf } from '../../support/packet-model-tables.js'
import { backends, cidr, ip, plainRoute } from '../../support/routes.js'

/** A route with every feature. */
const busy: Route = plainRoute({
  nodePort: 30_080,
  externalIPs: [ip('10.98.0.1')],
  loadBalancerIPs: [ip('10.97.0.1')],
  sourceRanges: [cidr('192.168.60.0/24')],
  isExternalLocal: true,
  isExternallyAccessible: true,
  healthCheckNodePort: 32_000,
  clusterBackends: backends(80, '10.1.0.1', '10.1.0.2'),
  localBackends: backends(80, '10.1.0.1'),
  hasEndpoints: true,
})

interface Place {
  readonly table: string
  readonly chain: string
  readonly rules: readonly XtRule[]
}

/** `CHAIN RULE` of each ACCEPT of a table, without comments and byte code. */
function accepts(places: readonly Place[], table: string, family: IpFamily): readonly string[] {
  return places
    .filter((place) => place.table === table)
    .flatMap(({ chain, rules }) =>
      rules
        .filter(({ target }) => target.kind === 'accept')
        .map((rule) => `${chain} ${describeXtRule(rule, family)}`),
    )
    .map((line) =>
      line
        .replace(/ -m comment --comment "[^"]*"/u, '')
        .replace(/--bytecode "[^"]*"/u, '(source = destination)'),
    )
}

function ipvsPlaces(family: IpFamily): readonly Place[] {
  const settings = {
    family,
    masqueradeMark: 0x4000,
    masqueradeAll: false,
    localDetector: { kind: 'interface', name: 'cni+' },
  } as const
  return compileChains(settings).map((chain) => ({
    table: chain.table,
    chain: 'hook' in chain ? chain.hook : chain.chain,
    rules: chain.rules,
  }))
}

function iptablesPlaces(family: IpFamily): readonly Place[] {
  const tables = tablesOf([busy], makeSettings(family))
  return (['filter', 'nat'] as const).flatMap((table) =>
    [...tables[table].chains, ...tables[table].hooks].map(([chain, rules]) => ({ table, chain, rules })),
  )
}

const forward = [
  'KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT',
  'KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
]

describe('the packets that table filter accepts', () => {
  for (const family of ['ipv4', 'ipv6'] as const) {
    const prefix = family === 'ipv4' ? 'KUBE-' : 'KUBE-6-'
    it(`${family}, ipvs mode: what kube-proxy's ipvs mode accepts, nothing at INPUT but health checks`, () => {
      const healthChecks = `KUBE-NODE-PORT -m set --match-set ${prefix}HEALTH-CHECK-NODE-PORT dst -j ACCEPT`
      assert.deepEqual(accepts(ipvsPlaces(family), 'filter', family), [...forward, healthChecks])
      assert.deepEqual(accepts(ipvsPlaces(family), 'mangle', family), [])
    })
  }

  it('iptables mode: the same as kube-proxy; hairpin packets get their mark later here', () => {
    const hairpin = 'KUBE-FORWARD -m conntrack --ctstate DNAT -m bpf (source = destination) -j ACCEPT'
    const healthChecks = 'KUBE-NODEPORTS -p tcp -m tcp --dport 32000 -j ACCEPT'
    assert.deepEqual(
      accepts(iptablesPlaces('ipv4'), 'filter', 'ipv4').toSorted(),
      [...forward, hairpin, healthChecks].toSorted(),
    )
    assert.deepEqual(accepts(iptablesPlaces('ipv4'), 'nat', 'ipv4'), [])
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { compileRoute, type IptablesModeSettings } from '../../../../src/modes/iptables/testing.js'
import { endpointRules } from '../../../../src/modes/iptables/compile/compile.js'
import type { Route } from '../../../../src/routing/index.js'
import { makeSettings } from '../../../support/packet-model-settings.js'
import { formatRule } from '../../../support/packet-model-tables.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

const hashes = { TCP: 'XPGD46QRK7WJZT7O' } as const

/** Chains, then frontends, one rule per line. `#` stands for the hash of the service port. */
function compiled(rest: Partial<Route>, settings: Partial<IptablesModeSettings> = {}): string {
  const route = plainRoute({ service: 'ns1/svc1', portName: 'p80', clusterIP: ip('172.30.0.41'), ...rest })
  const { chains, frontends } = compileRoute(route, makeSettings('ipv4', settings))
  return [
    ...chains.flatMap(({ table, chain, rules }) => [
      `:${table} ${chain}`,
      ...rules.map((rule) => `  ${formatRule(rule)}`),
    ]),
    ...frontends.flatMap(({ dispatch, rules }) =>
      rules.map((rule) => `${dispatch.table} ${dispatch.chain} ${formatRule(rule)}`),
    ),
  ]
    .join('\n')
    .replaceAll(hashes.TCP, '#')
}

const one = backends(80, '10.180.0.1')
const three = backends(80, '10.180.0.1', '10.180.0.2', '10.180.0.3')
const everywhere = {
  nodePort: 30080,
  externalIPs: [ip('5.6.7.8')],
  loadBalancerIPs: [ip('9.9.9.9')],
} as const
const pods = { kind: 'cidr', cidr: cidr('10.180.0.0/16') } as const

const cases: readonly {
  readonly name: string
  readonly route: Partial<Route>
  readonly settings?: Partial<IptablesModeSettings>
  readonly listing: string
}[] = [
  {
    name: 'a cluster IP with one endpoint',
    route: { clusterBackends: one },
    listing: `
:nat KUBE-SVC-#
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 -j KUBE-SVC-#`,
  },
  {
    name: 'no cluster IP: no masquerading of its traffic either',
    route: { clusterIP: undefined, nodePort: 30080, clusterBackends: one },
    settings: { localDetector: pods },
    listing: `
:nat KUBE-EXT-#
  -j KUBE-MARK-MASQ
  -j KUBE-SVC-#
:nat KUBE-SVC-#
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-NODEPORTS -p tcp --dport 30080 -j KUBE-EXT-#`,
  },
  {
    name: 'random choice among three endpoints, with comments',
    route: { clusterBackends: three },
    settings: { withComments: true },
    listing: `
:nat KUBE-SVC-#
  -p tcp --probability 0.3333333333 -j DNAT 10.180.0.1 80
  -p tcp --probability 0.5000000000 -j DNAT 10.180.0.2 80
  -p tcp -j DNAT 10.180.0.3 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 cluster IP" -j KUBE-SVC-#`,
  },
  {
    name: 'masquerade of clients outside a CIDR',
    route: { clusterBackends: one },
    settings: { localDetector: pods },
    listing: `
:nat KUBE-SVC-#
  ! -s 10.180.0.0/16 -d 172.30.0.41/32 -j KUBE-MARK-MASQ
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 -j KUBE-SVC-#`,
  },
  {
    name: 'masquerade of clients that do not come through a bridge',
    route: { clusterBackends: one },
    settings: { localDetector: { kind: 'interface', name: 'cni+' }, withComments: true },
    listing: `
:nat KUBE-SVC-#
  -d 172.30.0.41/32 ! -i cni+ "ns1/svc1:p80 cluster IP" -j KUBE-MARK-MASQ
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 cluster IP" -j KUBE-SVC-#`,
  },
  {
    name: 'masqueradeAll with a detector: all clients of the cluster IP',
    route: {
      clusterBackends: three.slice(0, 2),
      localBackends: one,
      isInternalLocal: true,
      externalIPs: [ip('5.6.7.8')],
    },
    settings: { localDetector: pods, masqueradeAll: true },
    listing: `
:nat KUBE-EXT-#
  -j KUBE-MARK-MASQ
  -j KUBE-SVC-#
:nat KUBE-SVC-#
  -p tcp --probability 0.5000000000 -j DNAT 10.180.0.1 80
  -p tcp -j DNAT 10.180.0.2 80
:nat KUBE-SVL-#
  -d 172.30.0.41/32 -j KUBE-MARK-MASQ
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 -j KUBE-SVL-#
nat KUBE-SERVICES -d 5.6.7.8/32 -p tcp --dport 80 -j KUBE-EXT-#`,
  },
  {
    name: 'every kind of frontend',
    route: { ...everywhere, clusterBackends: one },
    settings: { withComments: true },
    listing: `
:nat KUBE-EXT-#
  "masquerade traffic for ns1/svc1:p80 external destinations" -j KUBE-MARK-MASQ
  -j KUBE-SVC-#
:nat KUBE-SVC-#
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 cluster IP" -j KUBE-SVC-#
nat KUBE-SERVICES -d 5.6.7.8/32 -p tcp --dport 80 "ns1/svc1:p80 external IP" -j KUBE-EXT-#
nat KUBE-SERVICES -d 9.9.9.9/32 -p tcp --dport 80 "ns1/svc1:p80 loadbalancer IP" -j KUBE-EXT-#
nat KUBE-NODEPORTS -p tcp --dport 30080 "ns1/svc1:p80" -j KUBE-EXT-#`,
  },
  {
    name: 'externalTrafficPolicy Local with short-circuited local clients',
    route: {
      ...everywhere,
      isExternalLocal: true,
      clusterBackends: three.slice(0, 2),
      localBackends: one,
      healthCheckNodePort: 31000,
    },
    settings: { localDetector: pods, withComments: true },
    listing: `
:nat KUBE-EXT-#
  -s 10.180.0.0/16 "pod traffic for ns1/svc1:p80 external destinations" -j KUBE-SVC-#
  "masquerade LOCAL traffic for ns1/svc1:p80 external destinations" --src-type LOCAL -j KUBE-MARK-MASQ
  "route LOCAL traffic for ns1/svc1:p80 external destinations" --src-type LOCAL -j KUBE-SVC-#
  -j KUBE-SVL-#
:nat KUBE-SVC-#
  ! -s 10.180.0.0/16 -d 172.30.0.41/32 "ns1/svc1:p80 cluster IP" -j KUBE-MARK-MASQ
  -p tcp --probability 0.5000000000 -j DNAT 10.180.0.1 80
  -p tcp -j DNAT 10.180.0.2 80
:nat KUBE-SVL-#
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 cluster IP" -j KUBE-SVC-#
nat KUBE-SERVICES -d 5.6.7.8/32 -p tcp --dport 80 "ns1/svc1:p80 external IP" -j KUBE-EXT-#
nat KUBE-SERVICES -d 9.9.9.9/32 -p tcp --dport 80 "ns1/svc1:p80 loadbalancer IP" -j KUBE-EXT-#
nat KUBE-NODEPORTS -p tcp --dport 30080 "ns1/svc1:p80" -j KUBE-EXT-#
filter KUBE-NODEPORTS -p tcp --dport 31000 "ns1/svc1 health check node port" -j ACCEPT`,
  },
  {
    name: 'externalTrafficPolicy Local with endpoints elsewhere, without a detector',
    route: { ...everywhere, isExternalLocal: true, clusterBackends: one, hasEndpoints: true },
    settings: { withComments: true },
    listing: `
:nat KUBE-EXT-#
  "masquerade LOCAL traffic for ns1/svc1:p80 external destinations" --src-type LOCAL -j KUBE-MARK-MASQ
  "route LOCAL traffic for ns1/svc1:p80 external destinations" --src-type LOCAL -j KUBE-SVC-#
:nat KUBE-SVC-#
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 cluster IP" -j KUBE-SVC-#
nat KUBE-SERVICES -d 5.6.7.8/32 -p tcp --dport 80 "ns1/svc1:p80 external IP" -j KUBE-EXT-#
filter KUBE-EXTERNAL-SERVICES -d 5.6.7.8/32 -p tcp --dport 80 "ns1/svc1:p80 has no local endpoints" -j DROP
nat KUBE-SERVICES -d 9.9.9.9/32 -p tcp --dport 80 "ns1/svc1:p80 loadbalancer IP" -j KUBE-EXT-#
filter KUBE-EXTERNAL-SERVICES -d 9.9.9.9/32 -p tcp --dport 80 "ns1/svc1:p80 has no local endpoints" -j DROP
nat KUBE-NODEPORTS -p tcp --dport 30080 "ns1/svc1:p80" -j KUBE-EXT-#
filter KUBE-EXTERNAL-SERVICES -p tcp --dport 30080 "ns1/svc1:p80 has no local endpoints" --dst-type LOCAL -j DROP`,
  },
  {
    name: 'no endpoints at all',
    route: { ...everywhere, isExternalLocal: true, healthCheckNodePort: 31000 },
    settings: { withComments: true, localDetector: pods },
    listing: `
filter KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 has no endpoints" -j REJECT
filter KUBE-EXTERNAL-SERVICES -d 5.6.7.8/32 -p tcp --dport 80 "ns1/svc1:p80 has no endpoints" -j REJECT
filter KUBE-EXTERNAL-SERVICES -d 9.9.9.9/32 -p tcp --dport 80 "ns1/svc1:p80 has no endpoints" -j REJECT
filter KUBE-EXTERNAL-SERVICES -p tcp --dport 30080 "ns1/svc1:p80 has no endpoints" --dst-type LOCAL -j REJECT
filter KUBE-NODEPORTS -p tcp --dport 31000 "ns1/svc1 health check node port" -j ACCEPT`,
  },
  {
    name: 'internalTrafficPolicy Local with endpoints elsewhere',
    route: { isInternalLocal: true, hasEndpoints: true },
    listing: `
filter KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 -j DROP`,
  },
  {
    name: 'source ranges, with a node that is allowed',
    route: {
      clusterBackends: one,
      loadBalancerIPs: [ip('9.9.9.9'), ip('9.9.9.10')],
      sourceRanges: [cidr('192.168.0.0/24'), cidr('203.0.113.0/25')],
    },
    settings: { nodeIP: ip('192.168.0.1'), withComments: true },
    listing: `
:nat KUBE-EXT-#
  "masquerade traffic for ns1/svc1:p80 external destinations" -j KUBE-MARK-MASQ
  -j KUBE-SVC-#
:nat KUBE-FW-#
  -s 192.168.0.0/24 "ns1/svc1:p80 loadbalancer IP" -j KUBE-EXT-#
  -s 203.0.113.0/25 "ns1/svc1:p80 loadbalancer IP" -j KUBE-EXT-#
  -s 9.9.9.9/32 "ns1/svc1:p80 loadbalancer IP" -j KUBE-EXT-#
  -s 9.9.9.10/32 "ns1/svc1:p80 loadbalancer IP" -j KUBE-EXT-#
:nat KUBE-SVC-#
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 cluster IP" -j KUBE-SVC-#
nat KUBE-SERVICES -d 9.9.9.9/32 -p tcp --dport 80 "ns1/svc1:p80 loadbalancer IP" -j KUBE-FW-#
filter KUBE-PROXY-FIREWALL -d 9.9.9.9/32 -p tcp --dport 80 "ns1/svc1:p80 traffic not accepted by KUBE-FW-#" -j DROP
nat KUBE-SERVICES -d 9.9.9.10/32 -p tcp --dport 80 "ns1/svc1:p80 loadbalancer IP" -j KUBE-FW-#
filter KUBE-PROXY-FIREWALL -d 9.9.9.10/32 -p tcp --dport 80 "ns1/svc1:p80 traffic not accepted by KUBE-FW-#" -j DROP`,
  },
  {
    name: "an external IP that is also a load-balancer VIP has only the external IP's rule, as in kube-proxy",
    route: {
      clusterBackends: one,
      externalIPs: [ip('9.9.9.9')],
      loadBalancerIPs: [ip('9.9.9.9')],
      sourceRanges: [cidr('192.168.0.0/24')],
    },
    settings: { withComments: true },
    listing: `
:nat KUBE-EXT-#
  "masquerade traffic for ns1/svc1:p80 external destinations" -j KUBE-MARK-MASQ
  -j KUBE-SVC-#
:nat KUBE-SVC-#
  -p tcp -j DNAT 10.180.0.1 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 cluster IP" -j KUBE-SVC-#
nat KUBE-SERVICES -d 9.9.9.9/32 -p tcp --dport 80 "ns1/svc1:p80 external IP" -j KUBE-EXT-#`,
  },
  {
    name: 'source ranges without endpoints refuse all clients',
    route: { loadBalancerIPs: [ip('9.9.9.9')], sourceRanges: [cidr('192.168.0.0/24')] },
    listing: `
filter KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 -j REJECT
filter KUBE-EXTERNAL-SERVICES -d 9.9.9.9/32 -p tcp --dport 80 -j REJECT`,
  },
  {
    name: 'session affinity, shared by cluster and local traffic',
    route: {
      affinitySeconds: 10800,
      nodePort: 30080,
      isExternalLocal: true,
      clusterBackends: three.slice(0, 2),
      localBackends: one,
    },
    settings: { withComments: true },
    listing: `
:nat KUBE-EXT-#
  "masquerade LOCAL traffic for ns1/svc1:p80 external destinations" --src-type LOCAL -j KUBE-MARK-MASQ
  "route LOCAL traffic for ns1/svc1:p80 external destinations" --src-type LOCAL -j KUBE-SVC-#
  -j KUBE-SVL-#
:nat KUBE-SVC-#
  --name KUBE-SEP-SXIVWICOYRO3J4NJ --rcheck --seconds 10800 --reap -j KUBE-SEP-SXIVWICOYRO3J4NJ
  --name KUBE-SEP-LXVODXWDISEETFEF --rcheck --seconds 10800 --reap -j KUBE-SEP-LXVODXWDISEETFEF
  -p tcp --probability 0.5000000000 -j KUBE-SEP-SXIVWICOYRO3J4NJ
  -p tcp -j KUBE-SEP-LXVODXWDISEETFEF
:nat KUBE-SVL-#
  --name KUBE-SEP-SXIVWICOYRO3J4NJ --rcheck --seconds 10800 --reap -j KUBE-SEP-SXIVWICOYRO3J4NJ
  -p tcp -j KUBE-SEP-SXIVWICOYRO3J4NJ
:nat KUBE-SEP-SXIVWICOYRO3J4NJ
  -p tcp "ns1/svc1:p80" --name KUBE-SEP-SXIVWICOYRO3J4NJ --set -j DNAT 10.180.0.1 80
:nat KUBE-SEP-LXVODXWDISEETFEF
  -p tcp "ns1/svc1:p80" --name KUBE-SEP-LXVODXWDISEETFEF --set -j DNAT 10.180.0.2 80
nat KUBE-SERVICES -d 172.30.0.41/32 -p tcp --dport 80 "ns1/svc1:p80 cluster IP" -j KUBE-SVC-#
nat KUBE-NODEPORTS -p tcp --dport 30080 "ns1/svc1:p80" -j KUBE-EXT-#`,
  },
]

/** The rules that lead to endpoints, each with its place. */
function compiledEndpoints(route: Route, settings: IptablesModeSettings): readonly string[] {
  return compileRoute(route, settings).chains.flatMap(({ chain, rules }) =>
    rules.flatMap(({ target }, rule) =>
      target.kind === 'dnat' ? [`${chain} ${rule}/${rules.length} ${target.address} ${target.port}`] : [],
    ),
  )
}

describe('the rules of endpoints', () => {
  for (const { name, route: rest, settings: changed } of cases)
    it(`are in the places in which they are compiled: ${name}`, () => {
      const route = plainRoute(rest)
      const settings = makeSettings('ipv4', changed ?? {})
      const places = endpointRules(route, settings).flatMap(({ chain, size, first, backends: all }) =>
        all.map(({ address, port }, i) => `${chain} ${first + i}/${size} ${address} ${port}`),
      )
      assert.deepEqual(places, compiledEndpoints(route, settings))
    })
})

describe('a route as chains and frontends', () => {
  for (const { name, route, settings, listing } of cases) {
    it(name, () => assert.equal(compiled(route, settings), listing.trimStart()))
  }

  it('with the longest possible names has comments within the kernel limit', () => {
    const name = 'a'.repeat(63)
    const names = { service: `${name}/${name}`, portName: name, ...everywhere }
    const ranges = [cidr('10.0.0.0/8')]
    for (const rest of [{}, { clusterBackends: three, sourceRanges: ranges, isExternalLocal: true }]) {
      const { chains, frontends } = compileRoute(
        plainRoute({ ...names, ...rest }),
        makeSettings('ipv4', { localDetector: pods }),
      )
      const comments = [...chains, ...frontends].flatMap(({ rules }) =>
        rules.map(({ comment = '' }) => comment.length),
      )
      assert.ok(Math.max(...comments) <= 255, String(comments))
    }
  })

  it('compiles for IPv6 and every protocol', () => {
    for (const [protocol, expected] of [
      ['TCP', 'tcp'],
      ['UDP', 'udp'],
      ['SCTP', 'sctp'],
    ] as const) {
      const route = plainRoute({
        protocol,
        clusterIP: ip('fd00::41'),
        clusterBackends: backends(53, 'fd01::1'),
        isInternalLocal: false,
      })
      const { chains, frontends } = compileRoute(route, makeSettings('ipv6'))
      assert.deepEqual(chains[0]?.rules.map(formatRule), [`-p ${expected} -j DNAT fd01::1 53`])
      assert.deepEqual(
        frontends.map(({ frontend }) => frontend),
        [{ kind: 'address', address: 'fd00::41', protocol: expected, port: 80 }],
      )
      assert.match(
        formatRule(frontends[0]?.rules[0] ?? assert.fail()),
        /^-d fd00::41\/128 -p \w+ --dport 80 /,
      )
    }
  })
})

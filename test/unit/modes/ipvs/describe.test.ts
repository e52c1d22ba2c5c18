// The description of a route, compared with the output of ipvsadm and ipset on a real kernel (docs/ipvs-example.md).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig } from '../../../../src/config/index.js'
import { compileRoute, describeServers, type IpvsModeSettings } from '../../../../src/modes/ipvs/testing.js'
import type { Route } from '../../../../src/routing/index.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'
import { treeText } from '../../../support/tree.js'

const nodeIP = ip('192.168.50.1')

function settingsOf(scheduler?: string): IpvsModeSettings {
  const { ipvs } = resolveConfig({
    manifests: 'none',
    ...(scheduler === undefined ? {} : { ipvs: { scheduler } }),
  })
  const node = { nodePortAddresses: [nodeIP], nodeAddresses: new Set([nodeIP]), nodeIP }
  return { ...ipvs, masqueradeMark: 0x4000, missing: new Set<string>(), ...node }
}

function described(rest: Partial<Route>, mark?: number, scheduler?: string): readonly string[] {
  return describeServers(compileRoute(plainRoute(rest), settingsOf(scheduler), mark))
}

/** The lines of docs/ipvs-example.md with these beginnings. */
function printed(...beginnings: readonly string[]): readonly string[] {
  const lines = treeText('docs/ipvs-example.md').split('\n')
  return lines.filter((line) => beginnings.some((beginning) => line.startsWith(beginning))).toSorted()
}

/** The Services of examples/ipvs/services.yaml. */
const example = [
  described({ clusterIP: ip('10.96.0.20'), clusterBackends: backends(8080, '10.244.1.11', '10.244.2.11') }),
  described(
    {
      clusterIP: ip('10.96.0.21'),
      nodePort: 30081,
      isExternallyAccessible: true,
      isExternalLocal: true,
      clusterBackends: backends(8080, '10.244.1.21', '10.244.2.21'),
      localBackends: backends(8080, '10.244.1.21'),
    },
    4103,
  ),
  described({
    clusterIP: ip('10.96.0.22'),
    port: 443,
    nodePort: 30082,
    isExternallyAccessible: true,
    loadBalancerIPs: [ip('203.0.113.22')],
    sourceRanges: [cidr('192.0.2.0/24')],
    clusterBackends: backends(8443, '10.244.1.31'),
  }),
  described({
    protocol: 'UDP',
    clusterIP: ip('10.96.0.10'),
    port: 53,
    clusterBackends: backends(5353, '10.244.1.41', '10.244.2.41'),
  }),
].flat()

describe('the description of a route in ipvs mode', () => {
  it('has the virtual servers and real servers that ipvsadm prints', () => {
    const servers = example.filter((line) => !line.startsWith('add '))
    assert.deepEqual(servers.toSorted(), printed('-A -t', '-A -u', '-A -f', '-a -'))
  })

  it('has the entries that ipset prints, except those without a route', () => {
    const entries = example.filter((line) => line.startsWith('add '))
    const ofTheMode = 'add KUBE-NODE-PORT-IP '
    const expected = printed('add KUBE-').filter((line) => !line.startsWith(ofTheMode))
    assert.deepEqual(entries.toSorted(), expected)
  })

  const web: Partial<Route> = { clusterBackends: backends(8080, '10.244.1.5') }
  const cases: readonly {
    readonly name: string
    readonly route: Partial<Route>
    readonly scheduler?: string
    readonly mark?: number
    readonly expected: string
  }[] = [
    { name: 'persistence', route: { affinitySeconds: 600 }, expected: '-A -t 10.96.0.1:80 -s rr -p 600' },
    {
      name: 'flags of a scheduler',
      route: web,
      scheduler: 'mh',
      expected: '-A -t 10.96.0.1:80 -s mh -b mh-port',
    },
    { name: 'SCTP', route: { protocol: 'SCTP' }, expected: '-A --sctp-service 10.96.0.1:80 -s rr' },
    {
      name: 'IPv6',
      route: { clusterIP: ip('fd00::1'), clusterBackends: backends(80, 'fd01::1') },
      expected: '-a -t [fd00::1]:80 -r [fd01::1]:80 -m -w 1',
    },
    {
      name: 'a refused frontend',
      route: {},
      expected: 'add KUBE-NO-ENDPOINTS 10.96.0.1,tcp:80',
    },
  ]
  for (const { name, route, scheduler, mark, expected } of cases) {
    it(`shows ${name}`, () => {
      const lines = described(route, mark, scheduler)
      assert.ok(lines.includes(expected), lines.join('\n'))
    })
  }

  it('shows a mark of IPv6', () => {
    const lines = described(
      {
        clusterIP: ip('fd00::1'),
        externalIPs: [ip('fd00::2')],
        isExternallyAccessible: true,
        isExternalLocal: true,
      },
      4103,
    )
    assert.ok(lines.includes('-A -f 4103 -6 -s rr'), lines.join('\n'))
  })

  it('has each entry once if several addresses serve the node port', () => {
    const route = plainRoute({ nodePort: 30080, isExternallyAccessible: true })
    const nodePortAddresses = [nodeIP, ip('192.168.50.2')]
    const lines = describeServers(compileRoute(route, { ...settingsOf(), nodePortAddresses }, undefined))
    assert.equal(lines.filter((line) => line === 'add KUBE-NODE-PORT-TCP 30080').length, 1)
  })

  it('ends after 1000 lines, with a note', () => {
    const addresses = Array.from({ length: 2000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`)
    const lines = described({ clusterBackends: backends(80, ...addresses) })
    assert.equal(lines.length, 1001)
    assert.equal(lines.at(-1), '# more than 1000 lines, the rest is left out')
  })
})

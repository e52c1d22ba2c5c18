// nft of three Debian releases lists the whole tables of nftables mode, and loads its own listing: into an empty namespace and behind a
// table of the host.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import {
  NfElements,
  type NfField,
  type NfTransaction,
  type Nftables,
  packFields,
} from '../../src/kernel/index.js'
import { schemaOf } from '../../src/layers/nft-table/testing.js'
import type { Route } from '../../src/routing/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { makeNftSettings, tableOps } from '../support/nft-table.js'
import { nftOf, nftSuites, type NftSuite } from '../support/nft-versions.js'
import { mustRun, runToEnd } from '../support/processes.js'
import { backends, cidr, ip, plainRoute } from '../support/routes.js'

requireFreshNamespace()

const host = `table inet filter {
  set allowed { type ipv4_addr; flags interval; elements = { 192.0.2.0/24 } }
  chain input { type filter hook input priority 0; policy accept; ip saddr @allowed counter accept; }
}
`

/** A table of one family. */
class Lab {
  readonly #family: IpFamily
  readonly #address: NfField

  constructor(family: IpFamily) {
    this.#family = family
    this.#address = family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'
  }

  #ip(number: number): string {
    return this.#family === 'ipv4' ? `10.244.1.${number}` : `fd00:10:244::${number}`
  }

  /** The table of Services with 1, 2, 20 and 70 endpoints, node ports, short circuits, source ranges, refusals, and affinity. */
  get transaction(): NfTransaction {
    const isIPv4 = this.#family === 'ipv4'
    const pods = cidr(isIPv4 ? '10.244.1.0/24' : 'fd00:10:244::/64')
    const settings = makeNftSettings(this.#family, {
      localDetector: { kind: 'cidr', cidr: pods },
      nodePortAddresses: [ip(isIPv4 ? '192.0.2.1' : '2001:db8::1')],
    })
    const endpoints = (count: number): readonly string[] =>
      Array.from({ length: count }, (_, index) => this.#ip(index + 1))
    const service = (number: number, count: number): Route =>
      plainRoute({
        service: `default/s${number}`,
        clusterIP: ip(isIPv4 ? `10.96.0.${number}` : `fd00:10:96::${number}`),
        clusterBackends: backends(8080, ...endpoints(count)),
      })
    const local = plainRoute({
      service: 'default/local',
      clusterIP: ip(isIPv4 ? '10.96.0.90' : 'fd00:10:96::90'),
      nodePort: 30_080,
      loadBalancerIPs: [ip(isIPv4 ? '203.0.113.1' : '2001:db8:1::1')],
      sourceRanges: [cidr(isIPv4 ? '198.51.100.0/24' : '2001:db8:2::/48')],
      isExternallyAccessible: true,
      isExternalLocal: true,
      clusterBackends: backends(8080, ...endpoints(3)),
      localBackends: backends(8080, ...endpoints(1)).map((backend) => ({ ...backend, nodeName: 'node-a' })),
    })
    const routes = [0, 1, 2, 20, 70].map((count, index) => service(index + 1, count))
    const sticky = plainRoute({
      ...local,
      key: plainRoute({ service: 'default/sticky' }).key,
      service: 'default/sticky',
      clusterIP: ip(isIPv4 ? '10.96.0.91' : 'fd00:10:96::91'),
      nodePort: 30_081,
      loadBalancerIPs: [],
      affinitySeconds: 10_800,
    })
    const ops = tableOps(settings, [...routes, local, sticky])
    const clients = ops.find((op) => op.op === 'add-set' && op.set.set.startsWith('clients-'))
    assert.ok(clients?.op === 'add-set')
    const client = packFields(clients.set.key, [this.#ip(7), 1])
    const { serviceCidrs } = schemaOf(this.#family)
    const [start, end] = isIPv4 ? ['10.96.0.0', '10.97.0.0'] : ['fd00:10:96::', 'fd00:10:97::']
    return [
      ...ops,
      {
        op: 'add-elements',
        elements: new NfElements(clients.set).add(client, { timeoutMs: 10_800_000, expirationMs: 3_600_000 }),
      },
      {
        op: 'add-elements',
        elements: new NfElements(serviceCidrs)
          .add(packFields([this.#address], [start]))
          .add(packFields([this.#address], [end]), { isIntervalEnd: true }),
      },
    ]
  }
}

/** The remaining time differs with each listing. */
function comparable(listing: string): string {
  return listing.replaceAll(/ expires [0-9a-z]+/g, '')
}

/** JSON loses the comments of sets. */
function withoutComments(listing: string): string {
  return comparable(listing).replaceAll(/^\s*comment ".*"\n/gm, '')
}

describe('nft of several releases', () => {
  let nftables: Nftables
  let folder: string
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-nft-'))
    nftables = openRealKernel().nftables
    for (const family of ['ipv4', 'ipv6'] as const)
      assert.deepEqual((await nftables.apply(new Lab(family).transaction)).failures, [])
  })
  after(async () => {
    await nftables.close()
    rmSync(folder, { recursive: true })
  })

  /** Loads a listing in a new namespace, and lists our tables again. */
  function load(suite: NftSuite, listing: string): ReturnType<typeof runToEnd> {
    const file = join(folder, 'listing')
    writeFileSync(file, listing)
    const list = '"$@" -sn list table ip kube-proxy && exec "$@" -sn list table ip6 kube-proxy'
    const format = listing.startsWith('{') ? '-j ' : ''
    const script = `"$@" ${format}-f ${file} && ${list}`
    return runToEnd(['unshare', '--net', 'sh', '-c', script, 'sh', ...nftOf(suite)])
  }

  for (const suite of nftSuites) {
    for (const option of ['', '-s', '-n'])
      it(`${suite}: loads what nft ${option} list ruleset prints`.replace('  ', ' '), async () => {
        const options = option === '' ? [] : [option]
        const listing = await mustRun([...nftOf(suite), ...options, 'list', 'ruleset'])
        const original = await mustRun([...nftOf(suite), '-sn', 'list', 'ruleset'])
        for (const first of ['', host]) {
          const loaded = await load(suite, first + listing)
          assert.deepEqual([loaded.code, loaded.stderr], [0, ''], listing)
          assert.equal(comparable(loaded.stdout).trim(), comparable(original).trim())
        }
      })
    it(`${suite}: JSON`, async () => {
      const listing = await mustRun([...nftOf(suite), '-j', 'list', 'ruleset'])
      const loaded = await load(suite, listing)
      if (suite === 'bookworm') {
        assert.match(loaded.stderr, /Invalid map type/)
        return
      }
      assert.deepEqual([loaded.code, loaded.stderr], [0, ''], listing)
      const original = await mustRun([...nftOf(suite), '-sn', 'list', 'ruleset'])
      assert.equal(withoutComments(loaded.stdout).trim(), withoutComments(original).trim())
    })
  }
})

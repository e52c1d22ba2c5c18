// nft of three Debian releases lists the whole tables of nftables mode without session affinity, and loads its own listing: into an empty
// namespace and behind a table of the host. The tables also have the planned chains of single Services.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import {
  anonymousSet,
  NfElements,
  type NfExpression,
  type NfField,
  type NfOp,
  type NfSet,
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

const mark = (value: number): Uint8Array => packFields(['mark'], [value])
const choice = (value: number): Uint8Array => packFields(['integer'], [value])
const goTo = (chain: string): NfExpression => ({
  kind: 'immediate',
  to: 'verdict',
  data: { verdict: { code: 'goto', chain } },
})
const tcp: readonly NfExpression[] = [
  { kind: 'meta', to: 0, key: 'l4proto' },
  { kind: 'cmp', from: 0, op: '==', value: Uint8Array.of(6) },
]
const numgen: NfExpression = { kind: 'numgen', to: 0, modulus: 2, type: 'random' }

/** A table of one family. */
class Lab {
  readonly #family: IpFamily
  readonly #address: NfField
  readonly #words: number

  constructor(family: IpFamily) {
    this.#family = family
    this.#address = family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'
    this.#words = family === 'ipv4' ? 1 : 4
  }

  get transaction(): NfTransaction {
    const { table } = this
    const chains = ['own-service-traffic', 'own-1']
    return [
      ...this.#wholeTable(),
      ...chains.map((chain): NfOp => ({ op: 'add-chain', chain: { ...table, chain } })),
      ...this.#ownForm(),
    ]
  }

  get table(): { readonly family: IpFamily; readonly table: string } {
    return { family: this.#family, table: 'kube-proxy' }
  }

  get #frontend(): readonly NfField[] {
    return [this.#address, 'inet_proto', 'inet_service']
  }

  get #endpoint(): readonly NfField[] {
    return [this.#address, 'inet_service']
  }

  #ip(number: number): string {
    return this.#family === 'ipv4' ? `10.244.1.${number}` : `fd00:10:244::${number}`
  }

  #packed(number: number): Uint8Array {
    return packFields(this.#endpoint, [this.#ip(number), 8080])
  }

  #load(which: 'saddr' | 'daddr'): NfExpression {
    const offsets = this.#family === 'ipv4' ? { saddr: 12, daddr: 16 } : { saddr: 8, daddr: 24 }
    return { kind: 'payload', to: 0, base: 'network', offset: offsets[which], length: 4 * this.#words }
  }

  get #key(): readonly NfExpression[] {
    return [
      this.#load('daddr'),
      { kind: 'meta', to: this.#words, key: 'l4proto' },
      { kind: 'payload', to: this.#words + 1, base: 'transport', offset: 2, length: 2 },
    ]
  }

  #rule(chain: string, ...expressions: readonly NfExpression[]): NfOp {
    return { op: 'add-rule', rule: { ...this.table, chain, expressions } }
  }

  #frontendKey(port: number): Uint8Array {
    return packFields(this.#frontend, [this.#ip(200), 6, port])
  }

  /** `dnat to` the address and port in the registers from 0 on. */
  get #dnat(): NfExpression {
    return { kind: 'nat', type: 'dnat', family: this.#family, addressMin: 0, portMin: this.#words }
  }

  /** The table of Services with 1, 2, 20 and 70 endpoints, node ports, short circuits, source ranges and refusals. */
  #wholeTable(): NfTransaction {
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
    const { serviceCidrs } = schemaOf(this.#family)
    const [start, end] = isIPv4 ? ['10.96.0.0', '10.97.0.0'] : ['fd00:10:96::', 'fd00:10:97::']
    return [
      ...tableOps(settings, [...routes, local]),
      {
        op: 'add-elements',
        elements: new NfElements(serviceCidrs)
          .add(packFields([this.#address], [start]))
          .add(packFields([this.#address], [end]), { isIntervalEnd: true }),
      },
    ]
  }

  /** A chain for one Service with affinity: a set of clients and slots, and a last rule with an anonymous map of endpoints. */
  #ownForm(): readonly NfOp[] {
    const clients: NfSet = {
      ...this.table,
      set: 'clients-1',
      key: [this.#address, 'mark'],
      flags: ['timeout', 'dynamic'],
      size: 262_144,
      gcIntervalMs: 60_000,
    }
    const own: NfSet = { ...this.table, set: 'own-services', key: this.#frontend, data: 'verdict' }
    const endpoints = new NfElements(anonymousSet(this.table, { key: ['integer'], data: this.#endpoint }))
      .add(choice(0), { data: this.#packed(61) })
      .add(choice(1), { data: this.#packed(62) })
    const client = packFields(clients.key, [this.#ip(7), 17])
    return [
      { op: 'add-set', set: clients },
      { op: 'add-set', set: own },
      {
        op: 'add-elements',
        elements: new NfElements(clients).add(client, { timeoutMs: 10_800_000, expirationMs: 3_600_000 }),
      },
      {
        op: 'add-elements',
        elements: new NfElements(own).add(this.#frontendKey(81), {
          verdict: { code: 'goto', chain: 'own-1' },
        }),
      },
      this.#rule('services', goTo('own-service-traffic')),
      this.#rule('own-service-traffic', ...this.#key, {
        kind: 'lookup',
        set: 'own-services',
        from: 0,
        to: 'verdict',
      }),
      this.#rule(
        'own-1',
        ...this.#slot(17),
        { kind: 'lookup', set: 'clients-1', from: 0 },
        ...this.#record(17),
        ...this.#to(61),
      ),
      this.#rule(
        'own-1',
        numgen,
        { kind: 'cmp', from: 0, op: '==', value: choice(0) },
        ...this.#record(17),
        ...this.#to(61),
      ),
      this.#rule('own-1', ...this.#record(18), ...this.#to(62)),
      this.#rule(
        'own-1',
        ...tcp,
        { kind: 'counter' },
        numgen,
        { kind: 'lookup', set: endpoints.set.set, from: 0, to: 0, elements: endpoints },
        this.#dnat,
      ),
    ]
  }

  /** Client and slot: a constant in a key. */
  #slot(slot: number): readonly NfExpression[] {
    const at = this.#words
    return [
      this.#load('saddr'),
      { kind: 'meta', to: at, key: 'mark' },
      { kind: 'bitwise', from: at, to: at, length: 4, mask: mark(0), xor: mark(slot) },
    ]
  }

  #record(slot: number): readonly NfExpression[] {
    return [
      ...this.#slot(slot),
      { kind: 'dynset', set: 'clients-1', op: 'update', key: 0, timeoutMs: 10_800_000 },
    ]
  }

  #to(number: number): readonly NfExpression[] {
    return [
      ...tcp,
      { kind: 'immediate', to: 0, data: { value: packFields([this.#address], [this.#ip(number)]) } },
      { kind: 'immediate', to: this.#words, data: { value: packFields(['inet_service'], [8080]) } },
      this.#dnat,
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

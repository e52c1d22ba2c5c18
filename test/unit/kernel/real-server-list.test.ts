import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { writeAddress } from '../../../src/address.js'
import { noRealServers, type RealServer, RealServerList } from '../../../src/kernel/index.js'
import { realServerLayout } from '../../../src/kernel/ipvs/layout.js'
import { ip } from '../../support/routes.js'

const settings = { weight: 1, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 } as const
const tunnel = { ...settings, forwarding: 'tunnel', tunnel: { type: 'gue', port: 5555, flags: 1 } } as const

const anyText = fc.oneof(fc.ipV4(), fc.ipV6())
const anyKey = fc
  .record({ text: anyText, port: fc.integer({ min: 1, max: 65_535 }) })
  .map(({ text, port }) => ({ address: ip(text), port }))
const anySettings = fc
  .tuple(fc.constantFrom(settings, tunnel), fc.nat(70_000))
  .map(([rest, weight]) => ({ ...rest, weight }))
/** Real servers of one family, without duplicates, in any order. */
const anyServers = fc
  .tuple(
    fc.boolean(),
    fc.array(fc.record({ key: anyKey, settings: anySettings }), { maxLength: 150, size: 'max' }),
  )
  .map(([isIpv6, all]) => {
    const ofFamily = all.filter(({ key }) => key.address.includes(':') === isIpv6)
    return [...new Map(ofFamily.map((real) => [idOf(real), { ...real, key: { ...real.key } }])).values()]
  })

function idOf({ key }: RealServer): string {
  return `${key.address} ${key.port}`
}

/** A text whose order is that of a dump. */
function sortKey({ key }: RealServer): string {
  const bytes = Buffer.alloc(18)
  writeAddress(key.address, bytes, 0)
  bytes.writeUInt16BE(key.port, 16)
  return bytes.toString('hex')
}

function listOf(text: string, port: number, weight: number): RealServerList {
  return RealServerList.of([{ key: { address: ip(text), port }, settings: { ...settings, weight } }])
}

/** The servers of `list`, by identity. */
function byId(list: Iterable<RealServer>): ReadonlyMap<string, RealServer['settings']> {
  return new Map(Array.from(list, (real) => [idOf(real), real.settings]))
}

describe('RealServerList', () => {
  it('contains its servers, given in any order', () => {
    fc.assert(
      fc.property(anyServers, (servers) => {
        const list = RealServerList.of(servers)
        assert.equal(list.length, servers.length)
        assert.deepEqual(byId(list), byId(servers))
        assert.ok(list.equals(RealServerList.of(servers.toReversed())))
        for (const [index, real] of [...list].entries()) {
          assert.deepEqual(list.at(index), real)
          assert.equal(list.isHeldBack(index), real.settings.weight === 0)
        }
        assert.deepEqual(byId(list.heldBack), byId(servers.filter((real) => real.settings.weight === 0)))
      }),
    )
  })

  it('is equal with shared settings and with separate settings, for each family', () => {
    fc.assert(
      fc.property(anyServers, fc.constantFrom(settings, tunnel), (servers, all) => {
        const keys = servers.map(({ key }) => key)
        const expected = RealServerList.of(keys.map((key) => ({ key, settings: all })))
        assert.ok(RealServerList.withSettings(keys, all).equals(expected))
      }),
    )
  })

  it('is in the order of a dump: by address bytes, then by port', () => {
    fc.assert(
      fc.property(anyServers, (servers) => {
        const expected = servers.map(sortKey).toSorted()
        assert.deepEqual(Array.from(RealServerList.of(servers), sortKey), expected)
      }),
    )
  })

  it('equals a new list after a server is added or removed', () => {
    fc.assert(
      fc.property(anyServers, fc.nat(), anySettings, (servers, pick, changed) => {
        const list = RealServerList.of(servers)
        const one = servers[pick % Math.max(1, servers.length)]
        if (one === undefined) return
        const others = servers.filter((real) => real !== one)
        const other = { ...one, settings: changed }
        const without = list.without(one.key)
        assert.ok(without.equals(RealServerList.of(others)))
        assert.ok(without.without(one.key).equals(without))
        assert.ok(without.with(one).equals(list))
        assert.ok(list.with(other).equals(RealServerList.of([...others, other])))
      }),
    )
  })

  it('is found in a table exactly at its records', () => {
    fc.assert(
      fc.property(anyServers, anyServers, (before, servers) => {
        const [first, list] = [RealServerList.of(before), RealServerList.of(servers)]
        const table = Buffer.alloc((first.length + list.length) * realServerLayout.size)
        first.copyTo(table, 0)
        list.copyTo(table, first.length * realServerLayout.size)
        assert.ok(list.isAt(table, first.length))
        assert.ok(RealServerList.fromDump(table, first.length, list.length).equals(list))
        assert.ok(first.isAt(table, 0))
        // The table is too short for the list one record later.
        assert.equal(list.isAt(table, first.length + 1), list.length === 0)
      }),
    )
  })

  it('finds, keeps and leaves out the servers of another list, by address and port', () => {
    fc.assert(
      fc.property(
        anyServers,
        fc.array(fc.boolean(), { minLength: 150 }),
        anySettings,
        (servers, isIn, other) => {
          const list = RealServerList.of(servers)
          const shared = servers.filter((_, index) => isIn[index])
          const rest = servers.filter((real) => !shared.includes(real))
          const changed = RealServerList.of(shared.map(({ key }) => ({ key, settings: other })))
          assert.ok(list.minus(changed).equals(RealServerList.of(rest)))
          assert.ok(list.within(changed).equals(RealServerList.of(shared)))
          assert.ok(list.minus(changed).plus(changed).equals(RealServerList.of(rest).plus(changed)))
          assert.ok(RealServerList.of(rest).plus(RealServerList.of(shared)).equals(list))
          assert.ok(list.plus(changed).equals(list), 'of two with one address and port, the first counts')
          for (const [index, real] of [...list].entries()) {
            const place = changed.indexOf(list, index)
            assert.equal(
              place >= 0,
              shared.some(({ key }) => idOf({ ...real, key }) === idOf(real)),
            )
            if (place >= 0) assert.equal(changed.idAt(place), list.idAt(index))
          }
          assert.equal(new Set(Array.from(list, (_, index) => list.idAt(index))).size, list.length)
        },
      ),
    )
  })

  it('takes the weight of its servers, and tells which have one', () => {
    fc.assert(
      fc.property(anyServers, (servers) => {
        const list = RealServerList.of(servers)
        const held = servers.map(({ key, settings: all }) => ({ key, settings: { ...all, weight: 0 } }))
        assert.ok(list.withoutWeight().equals(RealServerList.of(held)))
        assert.equal(
          list.isServing,
          servers.some((real) => real.settings.weight !== 0),
        )
        assert.ok(!list.withoutWeight().isServing)
      }),
    )
  })

  it('tells which servers lead to another list', () => {
    fc.assert(
      fc.property(anyServers, anyServers, (before, after) => {
        const [from, to] = [RealServerList.of(before), RealServerList.of(after)]
        const { added, changed, removed } = from.changesTo(to)
        assert.ok(added.plus(changed).plus(from.minus(removed)).equals(to))
        assert.equal(added.within(from), noRealServers)
        assert.equal(removed.within(to), noRealServers)
        assert.equal(removed.minus(from), noRealServers)
      }),
    )
  })

  it('is one object when it is empty', () => {
    const list = listOf('10.0.0.2', 256, 1)
    const empty = [RealServerList.of([]), RealServerList.withSettings([], settings), list.minus(list)]
    for (const each of [...empty, list.without({ address: ip('10.0.0.2'), port: 256 })])
      assert.equal(each, noRealServers)
  })

  it('throws an error that names an absent index', () => {
    assert.throws(() => noRealServers.at(0), /no real server 0 of 0/u)
  })
})

import assert from 'node:assert/strict'
import { isIPv4, isIPv6 } from 'node:net'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import {
  cidrContains,
  familyOf,
  formatEndpoint,
  hasAddress,
  parseCidr,
  parseIpAddress,
  readAddress,
  writeAddress,
  type IpAddress,
} from '../../src/address.js'

function address(text: string): IpAddress {
  const parsed = parseIpAddress(text)
  assert.ok(parsed !== undefined, text)
  return parsed
}

/** All bits of the address as digits. */
function bits(text: IpAddress): string {
  const bytes = new Uint8Array(16)
  writeAddress(text, bytes, 0)
  return [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('')
}

/** Texts that resemble addresses, valid and invalid. */
const nearlyAddress = fc.oneof(
  fc.ipV4(),
  fc.ipV6(),
  fc.stringMatching(/^[0-9a-f:.]{0,24}$/),
  fc.stringMatching(/^[0-9a-f:]{2,20}(:\d{1,3}(\.\d{1,3}){3})?$/),
)

describe('parseIpAddress', () => {
  const canonical: readonly (readonly [written: string, canonical: string])[] = [
    ['10.96.0.10', '10.96.0.10'],
    ['172.30.0.041', '172.30.0.41'],
    ['008.009.000.0001', '8.9.0.1'],
    ['::', '::'],
    ['::1', '::1'],
    ['FD00::A', 'fd00::a'],
    ['fd00:0:0:0:0:0:0:1', 'fd00::1'],
    ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1'],
    ['2001:0:0:1:0:0:0:1', '2001:0:0:1::1'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
    ['1:0:0:4:5:6:0:0', '1::4:5:6:0:0'],
    ['::1.2.3.4', '::102:304'],
    ['64:ff9b::192.0.2.033', '64:ff9b::c000:221'],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['::ffff:0102:0304', '1.2.3.4'],
  ]
  for (const [written, expected] of canonical) {
    it(`${written} is ${expected}`, () => assert.equal(parseIpAddress(written), expected))
  }

  const wrong = [
    '',
    '1.2.3',
    '1.2.3.4.5',
    '1.2.3.256',
    '1..2.3',
    '.1.2.3',
    '1.2.3.',
    '1.2.3.4 ',
    ' 1.2.3.4',
    '+1.2.3.4',
  ]
  const wrong6 = [
    ':',
    ':::',
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '1::2::3',
    '12345::',
    'g::',
    ':1::',
    '1:',
    '::1%eth0',
  ]
  for (const text of [
    ...wrong,
    ...wrong6,
    '1:2:3:4:5:6:7:1.2.3.4',
    '1:2:3:4:5:6:7:8::',
    '[::1]',
    '::1/128',
    'None',
  ]) {
    it(`"${text}" is not an address`, () => assert.equal(parseIpAddress(text), undefined))
  }

  it('accepts the texts that node:net accepts', () => {
    fc.assert(
      fc.property(nearlyAddress, (text) => {
        if (isIPv4(text) || isIPv6(text)) assert.notEqual(parseIpAddress(text), undefined)
      }),
      { numRuns: 2000 },
    )
  })

  it('returns a text that node:net accepts, and that parses to itself', () => {
    fc.assert(
      fc.property(nearlyAddress, (text) => {
        const parsed = parseIpAddress(text)
        if (parsed === undefined) return
        assert.ok(familyOf(parsed) === 'ipv4' ? isIPv4(parsed) : isIPv6(parsed), parsed)
        assert.equal(parseIpAddress(parsed), parsed)
      }),
      { numRuns: 2000 },
    )
  })

  it('agrees with the URL parser on the canonical text of IPv6', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const parsed = address(text)
        if (familyOf(parsed) === 'ipv6') assert.equal(`[${parsed}]`, new URL(`http://[${text}]`).hostname)
      }),
      { numRuns: 2000 },
    )
  })
})

describe('the 16-byte form', () => {
  it('reads a written address at any offset', () => {
    const bytes16 = fc.uint8Array({ minLength: 16, maxLength: 16 })
    fc.assert(
      fc.property(bytes16, fc.nat(8), (bytes, offset) => {
        const text = readAddress(bytes, 0, 'ipv6')
        if (parseIpAddress(text) !== text) return // IPv4-mapped
        const target = new Uint8Array(32).fill(0xaa)
        assert.equal(writeAddress(text, target, offset), 'ipv6')
        assert.deepEqual(target.slice(offset, offset + 16), bytes)
        assert.ok(target.every((byte, i) => (i >= offset && i < offset + 16) || byte === 0xaa))
      }),
    )
  })

  it('writes IPv4 into the first four bytes and keeps the others', () => {
    const target = new Uint8Array(6).fill(0xaa)
    assert.equal(writeAddress(address('10.96.0.255'), target, 1), 'ipv4')
    assert.deepEqual([...target], [0xaa, 10, 96, 0, 255, 0xaa])
    assert.equal(readAddress(target, 1, 'ipv4'), '10.96.0.255')
  })
})

describe('parseCidr', () => {
  const cases: readonly (readonly [written: string, network: string | undefined])[] = [
    ['10.96.0.0/12', '10.96.0.0/12'],
    ['10.111.1.1/12', '10.96.0.0/12'],
    ['203.0.113.000/025', '203.0.113.0/25'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['1.2.3.4/32', '1.2.3.4/32'],
    ['fd00::ffff/64', 'fd00::/64'],
    ['fd00:0:0:ff::/57', 'fd00:0:0:80::/57'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
    ['10.96.0.0', undefined],
    ['10.96.0.0/33', undefined],
    ['10.96.0.0/', undefined],
    ['10.96.0.0/-1', undefined],
    ['10.96.0.0/8/8', undefined],
    ['fd00::/129', undefined],
    ['::ffff:10.1.2.3/95', undefined],
    ['cidr/8', undefined],
  ]
  for (const [written, network] of cases) {
    it(`${written} is ${network ?? 'no CIDR'}`, () => {
      const cidr = parseCidr(written)
      assert.equal(cidr && `${cidr.address}/${cidr.prefixLength}`, network)
    })
  }

  it('contains exactly the addresses with the same first bits', () => {
    const pair = fc.oneof(
      fc.tuple(fc.ipV4(), fc.ipV4(), fc.nat(32)),
      fc.tuple(fc.ipV6(), fc.ipV6(), fc.nat(128)),
      fc.tuple(fc.ipV4(), fc.constant('10.1.2.3'), fc.nat(4)),
    )
    fc.assert(
      fc.property(pair, ([written, other, prefixLength]) => {
        const [network, member] = [address(written), address(other)]
        if (familyOf(network) !== familyOf(member)) return
        const cidr = parseCidr(`${network}/${prefixLength}`)
        if (cidr === undefined) return // an IPv4-mapped text with a prefix length of IPv6
        const expected = bits(network).slice(0, prefixLength) === bits(member).slice(0, prefixLength)
        assert.equal(cidrContains(cidr, member), expected)
        assert.equal(cidrContains(cidr, network), true)
      }),
    )
  })

  it('contains no address of the other family', () => {
    const cidr = parseCidr('0.0.0.0/0')
    assert.ok(cidr !== undefined)
    assert.equal(cidrContains(cidr, address('::1')), false)
  })
})

describe('formatEndpoint', () => {
  it('puts IPv6 into brackets', () => {
    assert.equal(formatEndpoint(address('1.2.3.4'), 80), '1.2.3.4:80')
    assert.equal(formatEndpoint(address('fd00::1'), 80), '[fd00::1]:80')
  })
})

describe('the search of an address in a list', () => {
  for (const length of [0, 1, 16, 17, 1000]) {
    it(`finds each of ${length} addresses, and no other`, () => {
      const list = Array.from({ length }, (_, i) => address(`10.0.${i >> 8}.${i & 255}`))
      for (const each of list) assert.ok(hasAddress(list, each))
      assert.ok(!hasAddress(list, address('10.1.0.0')))
      assert.ok(!hasAddress(list, address('::1')))
    })
  }
})

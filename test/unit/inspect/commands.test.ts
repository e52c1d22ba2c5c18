import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseIpAddress, type IpAddress } from '../../../src/address.js'
import type { IpsetOp, IpsetSettings } from '../../../src/kernel/ipset/ipset.js'
import type { IpvsOp } from '../../../src/kernel/ipvs/ipvs.js'
import { diffListings } from '../../../src/inspect/commands/diff-listings.js'
import { type KernelOperation, withoutProbes } from '../../../src/inspect/commands/operation.js'
import { printIpsetOp } from '../../../src/inspect/commands/print-ipset.js'
import { printIpvsOp } from '../../../src/inspect/commands/print-ipvs.js'
import { printRouteOp } from '../../../src/inspect/commands/print-route.js'
import type { RouteOp } from '../../../src/kernel/route/routes.js'

function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  assert.ok(address)
  return address
}

const hook = (...rules: readonly string[]) => ({ chain: 'OUTPUT', policy: 'ACCEPT', rules }) as const
const chain = (name: string, ...rules: readonly string[]) => ({ chain: name, rules })
const texts = (operations: readonly KernelOperation[]) => operations.map(({ text }) => text)
const operation = (effect: KernelOperation['effect'], object: string): KernelOperation => ({
  tool: 'ipset',
  effect,
  object,
  text: `${effect} ${object}`,
})

describe('operations of IPVS, as ipvsadm takes them', () => {
  const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 443 } as const
  const v6 = { family: 'ipv6', mark: 7 } as const
  const plain = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
  const real = {
    key: { address: ip('10.244.1.5'), port: 6443 },
    settings: { weight: 1, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 },
  } as const
  const cases: readonly (readonly [IpvsOp, string])[] = [
    [{ op: 'add-virtual-server', server: { key, settings: plain } }, '-A -t 10.96.0.1:443 -s rr'],
    [
      {
        op: 'set-virtual-server',
        server: { key, settings: { scheduler: 'sh', flags: 9, timeoutSeconds: 60, netmaskLength: 24 } },
      },
      '-E -t 10.96.0.1:443 -s sh -p 60 -M 255.255.255.0 -b flag-1',
    ],
    [
      { op: 'add-virtual-server', server: { key: v6, settings: { ...plain, netmaskLength: 128 } } },
      '-A -f 7 -6 -s rr',
    ],
    [{ op: 'remove-virtual-server', server: key }, '-D -t 10.96.0.1:443'],
    [{ op: 'add-real-server', server: key, real }, '-a -t 10.96.0.1:443 -r 10.244.1.5:6443 -m -w 1'],
    [
      { op: 'set-real-server', server: key, real: { ...real, settings: { ...real.settings, weight: 0 } } },
      '-e -t 10.96.0.1:443 -r 10.244.1.5:6443 -m -w 0',
    ],
    [{ op: 'remove-real-server', server: key, real: real.key }, '-d -t 10.96.0.1:443 -r 10.244.1.5:6443'],
  ]
  for (const [op, text] of cases) it(text, () => assert.equal(printIpvsOp(op).text, text))
})

describe('operations on sets, as ipset restore reads them', () => {
  const set: IpsetSettings = {
    name: 'KUBE-A',
    type: 'hash:ip,port',
    family: 'ipv6',
    maxElements: 100,
    hashSize: 64,
    hasMarks: true,
    hasComments: true,
  }
  const entry = { address: ip('fd00::1'), protocol: 'udp', port: 53 } as const
  const cases: readonly (readonly [IpsetOp, string])[] = [
    [
      { op: 'create-set', set },
      'create KUBE-A hash:ip,port family inet6 hashsize 64 maxelem 100 comment skbinfo',
    ],
    [
      { op: 'create-set', set: { ...set, type: 'bitmap:port', hasMarks: false, hasComments: false } },
      'create KUBE-A bitmap:port range 0-65535',
    ],
    [
      { op: 'add-entry', set, entry: { ...entry, mark: { value: 16, mask: 255 }, comment: 'a b' } },
      'add KUBE-A fd00::1,udp:53 skbmark 0x10/0xff comment "a b" -exist',
    ],
    [{ op: 'delete-entry', set, entry }, 'del KUBE-A fd00::1,udp:53 -exist'],
    [{ op: 'swap-sets', name: 'A', other: 'B' }, 'swap A B'],
    [{ op: 'destroy-set', name: 'A' }, 'destroy A'],
  ]
  for (const [op, text] of cases) it(text, () => assert.equal(printIpsetOp(op).text, text))
})

describe('routes and addresses, as ip reads them', () => {
  const route = { address: ip('10.96.0.1'), interfaceIndex: 1, protocol: 173 }
  const cases: readonly (readonly [RouteOp, string])[] = [
    [
      { op: 'add-route', route: { ...route, preferredSource: ip('192.0.2.1') } },
      'route add local 10.96.0.1 dev lo table local proto 173 scope host src 192.0.2.1',
    ],
    [
      { op: 'remove-route', route: { ...route, address: ip('fd00::1'), metric: 9 } },
      'route del local fd00::1 dev lo table local proto 173 metric 9',
    ],
    [
      { op: 'add-address', address: { address: ip('10.96.0.1'), prefixLength: 32, interfaceIndex: 1 } },
      'address add 10.96.0.1/32 dev lo',
    ],
  ]
  for (const [op, text] of cases) it(text, () => assert.equal(printRouteOp(op, () => 'lo').text, text))
})

describe('the difference of two listings', () => {
  const table = { tool: 'iptables-legacy', table: 'nat' } as const

  it('is empty for equal tables', () =>
    assert.deepEqual(diffListings([hook('-j A'), chain('A')], [hook('-j A'), chain('A')], table), []))

  it('makes chains before the rules that jump to them, and deletes chains after', () =>
    assert.deepEqual(
      texts(
        diffListings(
          [hook('-j OLD', '-j OTHER'), chain('OLD', '-j ACCEPT'), chain('OTHER')],
          [hook('-j NEW', '-j OTHER'), chain('OTHER'), chain('NEW', '-j DROP')],
          table,
        ),
      ),
      [':NEW - [0:0]', '-F OLD', '-D OUTPUT -j OLD', '-I OUTPUT 1 -j NEW', '-A NEW -j DROP', '-X OLD'],
    ))

  it('keeps equal rules at the head and the tail', () =>
    assert.deepEqual(texts(diffListings([chain('A', '1', '2', '4')], [chain('A', '1', '3', '4')], table)), [
      '-D A 2',
      '-I A 2 3',
    ]))

  it('deletes a rule of another form by its number', () =>
    assert.deepEqual(texts(diffListings([chain('A', '-j B', '(other)')], [chain('A', '-j B')], table)), [
      '-D A 2',
    ]))
})

describe('withoutProbes', () => {
  it('leaves out objects that are made and removed again, and keeps objects that are removed and made', () =>
    assert.deepEqual(
      withoutProbes([
        operation('add', 'probe'),
        operation('remove', 'kept'),
        operation('remove', 'probe'),
        operation('add', 'kept'),
      ]).map(({ text }) => text),
      ['remove kept', 'add kept'],
    ))
})

// Records of the relay: refused by the encoder or by the addon before a thread reads them.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { ip } from '../../contract/law.js'
import { BugError } from '../../../src/errors.js'
import type { RawRelay } from '../../../src/kernel/addon.js'
import { loadAddon } from '../../../src/kernel/loader.js'
import { encodeInterfaces, encodeNetworks, encodeRelayOps } from '../../../src/kernel/relay/encode.js'
import {
  endpointLayout,
  listenerLayout,
  networkLayout,
  opLayout,
  serviceLayout,
} from '../../../src/kernel/relay/layout.js'
import type { RelayOp } from '../../../src/kernel/relay/relay.js'

const address = ip('127.0.0.1')
const ops: readonly RelayOp[] = [
  {
    op: 'set-service',
    name: 'a',
    service: {
      id: 1,
      affinitySeconds: 10,
      clusterEndpoints: [
        { address, port: 80 },
        { address: ip('fd00::1'), port: 81 },
      ],
      localEndpoints: [{ address, port: 82 }],
      flowEndpoints: [{ address, port: 83 }],
      sourceRanges: [{ family: 'ipv4', address: ip('10.0.0.0'), prefixLength: 8 }],
    },
  },
  {
    op: 'set-listener',
    listener: {
      protocol: 'tcp',
      address,
      port: 8080,
      service: 1,
      near: 'cluster',
      far: 'drop',
      hasSourceRanges: true,
    },
  },
]

/** A copy of the encoded operations with one byte changed. */
function spoiled(
  table: 'ops' | 'services' | 'listeners' | 'endpoints' | 'ranges',
  offset: number,
  value: number,
): ReturnType<typeof encodeRelayOps> {
  const batch = encodeRelayOps(ops)
  batch[table][offset] = value
  return batch
}

describe('encodeRelayOps', () => {
  it('packs services with their endpoints, and listeners', () => {
    const batch = encodeRelayOps(ops)
    assert.deepEqual(
      [batch.ops, batch.services, batch.listeners, batch.endpoints, batch.ranges].map(({ length }) => length),
      [
        2 * opLayout.size,
        serviceLayout.size,
        listenerLayout.size,
        4 * endpointLayout.size,
        networkLayout.size,
      ],
    )
    const service = new DataView(batch.services.buffer, batch.services.byteOffset)
    assert.deepEqual(
      [
        'id',
        'affinitySeconds',
        'firstEndpoint',
        'clusterCount',
        'localCount',
        'flowCount',
        'firstRange',
        'rangeCount',
      ].map((_, index) => service.getUint32(index * 4, true)),
      [1, 10, 0, 2, 1, 1, 0, 1],
    )
  })

  for (const id of [0, -1, 1.5, 2 ** 32])
    it(`refuses the id ${id}`, () => {
      assert.throws(() => encodeRelayOps([{ op: 'remove-service', id, name: 'a' }]), BugError)
    })

  it('refuses an interface name that the kernel cannot have', () => {
    assert.throws(() => encodeInterfaces(['sixteen-letters+']), BugError)
  })
})

describe('Relay of the addon', () => {
  const addon = loadAddon({ addonPath: process.env['VIADUCT_ADDON'], moduleUrl: import.meta.url })
  const relay: RawRelay = new addon.Relay()
  after(() => relay.close())

  for (const [title, batch, words] of [
    ['an unknown operation', spoiled('ops', opLayout.op, 9), /^ops: record 0/],
    ['a service outside the table', spoiled('ops', opLayout.object, 1), /^ops: record 0/],
    ['a listener outside the table', spoiled('ops', opLayout.size + opLayout.object, 1), /^ops: record 1/],
    ['a service without an id', spoiled('services', serviceLayout.id, 0), /^ops: record 0/],
    ['too many cluster endpoints', spoiled('services', serviceLayout.clusterCount, 3), /^ops: record 0/],
    ['too many local endpoints', spoiled('services', serviceLayout.localCount + 3, 255), /^ops: record 0/],
    ['too many endpoints of flows', spoiled('services', serviceLayout.flowCount, 2), /^ops: record 0/],
    ['too many source ranges', spoiled('services', serviceLayout.rangeCount, 2), /^ops: record 0/],
    ['a listener of another protocol', spoiled('listeners', listenerLayout.protocol, 132), /^ops: record 1/],
    ['a listener of no family', spoiled('listeners', listenerLayout.family, 0), /^ops: record 1/],
    ['a listener without a verdict', spoiled('listeners', listenerLayout.near, 0), /^ops: record 1/],
    ['an unknown verdict', spoiled('listeners', listenerLayout.far, 5), /^ops: record 1/],
    ['an endpoint of no family', spoiled('endpoints', endpointLayout.family, 1), /^endpoints: record 0/],
    ['a prefix that is too long', spoiled('ranges', networkLayout.prefixLength, 33), /^ranges: record 0/],
  ] as const)
    it(`refuses ${title}`, () => {
      assert.throws(
        () => relay.apply(batch.ops, batch.services, batch.listeners, batch.endpoints, batch.ranges),
        { name: 'RangeError', message: words },
      )
    })

  it('refuses settings with a network that is none', () => {
    const networks = encodeNetworks([{ family: 'ipv6', address: ip('fd00::'), prefixLength: 64 }])
    networks[networkLayout.prefixLength] = 129
    const none = new Uint8Array()
    assert.throws(() => relay.configure(networks, none, 250, none), /^RangeError: nearNetworks: record 0/)
    assert.throws(
      () => relay.configure(none, none, 250, networks),
      /^RangeError: nodePortAddresses: record 0/,
    )
  })

  it('counts nothing after close()', async () => {
    const closed = new addon.Relay()
    await closed.close()
    assert.equal(closed.conditions(), undefined)
    assert.throws(() => closed.counters(), { errno: 9 })
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { parseIpAddress, type IpAddress } from '../../../src/address.js'
import { BugError } from '../../../src/errors.js'
import type { IpvsOp, RealServer, RouteOp } from '../../../src/kernel/index.js'
import type { VirtualServer } from '../../../src/kernel/testing.js'
import {
  AddressCursor,
  RealServerCursor,
  RealServerList,
  RouteCursor,
  VirtualServerCursor,
} from '../../../src/kernel/index.js'
import { IpvsBatch } from '../../../src/kernel/ipvs/batch.js'
import { opLayout, opNumber } from '../../../src/kernel/ipvs/layout.js'
import { RecordTable } from '../../../src/kernel/records.js'
import { encodeRouteRun } from '../../../src/kernel/route/encode.js'

class OpCursor extends RecordTable {
  constructor(bytes: Uint8Array) {
    super(bytes, opLayout)
  }

  op(index: number): readonly [op: number, virtualServer: number, realServer: number] {
    return [
      this.u8(index, opLayout.op),
      this.u32(index, opLayout.virtualServer),
      this.u32(index, opLayout.realServer),
    ]
  }
}

function ip(text: string): IpAddress {
  const address = parseIpAddress(text)
  assert.ok(address !== undefined)
  return address
}

/** A record of plain objects: assert.deepEqual distinguishes objects without a prototype. */
const plainRecord = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> =>
  fc.record(fields, { noNullPrototype: true })

const port = fc.integer({ min: 0, max: 65_535 })
const u32 = fc.nat(0xffffffff)
const anyAddress = fc.oneof(fc.ipV4(), fc.ipV6()).map(ip)

const anyServer: fc.Arbitrary<VirtualServer> = plainRecord({
  address: anyAddress,
  port,
  protocol: fc.constantFrom('tcp', 'udp', 'sctp'),
  mark: fc.option(fc.integer({ min: 1, max: 0xffffffff }), { nil: undefined, freq: 4 }),
  settings: plainRecord({
    scheduler: fc.stringMatching(/^[a-z]{1,15}$/),
    flags: u32,
    timeoutSeconds: u32,
    netmaskLength: fc.nat(128),
  }),
}).map(({ address, mark, settings, ...rest }) => {
  const family = address.includes(':') ? 'ipv6' : 'ipv4'
  return { key: mark === undefined ? { family, address, ...rest } : { family, mark }, settings }
})

const anyReal: fc.Arbitrary<RealServer> = plainRecord({
  key: plainRecord({ address: anyAddress, port }),
  weight: fc.integer({ min: -5, max: 0x7fffffff }),
  thresholds: fc.tuple(u32, u32),
  forwarding: fc.constantFrom('masquerade', 'local', 'tunnel', 'direct'),
  tunnel: plainRecord({ type: fc.constantFrom('ipip', 'gue', 'gre'), port, flags: port }),
}).map(({ key, weight, thresholds: [upperThreshold, lowerThreshold], forwarding, tunnel }) => {
  const settings = { weight, forwarding, upperThreshold, lowerThreshold } as const
  const isPlain = tunnel.type === 'ipip' && tunnel.port === 0 && tunnel.flags === 0
  return {
    key: { ...key },
    settings: forwarding === 'tunnel' && !isPlain ? { ...settings, tunnel } : settings,
  }
})

const opNames = [
  'add-virtual-server',
  'set-virtual-server',
  'remove-virtual-server',
  'add-real-server',
  'set-real-server',
  'remove-real-server',
  'zero-virtual-server',
] as const satisfies readonly IpvsOp['op'][]

const anyOp: fc.Arbitrary<IpvsOp> = fc
  .tuple(fc.constantFrom<IpvsOp['op'][]>(...opNames), anyServer, anyReal)
  .map(([op, server, real]): IpvsOp => {
    if (op === 'add-virtual-server' || op === 'set-virtual-server') return { op, server }
    if (op === 'add-real-server' || op === 'set-real-server') return { op, server: server.key, real }
    return op === 'remove-real-server'
      ? { op, server: server.key, real: real.key }
      : { op, server: server.key }
  })

/** A batch that grows, because the number of operations is not known before. */
function grownBatch(ops: readonly IpvsOp[]): IpvsBatch {
  const batch = new IpvsBatch()
  for (const op of ops) batch.push(op)
  return batch
}

/** The operation with its default fields. */
function whole(op: IpvsOp): IpvsOp {
  return op.op === 'set-virtual-server' ? { ...op, flagsMask: op.flagsMask ?? 0xffffffff } : op
}

describe('IpvsBatch', () => {
  it('keeps every field of every operation while it grows', () => {
    fc.assert(
      fc.property(fc.array(anyOp, { maxLength: 40 }), fc.boolean(), (ops, isKnown) => {
        const built = isKnown ? IpvsBatch.of(ops) : grownBatch(ops)
        assert.deepEqual(
          ops.map((_, index) => built.at(index)),
          ops.map(whole),
        )
        assert.equal(built.at(ops.length), undefined)
        const batch = built.encoded
        const [records, servers, reals] = [
          new OpCursor(batch.ops),
          new VirtualServerCursor(batch.virtualServers),
          new RealServerCursor(batch.realServers),
        ]
        assert.equal(records.length, ops.length)
        for (const [index, op] of ops.entries()) {
          const [number, server, real] = records.op(index)
          assert.equal(number, opNumber[op.op])
          if (op.op === 'add-virtual-server' || op.op === 'set-virtual-server')
            assert.deepEqual(
              [servers.key(server), servers.settings(server)],
              [op.server.key, op.server.settings],
            )
          else assert.deepEqual(servers.key(server), op.server)
          if (op.op === 'add-real-server' || op.op === 'set-real-server')
            assert.deepEqual([reals.key(real), reals.settings(real)], [op.real.key, op.real.settings])
          if (op.op === 'remove-real-server') assert.deepEqual(reals.key(real), op.real)
        }
      }),
    )
  })

  it('is equal with a virtual server added as a whole and with its operations one by one', () => {
    fc.assert(
      fc.property(
        anyServer,
        fc.array(anyReal, { maxLength: 20 }),
        fc.array(anyOp),
        (server, reals, others) => {
          const unique = [
            ...new Map(reals.map((real) => [`${real.key.address} ${real.key.port}`, real])).values(),
          ]
          const list = RealServerList.of(unique)
          const batch = grownBatch(others)
          batch.addVirtualServer(server.key, server.settings, list)
          const ops: readonly IpvsOp[] = [
            ...others,
            { op: 'add-virtual-server', server },
            ...Array.from(list, (real) => ({ op: 'add-real-server', server: server.key, real }) as const),
          ]
          assert.deepEqual(
            ops.map((_, index) => batch.at(index)),
            ops.map(whole),
          )
          assert.deepEqual([...batch.counts], [...grownBatch(ops).counts])
        },
      ),
    )
  })

  it('shares the record of a virtual server between consecutive operations with the same settings', () => {
    const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 80 } as const
    const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
    const real = { address: ip('10.244.0.1'), port: 8080 }
    const ops: readonly IpvsOp[] = [
      { op: 'add-virtual-server', server: { key, settings } },
      { op: 'remove-real-server', server: { ...key }, real },
      { op: 'remove-real-server', server: { ...key }, real },
      { op: 'set-virtual-server', server: { key, settings: { ...settings, scheduler: 'wrr' } } },
      { op: 'zero-virtual-server', server: key },
      { op: 'zero-virtual-server', server: { ...key, port: 81 } },
      { op: 'zero-virtual-server', server: key },
    ]
    const records = new OpCursor(IpvsBatch.of(ops).encoded.ops)
    assert.deepEqual(
      ops.map((_, index) => records.op(index)[1]),
      [0, 0, 0, 1, 1, 2, 3],
    )
  })

  it('refuses a scheduler with a name that is too long for the kernel', () => {
    const key = { family: 'ipv4', mark: 1 } as const
    const settings = { scheduler: 'sixteen-letters!', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
    assert.throws(() => IpvsBatch.of([{ op: 'add-virtual-server', server: { key, settings } }]), BugError)
  })
})

describe('encodeRouteRun', () => {
  it('keeps every field of a route and of an address', () => {
    const base = plainRecord({ address: anyAddress, interfaceIndex: fc.nat(0x7fffffff) })
    fc.assert(
      fc.property(fc.array(fc.tuple(base, fc.nat(255), fc.boolean(), fc.nat(3))), (rows) => {
        const routes = rows.map(([row, protocol, hasSource, metric]) => {
          const isUsable = hasSource && row.address !== '::' && row.address !== '0.0.0.0'
          return {
            ...row,
            protocol,
            ...(isUsable ? { preferredSource: row.address } : {}),
            ...(metric === 0 ? {} : { metric }),
          }
        })
        const routeOps = routes.map((route): RouteOp => ({ op: 'add-route', route }))
        const cursor = new RouteCursor(encodeRouteRun({ kind: 'routes', start: 0, ops: routeOps }))
        assert.deepEqual(
          routes.map((_, i) => cursor.route(i)),
          routes,
        )
        const addresses = rows.map(([row, byte]) => ({ ...row, prefixLength: byte & 127 }))
        const addressOps = addresses.map((address): RouteOp => ({ op: 'add-address', address }))
        const read = new AddressCursor(encodeRouteRun({ kind: 'addresses', start: 0, ops: addressOps }))
        assert.deepEqual(
          addresses.map((_, i) => read.interfaceAddress(i)),
          addresses,
        )
      }),
    )
  })
})

describe('RecordTable', () => {
  it('refuses a table that ends within a record', () => {
    assert.throws(() => new RouteCursor(new Uint8Array(57)), BugError)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { familyOf } from '../../../../src/address.js'
import { disownBatch } from '../../../../src/layers/objects/index.js'
import { formerRouteProtocol, type RouteOp, viaductRouteProtocol } from '../../../../src/kernel/index.js'
import { recordBuffer } from '../../../../src/kernel/records.js'
import { dumpedShapes, writeRoute } from '../../../../src/kernel/route/encode.js'
import { opNumber, routeLayout } from '../../../../src/kernel/route/layout.js'
import { type VipReading, VipTable } from '../../../../src/layers/vips/index.js'
import { ip } from '../../../support/routes.js'

const place = { loopbackIndex: 1, dummyIndex: 2, preferredSource: undefined }

interface DumpedRoute {
  readonly protocol: number
  readonly interfaceIndex?: number
  readonly metric?: number
  readonly scope?: number
  readonly tos?: number
}

/** A dump that holds one route. */
function dumpOf(address: string, route: DumpedRoute): Uint8Array {
  const buffer = recordBuffer(routeLayout.size)
  const shape = { ...dumpedShapes[familyOf(ip(address))], tos: 0, interfaceIndex: 1, ...route }
  writeRoute(buffer, 0, { address: ip(address), ...shape }, opNumber.none)
  buffer.bytes[routeLayout.scope] = shape.scope
  buffer.bytes[routeLayout.tos] = shape.tos
  buffer.view.setUint32(routeLayout.metric, shape.metric, true)
  return buffer.bytes
}

function reading(routes: Uint8Array, isMarkedVip: VipReading['isMarkedVip']): VipReading {
  return { place, routes, addresses: new Uint8Array(), isMarkedVip }
}

function unbinds(table: VipTable): readonly RouteOp[] {
  return table.planUnbinds(table.takeDirty()).batch.ops
}

const marked = (): boolean => true
const unmarked = (): boolean => false

it('a route without a reply to its request may exist: its set entry stays until a dump', () => {
  const table = new VipTable({ binding: 'routes' })
  const address = ip('10.96.0.1')
  const holder = { service: 'default/web' }
  table.adopt(reading(new Uint8Array(), unmarked))
  table.need(address, holder)
  disownBatch(table.planBinds(table.takeDirty()).batch)
  table.release(address, holder)
  assert.ok(table.isLeftBound(address))
  table.adopt(reading(new Uint8Array(), marked))
  assert.ok(!table.isLeftBound(address))
})

describe('a former route that no VIP needs (issue 18, A1)', () => {
  for (const address of ['10.96.0.1', 'fd00:10:96::1']) {
    for (const protocol of [viaductRouteProtocol, formerRouteProtocol]) {
      it(`${address}, protocol ${protocol}: is own if a set has its address, and is removed with its own protocol`, () => {
        const table = new VipTable({ binding: 'routes' })
        table.adopt(reading(dumpOf(address, { protocol }), marked))
        const route = { address: ip(address), interfaceIndex: 1, protocol }
        assert.deepEqual(unbinds(table), [{ op: 'remove-route', route }])
      })
    }

    const { scope } = dumpedShapes[familyOf(ip(address))]
    const foreign: Readonly<Record<string, DumpedRoute & { readonly isUnmarked?: true }>> = {
      'no set has its address': { protocol: viaductRouteProtocol, isUnmarked: true },
      "another device, as with the guest agent of Google's machines": {
        protocol: formerRouteProtocol,
        interfaceIndex: 3,
      },
      "another device, Viaduct's protocol number": { protocol: viaductRouteProtocol, interfaceIndex: 3 },
      'another protocol': { protocol: 99 },
      'another metric': { protocol: viaductRouteProtocol, metric: 7 },
      'another scope': { protocol: viaductRouteProtocol, scope: scope === 0 ? 254 : 0 },
      'a TOS': { protocol: viaductRouteProtocol, tos: 0x10 },
    }
    for (const [name, { isUnmarked, ...route }] of Object.entries(foreign)) {
      it(`${address} is foreign: ${name}`, () => {
        const table = new VipTable({ binding: 'routes' })
        table.adopt(reading(dumpOf(address, route), isUnmarked === true ? unmarked : marked))
        assert.equal(table.carriesOurBinding(ip(address)), false)
        assert.deepEqual(unbinds(table), [])
        // The route makes the address local, so a VIP needs no second one.
        table.need(ip(address), { service: 'default/web' })
        assert.deepEqual(table.planBinds(table.takeDirty()).batch.ops, [])
      })
    }
  }
})

describe('a route whose address is needed', () => {
  const address = ip('10.96.0.1')
  const holder = { service: 'default/web' }

  it('is own with the current protocol number, also if no set has it', () => {
    const table = new VipTable({ binding: 'routes' })
    table.need(address, holder)
    table.adopt(reading(dumpOf(address, { protocol: viaductRouteProtocol }), unmarked))
    assert.equal(table.carriesOurBinding(address), true)
    table.release(address, holder)
    assert.deepEqual(
      unbinds(table).map(({ op }) => op),
      ['remove-route'],
    )
  })

  it('gets the current protocol number in place of the former one', () => {
    const table = new VipTable({ binding: 'routes' })
    table.need(address, holder)
    table.adopt(reading(dumpOf(address, { protocol: formerRouteProtocol }), marked))
    const route = { address, interfaceIndex: 1, protocol: viaductRouteProtocol }
    assert.deepEqual(table.planBinds(table.takeDirty()).batch.ops, [{ op: 'replace-route', route }])
  })

  it('stays own when its set entry is removed at run time', () => {
    const table = new VipTable({ binding: 'routes' })
    const dump = dumpOf(address, { protocol: viaductRouteProtocol })
    table.adopt(reading(dump, marked))
    table.adopt(reading(dump, unmarked))
    assert.equal(table.carriesOurBinding(address), true)
  })
})

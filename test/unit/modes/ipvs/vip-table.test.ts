import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { familyOf } from '../../../../src/address.js'
import { disownBatch } from '../../../../src/engine/index.js'
import { formerRouteProtocol, type RouteOp, viaductRouteProtocol } from '../../../../src/kernel/index.js'
import { recordBuffer, routeLayout } from '../../../../src/kernel/records.js'
import { dumpedShapes, routeOpNumber, writeRoute } from '../../../../src/kernel/route/encode.js'
import { type VipReading, VipTable } from '../../../../src/modes/ipvs/index.js'
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
  writeRoute(buffer, 0, { address: ip(address), ...shape }, routeOpNumber.none)
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

it('a route whose making was never answered may be there: its set entry stays until the kernel is read', () => {
  const table = new VipTable('routes')
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

describe('a route of before that nothing needs (issue 18, A1)', () => {
  for (const address of ['10.96.0.1', 'fd00:10:96::1']) {
    for (const protocol of [viaductRouteProtocol, formerRouteProtocol]) {
      it(`${address}, protocol ${protocol}: ours when a set says so, and removed with its own protocol`, () => {
        const table = new VipTable('routes')
        table.adopt(reading(dumpOf(address, { protocol }), marked))
        const route = { address: ip(address), interfaceIndex: 1, protocol }
        assert.deepEqual(unbinds(table), [{ op: 'remove-route', route }])
      })
    }

    const { scope } = dumpedShapes[familyOf(ip(address))]
    const foreign: Readonly<Record<string, DumpedRoute & { readonly isUnmarked?: true }>> = {
      'no set has its address': { protocol: viaductRouteProtocol, isUnmarked: true },
      "another device, as the guest agent of Google's machines has it": {
        protocol: formerRouteProtocol,
        interfaceIndex: 3,
      },
      'another device, our number': { protocol: viaductRouteProtocol, interfaceIndex: 3 },
      'another protocol': { protocol: 99 },
      'another metric': { protocol: viaductRouteProtocol, metric: 7 },
      'another scope': { protocol: viaductRouteProtocol, scope: scope === 0 ? 254 : 0 },
      'a TOS': { protocol: viaductRouteProtocol, tos: 0x10 },
    }
    for (const [name, { isUnmarked, ...route }] of Object.entries(foreign)) {
      it(`${address} is foreign: ${name}`, () => {
        const table = new VipTable('routes')
        table.adopt(reading(dumpOf(address, route), isUnmarked === true ? unmarked : marked))
        assert.equal(table.carriesOurBinding(ip(address)), false)
        assert.deepEqual(unbinds(table), [])
        // It makes the address local: a VIP needs no second route.
        table.need(ip(address), { service: 'default/web' })
        assert.deepEqual(table.planBinds(table.takeDirty()).batch.ops, [])
      })
    }
  }
})

describe('a route whose address is needed', () => {
  const address = ip('10.96.0.1')
  const holder = { service: 'default/web' }

  it('is ours with the number of today, also where no set has it', () => {
    const table = new VipTable('routes')
    table.need(address, holder)
    table.adopt(reading(dumpOf(address, { protocol: viaductRouteProtocol }), unmarked))
    assert.equal(table.carriesOurBinding(address), true)
    table.release(address, holder)
    assert.deepEqual(
      unbinds(table).map(({ op }) => op),
      ['remove-route'],
    )
  })

  it('gets the number of today in place of the former one', () => {
    const table = new VipTable('routes')
    table.need(address, holder)
    table.adopt(reading(dumpOf(address, { protocol: formerRouteProtocol }), marked))
    const route = { address, interfaceIndex: 1, protocol: viaductRouteProtocol }
    assert.deepEqual(table.planBinds(table.takeDirty()).batch.ops, [{ op: 'replace-route', route }])
  })

  it('stays ours when its set entry goes while we run', () => {
    const table = new VipTable('routes')
    const dump = dumpOf(address, { protocol: viaductRouteProtocol })
    table.adopt(reading(dump, marked))
    table.adopt(reading(dump, unmarked))
    assert.equal(table.carriesOurBinding(address), true)
  })
})

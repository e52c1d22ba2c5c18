// Laws of Routes, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import { AddressCursor, RouteCursor, viaductRouteProtocol } from '../../src/kernel/index.js'
import type { InterfaceAddress, LocalRoute, RouteOp, Routes } from '../../src/kernel/index.js'
import { eventually } from '../support/traffic.js'
import { applyAll, failures, ip, refusedWith } from './law.js'

/** The loopback interface, which every namespace has. */
const lo = 1
const foreignProtocol = 0x99
const absentInterface = 4711
/** Longest wait for the kernel's worker. Only broken runs reach it. */
const routeLimitMs = 10_000

function route(address: string, more: Partial<LocalRoute> = {}): LocalRoute {
  return { address: ip(address), interfaceIndex: lo, protocol: viaductRouteProtocol, ...more }
}

function onLoopback(address: string, prefixLength: number): InterfaceAddress {
  return { address: ip(address), prefixLength, interfaceIndex: lo }
}

const add = (localRoute: LocalRoute): RouteOp => ({ op: 'add-route', route: localRoute })
const remove = (localRoute: LocalRoute): RouteOp => ({ op: 'remove-route', route: localRoute })
const addAddress = (address: InterfaceAddress): RouteOp => ({ op: 'add-address', address })
const removeAddress = (address: InterfaceAddress): RouteOp => ({ op: 'remove-address', address })

async function localRoutes(routes: Routes, family: IpFamily): Promise<readonly LocalRoute[]> {
  const cursor = new RouteCursor(await routes.dumpLocalRoutes(family))
  return Array.from({ length: cursor.length }, (_, i) => cursor.route(i))
}

/** The routes of a law: those of the two test protocols, by address text. */
async function madeRoutes(routes: Routes, family: IpFamily): Promise<readonly LocalRoute[]> {
  const made = (await localRoutes(routes, family)).filter(
    ({ protocol }) => protocol === viaductRouteProtocol || protocol === foreignProtocol,
  )
  return made.toSorted((a, b) => (a.address < b.address ? -1 : 1))
}

async function addresses(routes: Routes, family: IpFamily): Promise<readonly string[]> {
  const cursor = new AddressCursor(await routes.dumpAddresses(family, lo))
  return Array.from({ length: cursor.length }, (_, i) => {
    const { address, prefixLength, interfaceIndex } = cursor.interfaceAddress(i)
    assert.equal(interfaceIndex, lo)
    return `${address}/${prefixLength}`
  }).toSorted()
}

async function clear(routes: Routes): Promise<void> {
  for (const family of ['ipv4', 'ipv6'] as const) {
    const made = await madeRoutes(routes, family)
    await applyAll(routes, made.map(remove))
  }
}

type Law = (name: string, run: (routes: Routes) => Promise<void>) => void

/** Runs each law in one fresh namespace with `lo` up. */
export function routesContract(subject: string, open: () => Routes): void {
  describe(`${subject}: Routes`, () => {
    let routes: Routes
    before(() => {
      routes = open()
    })
    beforeEach(() => clear(routes))
    after(async () => {
      await routes.close()
      await assert.rejects(routes.dumpLocalRoutes('ipv4'), { code: 'EBADF', family: 'ipv4' })
      const about = { family: 'ipv6', object: 'interface 1' }
      await assert.rejects(routes.lookUp([{ destination: ip('10.96.0.1') }]), { code: 'EBADF' })
      await assert.rejects(routes.dumpAddresses('ipv6', 1), { code: 'EBADF', ...about })
    })
    const law: Law = (name, run) => {
      it(name, () => run(routes))
    }
    routeLaws(law)
    addressLaws(law)
    batchLaws(law)
  })
}

function routeLaws(law: Law): void {
  for (const [family, address, source] of [
    ['ipv4', '10.96.0.1', '127.0.0.1'],
    ['ipv6', 'fd00:10:96::1', '::1'],
  ] as const) {
    law(`${family}: a dump has added routes, but no removed ones`, async (routes) => {
      await applyAll(routes, [add(route(address))])
      assert.deepEqual(await madeRoutes(routes, family), [route(address)])
      await applyAll(routes, [remove(route(address))])
      assert.deepEqual(await madeRoutes(routes, family), [])
    })

    law(`${family}: keeps the preferred source, which a removal does not need`, async (routes) => {
      const sourced = route(address, { preferredSource: ip(source) })
      await applyAll(routes, [add(sourced)])
      assert.deepEqual(await madeRoutes(routes, family), [sourced])
      await applyAll(routes, [remove(route(address))])
    })

    law(`${family}: EINVAL for a preferred source that is not an address of the node`, async (routes) => {
      const foreign = ip(family === 'ipv4' ? '192.0.2.77' : '2001:db8::77')
      await refusedWith(routes, add(route(address, { preferredSource: foreign })), 'EINVAL')
      assert.deepEqual(await madeRoutes(routes, family), [])
    })

    law(`${family}: EEXIST when present`, async (routes) => {
      await applyAll(routes, [add(route(address))])
      await refusedWith(routes, add(route(address)), 'EEXIST')
    })

    law(`${family}: replace adds an absent route and replaces an existing one`, async (routes) => {
      const sourced = route(address, { preferredSource: ip(source) })
      await applyAll(routes, [{ op: 'replace-route', route: route(address) }])
      assert.deepEqual(await madeRoutes(routes, family), [route(address)])
      await applyAll(routes, [{ op: 'replace-route', route: sourced }])
      assert.deepEqual(await madeRoutes(routes, family), [sourced])
    })

    law(`${family}: routes of different metrics stand side by side`, async (routes) => {
      const [usual, other] = [route(address), route(address, { metric: 0x56494144 })]
      await applyAll(routes, [add(usual), add(other)])
      await refusedWith(routes, add(other), 'EEXIST')
      assert.deepEqual(await madeRoutes(routes, family), [usual, other])
      await applyAll(routes, [remove(other)])
      assert.deepEqual(await madeRoutes(routes, family), [usual])
      await refusedWith(routes, remove(other), 'ESRCH')
    })

    law(`${family}: ESRCH when absent`, async (routes) => {
      await refusedWith(routes, remove(route(address)), 'ESRCH')
    })

    law(`${family}: a route of another protocol is not removed`, async (routes) => {
      const foreign = route(address, { protocol: foreignProtocol })
      await applyAll(routes, [add(foreign)])
      await refusedWith(routes, remove(route(address)), 'ESRCH')
      assert.deepEqual(await madeRoutes(routes, family), [foreign])
    })

    law(`${family}: the kernel is asked for the route of each packet`, async (routes) => {
      await applyAll(routes, [add(route(address, { preferredSource: ip(source) }))])
      const other = ip(family === 'ipv4' ? '192.0.2.77' : '2001:db8::77')
      const transport = { protocol: 'tcp', port: 80 } as const
      const questions = [{ destination: ip(address), transport, mark: 0x4000 }, { destination: other }]
      assert.deepEqual(await routes.lookUp(questions), [
        { isRouted: true, isLocal: true, interfaceIndex: lo, preferredSource: ip(source) },
        { isRouted: false, errno: 'ENETUNREACH' },
      ])
      assert.deepEqual(await routes.lookUp([]), [])
      const comesIn = { destination: ip(address), source: other, inInterface: absentInterface }
      await assert.rejects(routes.lookUp([comesIn]), { code: 'ENODEV', operation: 'look up route' })
    })

    law(`${family}: ENODEV for an interface that does not exist`, async (routes) => {
      await refusedWith(routes, add(route(address, { interfaceIndex: absentInterface })), 'ENODEV')
    })
  }

  law('the dump of a family includes the kernel’s routes, and none of the other family', async (routes) => {
    await applyAll(routes, [add(route('10.96.0.1')), add(route('fd00:10:96::1'))])
    const texts = async (family: IpFamily): Promise<readonly string[]> =>
      (await localRoutes(routes, family)).map(({ address, protocol }) => `${address} ${protocol}`)
    assert.deepEqual((await texts('ipv4')).toSorted(), ['10.96.0.1 173', '127.0.0.1 2'])
    assert.deepEqual((await texts('ipv6')).toSorted(), ['::1 2', 'fd00:10:96::1 173'])
  })
}

function addressLaws(law: Law): void {
  for (const [family, address, prefixLength] of [
    ['ipv4', '10.96.0.2', 32],
    ['ipv6', 'fd00:10:96::2', 128],
  ] as const) {
    law(`${family}: an added address is local until it is removed`, async (routes) => {
      const original = await addresses(routes, family)
      const local = async (): Promise<boolean> =>
        (await localRoutes(routes, family)).some((other) => other.address === ip(address))
      await applyAll(routes, [addAddress(onLoopback(address, prefixLength))])
      assert.deepEqual(
        await addresses(routes, family),
        [...original, `${address}/${prefixLength}`].toSorted(),
      )
      // For IPv6 the kernel adds the route in a worker after its reply. The removal is synchronous.
      await eventually(local, (is) => is, routeLimitMs)
      await refusedWith(routes, addAddress(onLoopback(address, prefixLength)), 'EEXIST')
      await applyAll(routes, [removeAddress(onLoopback(address, prefixLength))])
      assert.deepEqual(await addresses(routes, family), original)
      assert.equal(await local(), false)
      await refusedWith(routes, removeAddress(onLoopback(address, prefixLength)), 'EADDRNOTAVAIL')
    })
  }

  law('ENODEV for an interface that does not exist', async (routes) => {
    await refusedWith(
      routes,
      addAddress({ ...onLoopback('10.96.0.2', 32), interfaceIndex: absentInterface }),
      'ENODEV',
    )
  })
}

function batchLaws(law: Law): void {
  law('a batch may mix routes and addresses, and its outcome names the failed operation', async (routes) => {
    const address = onLoopback('10.96.0.3', 32)
    const outcome = await routes.apply([
      add(route('10.96.0.1')),
      addAddress(address),
      add(route('10.96.0.4', { preferredSource: ip('10.96.0.3') })),
      add(route('10.96.0.1')),
      removeAddress(onLoopback('10.96.0.99', 32)),
      remove(route('10.96.0.1')),
    ])
    assert.deepEqual(failures(outcome), ['3 EEXIST', '4 EADDRNOTAVAIL'])
    assert.equal(outcome.applied, 4)
    assert.deepEqual(
      outcome.failures.map(({ error }) => [error.subsystem, error.operation, error.family, error.object]),
      [
        ['route', 'add-route', 'ipv4', '10.96.0.1 on interface 1'],
        ['route', 'remove-address', 'ipv4', '10.96.0.99/32 on interface 1'],
      ],
    )
    const made = await madeRoutes(routes, 'ipv4')
    assert.deepEqual(
      made.map((other) => other.address),
      ['10.96.0.4'],
    )
    await applyAll(routes, [remove(route('10.96.0.4')), removeAddress(address)])
  })

  law('thousands of routes fit into one batch', async (routes) => {
    const many = Array.from({ length: 3000 }, (_, i) => route(`10.98.${i >> 8}.${i & 255}`))
    await applyAll(routes, many.map(add))
    assert.equal((await madeRoutes(routes, 'ipv4')).length, many.length)
    const again = await routes.apply(many.map(add))
    assert.equal(again.applied, 0)
    assert.equal(again.failures.length, many.length)
    await applyAll(routes, many.map(remove))
    assert.deepEqual(await madeRoutes(routes, 'ipv4'), [])
  })

  law('an empty batch has an empty outcome', async (routes) => {
    assert.deepEqual(await routes.apply([]), { applied: 0, failures: [] })
  })
}

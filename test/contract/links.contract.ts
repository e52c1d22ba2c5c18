// Laws of Links, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { LinkEvent, Links, LinkWatch, RouteOp, Routes } from '../../src/kernel/index.js'
import { applyAll, ip, rejectsWith } from './law.js'

export interface LinksSubject {
  readonly links: Links
  /** Routes of the same namespace. */
  readonly routes: Routes
}

/** The events of a watch, one by one, until it is closed. */
async function* eventsOf(watch: LinkWatch): AsyncGenerator<LinkEvent, undefined> {
  for (;;) {
    const batch = await watch.next()
    if (batch === undefined) return undefined
    assert.ok(batch.length > 0, 'an empty batch of events')
    yield* batch
  }
}

/** The first event that matches; those before it are dropped. */
async function until(
  events: AsyncGenerator<LinkEvent, undefined>,
  matches: (event: LinkEvent) => boolean,
): Promise<LinkEvent> {
  for (;;) {
    const { value } = await events.next()
    assert.ok(value !== undefined, 'the watch was closed')
    if (matches(value)) return value
  }
}

function linkEvent(change: 'add' | 'remove', name: string): (event: LinkEvent) => boolean {
  return (event) => event.kind === 'link' && event.change === change && event.name === name
}

/** Runs each law in one fresh namespace with `lo` up. `hasDummy` false: without the laws that need a dummy device. */
export function linksContract(subject: string, open: () => LinksSubject, hasDummy: boolean): void {
  describe(`${subject}: Links`, () => {
    let links: Links
    let routes: Routes
    before(() => {
      ;({ links, routes } = open())
    })
    after(async () => {
      await links.close()
      await routes.close()
      await rejectsWith(links.setUp(1), 'EBADF')
      assert.throws(() => links.watch(), { name: 'KernelError', code: 'EBADF' })
    })

    it('finds lo, which is up', async () => {
      assert.deepEqual(await links.find('lo'), { name: 'lo', index: 1, kind: '', isUp: true })
      assert.ok((await links.list()).some(({ name }) => name === 'lo'))
    })
    it('find returns undefined for an absent interface', async () => {
      assert.equal(await links.find('nosuch0'), undefined)
    })
    it('ENODEV when an absent interface is set up or removed', async () => {
      await rejectsWith(links.setUp(4711), 'ENODEV')
      await rejectsWith(links.remove(4711), 'ENODEV')
    })
    it('a watch reports address changes', async () => {
      const watch = links.watch()
      const address = { address: ip('10.96.0.50'), prefixLength: 32, interfaceIndex: 1 }
      await applyAll<RouteOp>(routes, [
        { op: 'add-address', address },
        { op: 'remove-address', address },
      ])
      const events = eventsOf(watch)
      for (const change of ['add', 'remove'] as const) {
        const event = await until(
          events,
          (seen) => seen.kind === 'address' && seen.change === change && seen.address === address.address,
        )
        assert.deepEqual(event, { kind: 'address', change, index: 1, family: 'ipv4', address: '10.96.0.50' })
      }
      await watch.close()
    })
    it('ends a wait with undefined when the watch is closed', async () => {
      const watch = links.watch()
      const next = watch.next()
      await watch.close()
      assert.equal(await next, undefined)
      assert.equal(await watch.next(), undefined)
      await watch.close()
    })
    if (hasDummy) dummyLaws(() => links)
  })
}

function dummyLaws(links: () => Links): void {
  it('adds a dummy device that is down, sets it up, and removes it', async () => {
    const name = 'viaduct-dummy0'
    const added = await links().addDummy(name)
    assert.deepEqual(await links().find(name), { name, index: added.index, kind: 'dummy', isUp: false })
    assert.deepEqual(added, { name, index: added.index, kind: 'dummy', isUp: false })
    await links().setUp(added.index)
    assert.equal((await links().find(name))?.isUp, true)
    await links().remove(added.index)
    assert.equal(await links().find(name), undefined)
  })
  it('EEXIST when the name is in use', async () => {
    const added = await links().addDummy('viaduct-dummy1')
    await rejectsWith(links().addDummy('viaduct-dummy1'), 'EEXIST')
    await links().remove(added.index)
  })
  it('a watch reports creation, changes and removal of an interface', async () => {
    const watch = links().watch()
    const events = eventsOf(watch)
    const added = await links().addDummy('viaduct-dummy2')
    const first = await until(events, linkEvent('add', 'viaduct-dummy2'))
    assert.equal(first.kind === 'link' && first.index, added.index)
    await links().remove(added.index)
    const last = await until(events, linkEvent('remove', 'viaduct-dummy2'))
    assert.equal(last.kind === 'link' && last.index, added.index)
    await watch.close()
  })
}

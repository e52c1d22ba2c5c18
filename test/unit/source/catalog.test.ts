import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { Catalog } from '../../../src/source/manifests/catalog.js'
import type { KeyedObjects } from '../../../src/source/manifests/document.js'
import { objectKey } from '../../../src/source/readers/read-object.js'
import type { NodeObject, ObjectEvent } from '../../../src/source/index.js'

function node(name: string, podCIDR: string): NodeObject {
  return {
    kind: 'Node',
    namespace: '',
    name,
    labels: {},
    addresses: [],
    podCIDRs: [podCIDR],
    taintKeys: [],
    deleted: false,
  }
}

function file(...nodes: readonly NodeObject[]): KeyedObjects {
  return new Map(nodes.map((object) => [objectKey(object), object]))
}

function replay(world: Map<string, string>, events: readonly ObjectEvent[]): void {
  for (const event of events) {
    if (event.type === 'set' && event.object.kind === 'Node') {
      world.set(event.object.name, event.object.podCIDRs.join())
    }
    if (event.type === 'delete') assert.ok(world.delete(event.key.name), 'only what was in force is deleted')
  }
}

describe('Catalog', () => {
  it('delivers nothing for an unchanged file', () => {
    const catalog = new Catalog()
    catalog.apply(new Map([['a', file(node('x', '1'))]]))
    assert.deepEqual(catalog.apply(new Map([['a', file(node('x', '1'))]])).events, [])
  })

  it('uses the object of the lexically first file, and that of the other after its removal', () => {
    const catalog = new Catalog()
    catalog.apply(new Map([['b', file(node('x', '2'))]]))
    const both = catalog.apply(new Map([['a', file(node('x', '1'))]]))
    assert.deepEqual(both.events, [{ type: 'set', object: node('x', '1') }])
    assert.deepEqual(both.conflicts.get('Node /x'), { object: 'Node /x', winner: 'a', others: ['b'] })
    const one = catalog.apply(new Map([['a', undefined]]))
    assert.deepEqual(one.events, [{ type: 'set', object: node('x', '2') }])
    assert.deepEqual([...one.conflicts], [['Node /x', undefined]])
  })

  it('delivers nothing for an object that moves to another file', () => {
    const catalog = new Catalog()
    catalog.apply(new Map([['a', file(node('x', '1'))]]))
    const moved = new Map([
      ['a', undefined],
      ['b', file(node('x', '1'))],
    ])
    assert.deepEqual(catalog.apply(moved).events, [])
  })

  it('incremental changes give the same objects as one full pass', () => {
    const objects = fc.uniqueArray(
      fc.record({ name: fc.constantFrom('x', 'y', 'z'), podCIDR: fc.constantFrom('1', '2') }),
      { selector: ({ name }) => name },
    )
    const change = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.option(objects, { nil: undefined }))
    fc.assert(
      fc.property(fc.array(change), (changes) => {
        const catalog = new Catalog()
        const world = new Map<string, string>()
        const files = new Map<string, readonly NodeObject[]>()
        for (const step of changes) {
          const applied = new Map(
            Object.entries(step).map(([name, list]) => [name, list?.map((o) => node(o.name, o.podCIDR))]),
          )
          for (const [name, list] of applied) files.set(name, list ?? [])
          replay(
            world,
            catalog.apply(new Map([...applied].map(([name, list]) => [name, list && file(...list)]))).events,
          )
        }
        const full = new Map<string, string>()
        for (const name of ['c', 'b', 'a']) {
          for (const object of files.get(name) ?? []) full.set(object.name, object.podCIDRs.join())
        }
        assert.deepEqual(Object.fromEntries(world), Object.fromEntries(full))
      }),
    )
  })
})

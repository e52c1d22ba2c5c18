import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { Catalog } from '../../../src/source/manifests/catalog.js'
import type { FileObjects } from '../../../src/source/manifests/document.js'
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

function file(...nodes: readonly NodeObject[]): FileObjects {
  const objects = new Map(nodes.map((object) => [objectKey(object), object]))
  return { objects, unusable: new Set(), hasNameless: false }
}

/** The file, and objects in it that cannot be used. */
function beside(content: FileObjects, ...names: readonly string[]): FileObjects {
  return { ...content, unusable: new Set(names.map((name) => `Node /${name}`)) }
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
    assert.deepEqual(both.conflicts.get('Node /x'), { object: 'Node x', winner: 'a', others: ['b'] })
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

  const [good, other] = [node('x', '1'), node('y', '1')]
  const nameless: FileObjects = { ...file(), hasNameless: true }
  const steps: readonly {
    readonly name: string
    readonly files: readonly Readonly<Record<string, FileObjects | undefined>>[]
    readonly world: Readonly<Record<string, string>>
  }[] = [
    {
      name: 'keeps an object that becomes unusable, and follows the others',
      files: [{ a: file(good, other) }, { a: beside(file(node('y', '2')), 'x') }],
      world: { x: '1', y: '2' },
    },
    {
      name: 'keeps an unusable object through several changes',
      files: [{ a: file(good) }, { a: beside(file(), 'x') }, { a: beside(file(other), 'x') }],
      world: { x: '1', y: '1' },
    },
    {
      name: 'deletes an unusable object that leaves its file',
      files: [{ a: file(good, other) }, { a: beside(file(other), 'x') }, { a: file(other) }],
      world: { y: '1' },
    },
    {
      name: 'deletes an unusable object with its file',
      files: [{ a: file(good) }, { a: beside(file(), 'x') }, { a: undefined }],
      world: {},
    },
    {
      name: 'has no object for one that was never usable, and gets it later',
      files: [{ a: beside(file(other), 'x') }, { a: file(good, other) }],
      world: { x: '1', y: '1' },
    },
    {
      name: 'deletes nothing of a file with an object without a name',
      files: [{ a: file(good, other) }, { a: { ...file(node('y', '2')), hasNameless: true } }],
      world: { x: '1', y: '2' },
    },
    {
      name: 'deletes once every name is readable again',
      files: [{ a: file(good, other) }, { a: nameless }, { a: file(other) }],
      world: { y: '1' },
    },
    {
      name: 'keeps an object that moves to another file and is unusable there',
      files: [{ a: file(good) }, { a: file(), b: beside(file(), 'x') }, { c: file(other) }],
      world: { x: '1', y: '1' },
    },
    {
      name: 'keeps a moved object if the new file comes first',
      files: [{ a: file(good) }, { b: beside(file(), 'x') }, { a: undefined }],
      world: { x: '1' },
    },
    {
      name: 'uses the usable object of another file',
      files: [{ a: file(good) }, { a: file(), b: beside(file(), 'x') }, { c: file(node('x', '2')) }],
      world: { x: '2' },
    },
    {
      name: 'deletes a moved object that leaves the new file',
      files: [{ a: file(good) }, { a: file(), b: beside(file(), 'x') }, { b: file() }],
      world: {},
    },
  ]
  for (const { name, files, world } of steps) {
    it(name, () => {
      const catalog = new Catalog()
      const found = new Map<string, string>()
      for (const change of files) {
        const { events, conflicts } = catalog.apply(new Map(Object.entries(change)))
        replay(found, events)
        assert.deepEqual([...conflicts], [])
      }
      assert.deepEqual(Object.fromEntries(found), world)
    })
  }

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

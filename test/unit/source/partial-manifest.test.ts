// A file some of whose objects cannot be used: the others apply, and what was in force of those stays.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { parseManifest } from '../../../src/source/manifests/parse.js'
import { ManifestFolder } from '../../support/manifest-folder.js'

const webJson = '{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{}}'
const web = 'apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {}\n'

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

describe('parseManifest: a file in part', () => {
  const bad = webJson.replace('"web"', '"bad"').replace('{}}', '{"clusterIP":"x"}}')
  const partial = [
    {
      name: 'a bad object, by its key',
      items: [webJson, bad],
      expected: { keys: ['Service default/web'], unusable: ['Service default/bad'], hasNameless: false },
    },
    {
      name: 'a bad Node, which has no namespace',
      items: [webJson, '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":1}}'],
      expected: { keys: ['Service default/web'], unusable: ['Node /n'], hasNameless: false },
    },
    {
      name: 'a second copy: the first one counts',
      items: [webJson, webJson.replace('{}}', '{"clusterIP":"10.96.0.9"}}')],
      expected: { keys: ['Service default/web'], unusable: [], hasNameless: false },
    },
    {
      name: 'a bad copy of a good object',
      items: [bad, bad.replace('"x"', '"10.96.0.9"')],
      expected: { keys: ['Service default/bad'], unusable: [], hasNameless: false },
    },
    ...[
      '1',
      '{"apiVersion":"v1"}',
      bad.replace('"name":"bad"', ''),
      bad.replace('"bad"', '"Bad"'),
      bad.replace('"bad"', '"bad","namespace":"a/b"'),
      bad.replace('"metadata":{"name":"bad"}', '"metadata":[]'),
    ].map((item) => ({
      name: `an item whose name cannot be read: ${item}`,
      items: [item, webJson],
      expected: { keys: ['Service default/web'], unusable: [], hasNameless: true },
    })),
  ]
  for (const { name, items, expected } of partial) {
    it(`reads the other objects beside ${name}`, () => {
      const documents = items.join('\n---\n')
      const list = `apiVersion: v1\nkind: List\nitems: [${items.join(', ')}]`
      for (const text of [documents, list]) {
        const reading = parseManifest('a.yaml', bytes(text))
        assert.ok('objects' in reading)
        const { objects, unusable, hasNameless, problems } = reading
        assert.deepEqual({ keys: [...objects.keys()], unusable: [...unusable], hasNameless }, expected)
        assert.ok(problems.length > 0)
      }
    })
  }

  it('keeps every object of a file that has a List without items', () => {
    const reading = parseManifest('a.yaml', bytes(`apiVersion: v1\nkind: List\n---\n${web}`))
    assert.ok('objects' in reading && reading.hasNameless)
    assert.equal(reading.objects.size, 1)
  })

  it('reads no object of a file with a syntax error', () => {
    assert.ok(!('objects' in parseManifest('a.yaml', bytes(`${web}---\na: [1\nb: 2`))))
  })
})

let folder: ManifestFolder

function service(name: string, clusterIP: string): string {
  return `apiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {clusterIP: ${clusterIP}, ports: [{port: 80}]}\n`
}

function write(name: string, text: string): void {
  writeFileSync(folder.path(name), text)
}

function listOf(...items: readonly string[]): string {
  const indented = items.map((item) => `- ${item.replace(/\n(?=.)/gu, '\n  ')}`)
  return `apiVersion: v1\nkind: List\nitems:\n${indented.join('')}`
}

describe('ManifestSource: a file in part', () => {
  beforeEach(() => {
    folder = new ManifestFolder()
    mkdirSync(folder.root)
  })
  afterEach(() => folder.close())

  it('delivers the other objects of a file with an invalid one, and is synced when that is mended', async () => {
    const [good, bad] = [service('a', '10.96.0.1'), service('bad', '10.96.0.300')]
    write('a.yaml', `${good}---\n${bad}`)
    await folder.start()
    assert.deepEqual(folder.batches, [['+Service default/a 10.96.0.1', 'listed']])
    assert.deepEqual(folder.log, [
      'Manifest is not applied: a.yaml: document 2 (Service default/bad): ' +
        'spec.clusterIP: must be an IP address, "" or None, not the text "10.96.0.300"; ' +
        'the other objects of the file are applied',
    ])
    const mend = () => write('a.yaml', `${good}---\n${service('bad', '10.96.0.3')}`)
    assert.deepEqual(await folder.after(mend), ['+Service default/bad 10.96.0.3', 'synced'])
    assert.equal(folder.errors, 0)
  })

  it('keeps the last valid object of an item that becomes invalid, and applies the others', async () => {
    write('c.yaml', listOf(service('c', '10.96.0.3'), service('d', '10.96.0.4')))
    await folder.start()
    const next = listOf(service('c', '10.96.0.300'), service('e', '10.96.0.5'))
    const log = folder.log.length
    assert.deepEqual(await folder.after(() => write('c.yaml', next)), [
      '-Service default/d',
      '+Service default/e 10.96.0.5',
    ])
    assert.match(
      folder.log[log] ?? '',
      /c\.yaml: document 1, item 1 \(Service default\/c\): spec\.clusterIP/u,
    )
    const nameless = listOf('1\n', service('e', '10.96.0.6'))
    assert.deepEqual(await folder.after(() => write('c.yaml', nameless)), ['+Service default/e 10.96.0.6'])
    const all = await folder.after(() => write('c.yaml', listOf(service('e', '10.96.0.6'))))
    assert.deepEqual(all, ['-Service default/c'])
    assert.equal(folder.errors, 0)
  })
})

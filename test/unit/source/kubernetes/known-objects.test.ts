import assert from 'node:assert/strict'
import { beforeEach, describe, it } from 'node:test'
import { openLog, StateReporter } from '../../../../src/log.js'
import { KnownObjects } from '../../../../src/source/kubernetes/known-objects.js'
import type { WireObject } from '../../../../src/api/formats/wire-format.js'
import { readService } from '../../../../src/source/readers/service.js'
import { apiService } from '../../../support/api-documents.js'
import { typedJson } from '../../../support/api-writer.js'
import { describeEvent } from '../../../support/manifest-folder.js'

let log: string[]
let problems: StateReporter
let known: KnownObjects

beforeEach(() => {
  log = []
  const destination = {
    write: (line: string) => {
      const { msg }: { msg: string } = JSON.parse(line)
      log.push(msg)
    },
  }
  problems = new StateReporter({
    log: openLog({ format: 'json', verbosity: 0, destination, clock: { unixMs: () => 0 } }),
    level: 'error',
    problemLine: 'API object is not applied',
    recovery: 'API object is applied now',
  })
  known = new KnownObjects({ kind: 'Service', read: readService }, problems)
})

function wire(name: string, clusterIP: string, resourceVersion: string): WireObject {
  const { metadata, ...rest } = apiService(name, clusterIP)
  const document = typedJson('Service', { ...rest, metadata: { ...Object(metadata), resourceVersion } })
  return { document, problem: undefined }
}

function take(...objects: readonly WireObject[]): string[] {
  return objects
    .map((object) => known.take(object))
    .flatMap((event) => (event === undefined ? [] : describeEvent(event)))
}

function list(...objects: readonly WireObject[]): string[] {
  known.beginListing()
  return [...take(...objects), ...known.endListing().map(describeEvent)]
}

describe('KnownObjects', () => {
  it('delivers only the differences of a list; deletions come last', () => {
    assert.deepEqual(list(wire('a', '10.96.0.1', '1'), wire('b', '10.96.0.2', '2')), [
      '+Service default/a 10.96.0.1',
      '+Service default/b 10.96.0.2',
    ])
    assert.deepEqual(list(wire('b', '10.96.0.2', '2'), wire('c', '10.96.0.3', '3')), [
      '+Service default/c 10.96.0.3',
      '-Service default/a',
    ])
  })

  it('deletes nothing for an incomplete list', () => {
    list(wire('a', '10.96.0.1', '1'))
    known.beginListing()
    known.beginListing()
    take(wire('b', '10.96.0.2', '2'))
    assert.deepEqual(list(wire('a', '10.96.0.1', '1')), ['-Service default/b'])
  })

  it('delivers a deletion once', () => {
    list(wire('a', '10.96.0.1', '1'))
    assert.deepEqual(known.remove(wire('a', '10.96.0.1', '9')), {
      type: 'delete',
      kind: 'Service',
      key: { namespace: 'default', name: 'a' },
    })
    assert.equal(known.remove(wire('a', '10.96.0.1', '9')), undefined)
    assert.deepEqual(take(wire('a', '10.96.0.1', '10')), ['+Service default/a 10.96.0.1'])
  })

  it('keeps the last valid state of an object that became invalid, and reports object and field', () => {
    list(wire('a', '10.96.0.1', '1'))
    assert.deepEqual(list(wire('a', 'nowhere', '2'), wire('b', '10.96.0.2', '3')), [
      '+Service default/b 10.96.0.2',
    ])
    assert.deepEqual(log, [
      'API object is not applied: Service default/a: spec.clusterIP: must be an IP address, "" or None, not the text "nowhere"; ' +
        'spec.clusterIPs[0]: must be an IP address, "" or None, not the text "nowhere"',
    ])
    assert.deepEqual(take(wire('a', '10.96.0.9', '4')), ['+Service default/a 10.96.0.9'])
    assert.equal(log.at(-1), 'API object is applied now')
    assert.equal(problems.size, 0)
  })

  it('forgets a deleted invalid object silently', () => {
    list(wire('a', 'nowhere', '1'))
    known.remove(wire('a', 'nowhere', '2'))
    list(wire('a', 'nowhere', '3'))
    list()
    assert.equal(problems.size, 0)
    assert.equal(log.filter((line) => line.includes('again')).length, 0)
  })

  it('reports an object whose bytes are malformed by name and field', () => {
    const problem = { path: 'spec.ports[0].name', problem: 'is cut off' }
    assert.deepEqual(take({ document: { metadata: { name: 'a', namespace: 'shop' } }, problem }), [])
    assert.deepEqual(log, ['API object is not applied: Service shop/a: spec.ports[0].name: is cut off'])
  })

  it('deletes nothing for a list with an item without a readable name, which may be any object', () => {
    list(wire('a', '10.96.0.1', '1'))
    assert.deepEqual(list({ document: {}, problem: { path: 'metadata', problem: 'is cut off' } }), [])
    assert.deepEqual(log, ['API object is not applied: Service without a name: metadata: is cut off'])
    assert.deepEqual(list(), ['-Service default/a'])
    assert.equal(problems.size, 0)
  })

  it('throws no error for any values', () => {
    for (const document of [undefined, null, 5, 'x', [], {}, { metadata: null }, { metadata: { name: 5 } }]) {
      assert.equal(known.take({ document, problem: undefined }), undefined)
      assert.equal(known.remove({ document, problem: undefined }), undefined)
    }
  })
})

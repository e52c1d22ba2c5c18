import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiNode, apiService } from '../../../support/api-documents.js'
import { shapes } from '../../../support/api-shapes.js'
import {
  envelope,
  frame,
  jsonWriter,
  objectEnvelope,
  protobufOf,
  protobufWriter,
  watchEvent,
} from '../../../support/api-writer.js'
import { delays, KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

beforeEach(() => {
  lab = new KubernetesLab()
})
afterEach(async () => await lab.close())

const added = protobufWriter.event('ADDED', 'Service', apiService('cut', '10.96.9.9'))
const nameless = envelope('Service', 'v1', Buffer.from([0x0a, 0x7f]))

const garbage = [
  {
    name: 'a truncated event',
    bytes: added.subarray(0, 20),
    problem: /the stream ends within an event$/u,
  },
  {
    name: 'a web page',
    bytes: frame(Buffer.from('<html>')),
    problem: /an event: holds a field of wire type 4/u,
  },
  {
    name: 'an excessive length',
    bytes: Buffer.alloc(4, 0xff),
    problem: /an event of 4294967295 bytes/u,
  },
  {
    name: 'an event of an unknown type',
    bytes: frame(watchEvent('RENAMED', objectEnvelope('Service', apiService('x', '10.96.9.9')))),
    problem: /unknown type "RENAMED"$/u,
  },
  {
    name: 'an object of another kind',
    bytes: protobufWriter.event('DELETED', 'Node', apiNode('web')),
    problem: /an object is v1 Node, not v1 Service$/u,
  },
  {
    name: 'an object whose name cannot be read',
    bytes: frame(watchEvent('MODIFIED', nameless)),
    problem: /an object without a name$/u,
  },
]

function listsOfServices(): number {
  return lab.server.requests.filter((request) => /^Service (?:list|stream)/u.test(request)).length
}

describe('garbage in a watch', () => {
  for (const { name, bytes, problem } of garbage) {
    it(`causes a list, whose differences are delivered: ${name}`, async () => {
      lab.server.store.put('Service', apiService('gone', '10.96.0.2'))
      await lab.start()
      await lab.untilFollowing()
      lab.events.length = 0
      lab.server.options = { hidesChanges: true }
      lab.server.store.remove('Service', 'default/gone')
      lab.server.store.put('Service', apiService('hidden', '10.96.0.3'))
      lab.server.options = {}
      lab.server.sendBytes('Service', bytes)
      lab.server.endWatches('Service')
      await lab.fire(delays.relist)
      assert.deepEqual(await lab.untilEvent('-Service default/gone'), [
        '+Service default/hidden 10.96.0.3',
        '-Service default/gone',
      ])
      assert.match(lab.log.join('\n'), new RegExp(`link: Service: .*${problem.source}`, 'mu'))
      assert.equal(listsOfServices(), 2)
    })

    it(`in every watch causes lists with growing delays, and is logged once: ${name}`, async () => {
      lab.server.options = { streamedLists: 'old' }
      await lab.start()
      await lab.untilFollowing()
      lab.server.setFault('Service', { type: 'stream', bytes }, 'watch')
      lab.clock.pass(6000)
      lab.server.endWatches('Service')
      for (const delayMs of [400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000]) await lab.fire(delayMs)
      await lab.until(() => lab.clock.count(30_000) > 0)
      // The first watch is resumed without a list. Each of the eight others follows a list.
      assert.equal(listsOfServices(), 1 + 1 + 8)
      assert.equal(lab.log.filter((line) => line.startsWith('link')).length, 1)
      lab.server.setFault('Service', undefined)
      await lab.fire(30_000)
      await lab.untilFollowing()
      await lab.fire(delays.steady)
      assert.equal(lab.log.at(-1), 'link: over')
    })
  }

  it('after a time without errors causes lists with growing delays too', async () => {
    await lab.start()
    for (const delayMs of [400, 800, 1600, 3200]) {
      await lab.untilFollowing()
      lab.server.store.put('Service', apiService(`s${delayMs}`, '10.96.0.9'))
      await lab.untilEvent(`+Service default/s${delayMs} 10.96.0.9`)
      lab.clock.pass(6000)
      lab.server.sendBytes('Service', Buffer.alloc(4, 0xff))
      await lab.fire(delayMs)
    }
    await lab.until(() => listsOfServices() === 5)
  })

  it('in JSON causes a list too', async () => {
    lab.server.options = { writer: jsonWriter }
    await lab.start()
    await lab.untilFollowing()
    lab.server.sendBytes('Service', Buffer.from('{"type":"ADDED","object":\n'))
    await lab.fire(delays.relist)
    await lab.until(() => listsOfServices() === 2)
    await lab.untilLogged(/link: Service: .*an event is not JSON/u)
  })

  it('does not affect earlier events', async () => {
    await lab.start()
    lab.events.length = 0
    lab.server.sendBytes('Service', Buffer.concat([added, Buffer.alloc(4, 0xff)]))
    assert.deepEqual(await lab.untilEvent('+Service default/cut 10.96.9.9'), [
      '+Service default/cut 10.96.9.9',
    ])
    await lab.fire(delays.relist)
    await lab.untilEvent('-Service default/cut')
  })
})

describe('an object in a watch that is malformed after its name', () => {
  it('is reported, and the watch continues', async () => {
    await lab.start()
    await lab.untilFollowing()
    lab.events.length = 0
    const raw = Buffer.concat([
      protobufOf(shapes.Service, apiService('web', '10.96.0.1')),
      Buffer.from([0x12, 0x7f]),
    ])
    lab.server.sendBytes('Service', frame(watchEvent('MODIFIED', envelope('Service', 'v1', raw))))
    lab.server.store.put('Service', apiService('next', '10.96.0.2'))
    assert.deepEqual(await lab.untilEvent('+Service default/next 10.96.0.2'), [
      '+Service default/next 10.96.0.2',
    ])
    assert.deepEqual(lab.log, ['object: Service default/web: spec: is cut off'])
    assert.equal(listsOfServices(), 1)
  })
})

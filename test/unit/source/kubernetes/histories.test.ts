// Issue 35, E1: an API server whose history is not the one that the agent followed.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiNode, apiService, apiSlice } from '../../../support/api-documents.js'
import type { Document } from '../../../support/api-shapes.js'
import { jsonWriter, protobufWriter } from '../../../support/api-writer.js'
import { KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

beforeEach(() => {
  lab = new KubernetesLab()
})
afterEach(async () => await lab.close())

/** Restarts the server with another state, and waits until it is followed. Returns the events since then, in order. */
async function restart(change: () => void): Promise<readonly string[]> {
  await lab.untilFollowing()
  lab.clock.pass(6000)
  lab.events.length = 0
  const { port } = lab.server
  await lab.breakLinks(() => lab.server.close())
  change()
  await lab.server.listen(port)
  await lab.passUntilFollowing()
  return lab.events
}

function withUid(object: Document, uid: string): Document {
  return { ...object, metadata: { ...Object(object['metadata']), uid } }
}

describe('an API server on a restored etcd', () => {
  for (const [encoding, writer] of Object.entries({ protobuf: protobufWriter, JSON: jsonWriter }))
    it(`is listed again: changes, deletions and additions of the backup count (${encoding})`, async () => {
      lab.server.options = { writer }
      const { store } = lab.server
      store.put('Service', apiService('deleted', '10.96.0.2'))
      store.put('Service', apiService('moved', '10.96.0.3'))
      const backup = store.backUp()
      store.remove('Service', 'default/deleted')
      store.put('Service', apiService('moved', '10.96.0.30'))
      store.put('Service', apiService('new', '10.96.0.4'))
      await lab.start()
      const events = await restart(() => store.restore(backup))
      assert.deepEqual(
        events.filter((event) => event.includes('Service')),
        [
          '+Service default/web 10.96.0.1',
          '+Service default/deleted 10.96.0.2',
          '+Service default/moved 10.96.0.3',
          '-Service default/new',
        ],
      )
      assert.match(
        lab.log.join('\n'),
        /^API server cannot resume the watch; all objects are listed again \(.*504 Timeout: Too large resource version/mu,
      )
      store.put('Service', apiService('later', '10.96.0.5'))
      await lab.untilEvent('+Service default/later 10.96.0.5')
    })

  it('delivers an object that has its old version and another content', async () => {
    const { store } = lab.server
    const backup = store.backUp()
    store.put('Service', apiService('moved', '10.96.0.3'))
    store.put('Service', apiService('other', '10.96.0.4'))
    await lab.start()
    const events = await restart(() => {
      store.restore(backup)
      store.put('Service', apiService('moved', '10.96.0.30'))
    })
    assert.ok(events.includes('+Service default/moved 10.96.0.30'), events.join())
  })

  it('keeps the last endpoints of its own Service if the backup has none', async () => {
    const { store } = lab.server
    const ports = [{ name: 'http', protocol: 'TCP', port: 80 }]
    await lab.server.listen()
    const own = apiService('kubernetes', '127.0.0.1', { ports: [{ ...ports[0], port: lab.server.port }] })
    store.put('Service', own)
    const backup = store.backUp()
    store.put('EndpointSlice', apiSlice('kubernetes-1', 'kubernetes', ['192.0.2.9']))
    store.put('Service', apiService('other', '10.96.0.4'))
    await lab.open()
    const events = await restart(() => store.restore(backup))
    assert.ok(!events.includes('-EndpointSlice default/kubernetes-1'), events.join())
    assert.ok(events.includes('-Service default/other'), events.join())
  })
})

describe('a cluster that was rebuilt under the same address', () => {
  it('is listed again though its version is newer', async () => {
    const { store } = lab.server
    store.put('Service', apiService('old', '10.96.0.2'))
    await lab.start()
    const events = await restart(() => {
      store.restore({ version: 1, objects: {} })
      store.put('Node', withUid(apiNode('node-a', '10.9.0.0/24'), 'new'))
      store.put('Service', withUid(apiService('web', '10.96.0.9'), 'new'))
      store.put('EndpointSlice', withUid(apiSlice('web-1', 'web', ['10.0.0.9']), 'new'))
      for (let i = 0; i < 10; i++) store.put('Node', apiNode('node-b'))
    })
    assert.deepEqual(events.toSorted(), [
      '+EndpointSlice default/web-1',
      '+Node /node-a',
      '+Service default/web 10.96.0.9',
      '-Service default/old',
    ])
  })

  it('is listed again if it is empty', async () => {
    await lab.start()
    const { store } = lab.server
    const events = await restart(() => {
      store.restore({ version: 1, objects: {} })
      for (let i = 0; i < 10; i++) store.put('Node', apiNode('node-b'))
    })
    assert.deepEqual(events.toSorted(), [
      '-EndpointSlice default/web-1',
      '-Node /node-a',
      '-Service default/web',
    ])
  })
})

/** The versions in the requests for lists of Services. */
function versionsOfLists(): string[] {
  return lab.server.queries
    .filter((query) => query.get('fieldSelector') === 'spec.clusterIP!=None')
    .filter((query) => query.get('watch') === null && query.get('limit') !== '1')
    .map((query) => `${query.get('resourceVersion')} ${query.get('resourceVersionMatch')}`)
}

describe('a list that follows another one', () => {
  it('comes from the memory of the server, and is not older than what is known', async () => {
    lab.server.options = { streamedLists: 'old' }
    await lab.start()
    await restart(() => {
      lab.server.store.put('Service', apiService('new', '10.96.0.4'))
      lab.server.store.compact()
    })
    assert.deepEqual(versionsOfLists(), ['0 null', '5 NotOlderThan'])
    assert.deepEqual(lab.events, ['+Service default/new 10.96.0.4'])
  })

  it('comes in pages if the whole one cannot be read', async () => {
    lab.server.options = { streamedLists: 'old' }
    lab.server.setFault(
      'Service',
      { type: 'body', contentType: jsonWriter.type, body: Buffer.from('{') },
      'list',
    )
    await lab.server.listen()
    const listed = lab.open()
    await lab.untilLogged(/link: Service: .*the list is not JSON/u)
    lab.server.setFault('Service', undefined)
    await lab.passUntilFollowing()
    await listed
    assert.deepEqual(versionsOfLists(), ['0 null', 'null null'])
  })

  it('is the newest of etcd if the server has another history', async () => {
    lab.server.options = { streamedLists: 'old' }
    const backup = lab.server.store.backUp()
    lab.server.store.put('Service', apiService('gone', '10.96.0.4'))
    await lab.start()
    await restart(() => lab.server.store.restore(backup))
    assert.deepEqual(versionsOfLists(), ['0 null', 'null null'])
  })
})

describe('an API server with the same history', () => {
  it('is not listed again, and its next watch goes where the check went', async () => {
    const { store } = lab.server
    await lab.start()
    const from = lab.server.requests.length
    const events = await restart(() => store.put('Service', apiService('new', '10.96.0.4')))
    assert.deepEqual(events, ['+Service default/new 10.96.0.4'])
    const kinds = lab.server.requests.slice(from).filter((request) => request.startsWith('Service '))
    assert.deepEqual(kinds, ['Service check from 5', 'Service watch from 5'])
  })

  it('is not listed again after a 504 of a proxy', async () => {
    await lab.start()
    await lab.untilFollowing()
    lab.clock.pass(6000)
    lab.server.setFault('Service', { type: 'status', status: { code: 504 } })
    lab.server.endWatches('Service')
    await lab.untilLogged(/link: Service: .*504 Gateway Timeout/u)
    lab.server.setFault('Service', undefined)
    await lab.passUntilFollowing()
    assert.ok(!lab.server.requests.includes('Service list'))
    assert.equal(lab.server.requests.filter((request) => request === 'Service stream').length, 1)
  })
})

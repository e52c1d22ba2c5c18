import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { trustedWithoutAuthority } from '../../../../src/api/client-options.js'
import { ListingProgress } from '../../../../src/source/kubernetes/listing-progress.js'
import { apiService, apiSlice } from '../../../support/api-documents.js'
import { makeCertificate } from '../../../support/certificates.js'
import { KubernetesLab } from '../../../support/kubernetes-lab.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'

let lab: KubernetesLab

beforeEach(() => {
  lab = new KubernetesLab()
})
afterEach(async () => await lab.close())

const tenMinutesMs = 600_000
const bad = apiService('bad', '10.96.0.300')

function words(): readonly string[] {
  return lab.events.filter((event) => event === 'listed' || event === 'synced')
}

describe('a first list with an object that cannot be read', () => {
  const objects = [
    {
      name: 'a Service',
      put: () => lab.server.store.put('Service', bad),
      gone: 'default/bad',
      kind: 'Service',
    },
    {
      name: 'an EndpointSlice',
      put: () => lab.server.store.put('EndpointSlice', apiSlice('bad', 'web', ['nowhere'])),
      gone: 'default/bad',
      kind: 'EndpointSlice',
    },
    {
      name: 'an object without a name',
      put: () =>
        lab.server.store.put('Service', { ...bad, metadata: { namespace: 'default', name: undefined } }),
      gone: 'default/undefined',
      kind: 'Service',
    },
  ] as const
  for (const { name, put, gone, kind } of objects) {
    it(`deletes no object that it may be: ${name}`, async () => {
      put()
      await lab.start()
      assert.equal(lab.events.at(-1), 'listed')
      assert.equal(lab.log.filter((line) => line.startsWith('object: ')).length, 1)
      assert.equal(lab.log.filter((line) => line.includes('for 10 minutes')).length, 1)
      lab.server.store.remove(kind, gone)
      await lab.untilFollowing()
      lab.server.store.compact()
      await lab.breakLinks(() => lab.server.dropConnections())
      await lab.passUntilFollowing()
      await lab.until(() => lab.events.includes('synced'))
      assert.deepEqual(words(), ['listed', 'synced'])
    })
  }

  it('delivers synced as soon as the object can be read', async () => {
    lab.server.store.put('Service', bad)
    await lab.start()
    lab.server.store.put('Service', apiService('bad', '10.96.0.3'))
    await lab.until(() => lab.events.includes('synced'))
    assert.deepEqual(lab.events.slice(-3), ['listed', '+Service default/bad 10.96.0.3', 'synced'])
  })

  it('waits for ten minutes of contact with the server; outages do not count', () => {
    let nowMs = 0
    const delivered: string[] = []
    const log = new MemoryLog()
    const world = new ListingProgress({
      parts: [{ isListed: true, isComplete: false }],
      clock: { now: () => nowMs },
      log,
      deliver: (events) => delivered.push(...events.map(({ type }) => type)),
    })
    world.look()
    nowMs += 2 * tenMinutesMs
    world.look()
    for (let minute = 1; minute < 8; minute++) {
      nowMs += 60_000
      world.look()
    }
    assert.deepEqual(delivered, ['listed'])
    nowMs += 60_000
    world.look()
    assert.deepEqual(delivered, ['listed', 'synced'])
    world.look()
    assert.deepEqual(delivered, ['listed', 'synced'])
  })

  // Failed at first: a quiet watch over HTTP/2 brings no answers, and so no contact, for up to ten minutes.
  it('counts answers to PINGs as contact: watches over HTTP/2 may be quiet', async () => {
    await openOverTls()
    await lab.passUntil(lab.clock.now() + tenMinutesMs - 20_000)
    assert.deepEqual(words(), ['listed'])
    await lab.passUntil(lab.clock.now() + 40_000)
    assert.deepEqual(words(), ['listed', 'synced'])
    assert.equal(lab.server.requests.length, 3)
  })

  // Before, the error was thrown into the callback of the PING, and ended the process without order.
  it('reports an error of the receiver at the answer to a PING', async () => {
    await openOverTls()
    const bug = new Error('a bug')
    lab.deliver = () => {
      throw bug
    }
    await lab.passUntil(lab.clock.now() + tenMinutesMs + 20_000)
    assert.deepEqual(lab.crashes[0], bug)
  })

  it('has no effect if the object became invalid later, because its last valid state is known', async () => {
    await lab.start()
    lab.server.store.put('Service', apiService('web', '10.96.0.300'))
    await lab.untilLogged(/object: Service default\/web/u)
    assert.deepEqual(words(), ['synced'])
  })
})

/** Starts a source over HTTP/2 with a bad object, and with watches that last longer than ten minutes. */
async function openOverTls(): Promise<void> {
  await lab.close()
  const certificate = makeCertificate()
  lab = new KubernetesLab({ certificate })
  lab.random = () => 0.99
  lab.server.store.put('Service', bad)
  await lab.server.listen()
  const login = { headers: {}, tls: { ca: certificate.cert }, trusted: trustedWithoutAuthority }
  await lab.open({ login: async () => await Promise.resolve(login) })
}

describe('a receiver of events that throws', () => {
  it('ends a start with its error', async () => {
    const bug = new Error('a bug')
    lab.deliver = () => {
      throw bug
    }
    await lab.server.listen()
    await assert.rejects(lab.open(), bug)
    await lab.stop()
    assert.equal(lab.clock.armed, 0)
  })

  it('is reported to the opener of the source if it throws later', async () => {
    const bug = new Error('a bug')
    await lab.start()
    lab.deliver = () => {
      throw bug
    }
    lab.server.store.put('Service', apiService('a', '10.96.0.2'))
    await lab.until(() => lab.crashes.length > 0)
    assert.deepEqual(lab.crashes, [bug])
    await lab.stop()
    assert.equal(lab.clock.armed, 0)
  })
})

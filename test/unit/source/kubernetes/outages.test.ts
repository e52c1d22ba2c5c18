// Issue 18, C6: the time from the end of an outage to the first change, and the number of requests during an outage.
import assert from 'node:assert/strict'
import dns from 'node:dns'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { apiService, apiSlice } from '../../../support/api-documents.js'
import type { Fault } from '../../../support/fake-api-server.js'
import { until } from '../../../support/http.js'
import { delays, KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

beforeEach(() => {
  lab = new KubernetesLab()
})
afterEach(async () => {
  mock.restoreAll()
  await lab.close()
})

/** The random generator of Numerical Recipes: the same numbers in each run. */
function seeded(seed: number): () => number {
  let state = seed
  return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32
}

const kinds = ['Service', 'EndpointSlice', 'Node'] as const
const gone = '-Service default/web'
/** The requests with which a watch continues. */
const checkAndWatch = 2
const unavailable: Fault = { type: 'status', status: { code: 503, message: 'no leader' } }

/** Starts a source and lets it follow its watches for some time. */
async function follow(seed: number): Promise<void> {
  lab.random = seeded(seed)
  lab.server.store.put('Service', apiService('stays', '10.96.0.2'))
  await lab.start()
  await lab.untilFollowing()
  lab.clock.pass(6000)
  lab.events.length = 0
  lab.requests.length = 0
}

/** Lets time pass until the event. Returns the time in milliseconds. */
async function timeOf(event: string): Promise<number> {
  const beganMs = lab.clock.now()
  let cameMs: number | undefined
  lab.deliver = () => {
    if (lab.events.includes(event)) cameMs ??= lab.clock.now()
  }
  await lab.passUntilFollowing()
  await lab.untilEvent(event)
  return (cameMs ?? lab.clock.now()) - beganMs
}

describe('a server after an outage', () => {
  for (const seconds of [5, 20, 120, 600])
    for (const isCompacted of [false, true])
      for (const seed of [1, 2, 3]) {
        const what = isCompacted ? 'with everything to list' : 'with its history'
        it(`for ${seconds} s, and back ${what}, delivers its first change within 10 s (${seed})`, async () => {
          await follow(seed)
          const { port, store } = lab.server
          const endMs = lab.clock.now() + seconds * 1000
          await lab.breakLinks(() => lab.server.close())
          await lab.passUntil(endMs)
          assert.deepEqual(lab.events, [])
          const perSecond = lab.requests.length / seconds
          assert.ok(perSecond <= 1, `${perSecond} requests per second`)
          store.remove('Service', 'default/web')
          if (isCompacted) store.compact()
          await lab.server.listen(port)
          const tookMs = await timeOf(gone)
          assert.ok(tookMs <= 10_000, `${tookMs} ms`)
          const levels = lab.levels.filter((_, i) => lab.log[i]?.includes('all objects are listed again'))
          assert.deepEqual(levels, isCompacted ? ['info', 'info', 'info'] : [])
        })
      }

  it('names the backends of the API server and of DNS before it lists all', async () => {
    const { store } = lab.server
    store.put('EndpointSlice', apiSlice('kube-system/kube-dns-1', 'kube-dns', ['10.0.0.2']))
    await follow(1)
    const { port } = lab.server
    await lab.breakLinks(() => lab.server.close())
    store.put('EndpointSlice', apiSlice('web-2', 'web', ['10.0.0.3']))
    store.put('EndpointSlice', apiSlice('kube-system/kube-dns-2', 'kube-dns', ['10.0.0.4']))
    store.remove('EndpointSlice', 'kube-system/kube-dns-1')
    store.compact()
    await lab.server.listen(port)
    await lab.passUntilFollowing()
    assert.deepEqual(lab.events, [
      '+EndpointSlice kube-system/kube-dns-2',
      '+EndpointSlice default/web-2',
      '-EndpointSlice kube-system/kube-dns-1',
    ])
    const ofSlices = lab.server.requests.filter((request) => request.startsWith('EndpointSlice '))
    const lost = ofSlices.findIndex((request) => request.includes(' first since'))
    assert.deepEqual(ofSlices.slice(lost - 1), [
      'EndpointSlice watch from 7',
      'EndpointSlice first since 7',
      'EndpointSlice stream',
    ])
  })

  it('may demand a pause instead of the first backends', async () => {
    await follow(1)
    lab.random = () => 0
    const { port, store } = lab.server
    await lab.breakLinks(() => lab.server.close())
    store.compact()
    const status = { code: 429, reason: 'TooManyRequests', details: { retryAfterSeconds: 7 } }
    lab.server.setFault('EndpointSlice', { type: 'status', status }, 'first')
    await lab.server.listen(port)
    await lab.untilResting()
    while (lab.following < 3 && lab.clock.count(7000) === 0) {
      lab.clock.fireNext()
      await lab.untilResting()
    }
    assert.equal(lab.clock.count(7000), 1)
  })

  it('is found by the next attempt of a link, which wakes the other links', async () => {
    await follow(1)
    lab.random = () => 0
    const { port } = lab.server
    await lab.breakLinks(() => lab.server.close())
    assert.deepEqual(
      [1000, 2000, 3000].map((turnMs) => lab.clock.count(turnMs)),
      [1, 1, 1],
    )
    await lab.server.listen(port)
    lab.clock.fire(1000)
    await lab.untilFollowing()
    assert.equal(lab.requests.length, 3 * checkAndWatch)
  })

  it('gets as many attempts if its host does not answer', async () => {
    lab.random = seeded(1)
    await lab.server.listen()
    // The connection stays pending, as to a host that is switched off.
    const lookup = mock.method(dns, 'lookup', () => undefined).mock
    const start = lab.open({ server: new URL(`http://api.example:${lab.server.port}`) })
    while (lab.requests.length < 30) {
      const isUnderWay = (): boolean =>
        lookup.callCount() - lab.requests.length === lab.clock.count(delays.answer)
      await until(() => lab.clock.armed === 3 && isUnderWay())
      lab.clock.fireNext()
    }
    await lab.untilLogged(/link: Service: .*no connection within 10 s/u)
    await lab.stop()
    await start
    const seconds = lab.clock.now() / 1000
    assert.ok(seconds < 200, `30 attempts of 10 s by three links took ${seconds} s`)
  })
})

describe('an overloaded server', () => {
  it('gets requests of all links with growing delays, and of all links again after one answer', async () => {
    await follow(1)
    await lab.breakLinks(() => {
      for (const kind of kinds) {
        lab.server.setFault(kind, unavailable)
        lab.server.endWatches(kind)
      }
    })
    await lab.passUntil(lab.clock.now() + 300_000)
    const lastMinute = lab.requests.length
    await lab.passUntil(lab.clock.now() + 60_000)
    assert.ok(lab.requests.length - lastMinute <= 9, `${lab.requests.length - lastMinute} requests`)
    for (const kind of kinds) lab.server.setFault(kind, undefined)
    const before = lab.requests.length
    const from = lab.server.requests.length
    lab.clock.fireNext()
    await lab.untilFollowing()
    assert.equal(lab.requests.length, before + 3 * checkAndWatch)
    lab.random = () => 0
    lab.clock.pass(6000)
    // The delays of the link that found the server start again only when its watch has been steady.
    const woken = kinds.find((kind) => lab.server.requests[from]?.startsWith(`${kind} `) === false) ?? 'Node'
    lab.server.setFault(woken, unavailable)
    lab.server.endWatches(woken)
    await lab.until(() => lab.following === 2)
    await lab.until(() => lab.clock.count(delays.first) === 1)
  })

  it('is not requested early by a link that it asked to wait', async () => {
    await follow(1)
    lab.random = () => 0
    lab.server.setFault('Node', { ...unavailable, retryAfter: '40' })
    lab.server.setFault('Service', unavailable)
    for (const kind of ['Node', 'Service'] as const) lab.server.endWatches(kind)
    await lab.until(() => lab.clock.count(40_000) === 1)
    lab.server.setFault('Service', undefined)
    await lab.fire(delays.first)
    await lab.until(() => lab.server.openWatches === 2)
    assert.equal(lab.clock.count(40_000), 1)
  })
})

describe('a watch that is refused with 410', () => {
  it('is followed by a list at once, regardless of earlier failures, and by a log line', async () => {
    await follow(1)
    lab.random = () => 0
    lab.server.setFault('Service', unavailable)
    lab.server.endWatches('Service')
    for (const delayMs of [800, 1600, 3200, 6400]) await lab.fire(delayMs)
    await lab.until(() => lab.clock.count(12_800) === 1)
    lab.server.store.compact()
    lab.server.store.remove('Service', 'default/web')
    lab.server.setFault('Service', undefined)
    lab.server.store.compact()
    await lab.fire(12_800)
    await lab.fire(delays.relist)
    await lab.untilEvent(gone)
    assert.match(lab.log.join('\n'), /all objects are listed again \(.*410 Expired/u)
  })
})

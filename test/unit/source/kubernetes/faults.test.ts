import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiService } from '../../../support/api-documents.js'
import { jsonWriter, protobufWriter } from '../../../support/api-writer.js'
import type { Fault } from '../../../support/fake-api-server.js'
import { until } from '../../../support/http.js'
import { delays, KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

beforeEach(() => {
  lab = new KubernetesLab()
})
afterEach(async () => await lab.close())

const event = protobufWriter.event('ADDED', 'Service', apiService('cut', '10.96.9.9'))

/** The delays after consecutive failures, with random number 0. */
const growing = {
  away: [1000, 1000, 1000, 1000, 1000, 1000],
  busy: [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000],
  unusable: [800, 1600, 3200, 4000, 4000],
  relist: [400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000],
}

function requestsOf(kind: string): string[] {
  return lab.server.requests.filter((request) => request.startsWith(`${kind} `))
}

describe('requests', () => {
  const refused = { type: 'status', status: { code: 403, message: 'no' } } as const
  const cases: { fault: Fault; code: string }[] = [
    { fault: refused, code: '403' },
    { fault: { type: 'hang-up' }, code: '<error>' },
  ]
  for (const { fault, code } of cases) {
    it(`are reported with host, code ${code} and duration`, async () => {
      await lab.start()
      await lab.untilFollowing()
      const { host } = lab.server.url
      assert.ok(lab.requests.length >= 3)
      for (const request of lab.requests)
        assert.deepEqual(request, { host, method: 'GET', code: '200', seconds: 0 })
      lab.server.setFault('Service', fault)
      // A watch that ends at once is requested again only after a delay.
      lab.clock.pass(6000)
      lab.server.endWatches('Service')
      await lab.until(() => lab.requests.some((request) => request.code === code))
    })
  }
})

describe('a server that fails every watch', () => {
  const status = { code: 500, reason: 'InternalError', message: 'etcd is away' }
  const faults: { name: string; fault: Fault; problem: RegExp; reason: keyof typeof growing }[] = [
    {
      name: 'closes at once',
      fault: { type: 'stream', bytes: Buffer.alloc(0) },
      problem: /Service: the server ends watches at once$/u,
      reason: 'unusable',
    },
    { name: 'hangs up', fault: { type: 'hang-up' }, problem: /socket hang up$/u, reason: 'away' },
    {
      name: 'answers 500',
      fault: { type: 'status', status },
      problem: /500 InternalError: etcd is away$/u,
      reason: 'busy',
    },
    {
      name: 'answers 403',
      fault: { type: 'status', status: { code: 403, message: 'no' } },
      problem: /403 Forbidden: no$/u,
      reason: 'unusable',
    },
    {
      name: 'sends an error',
      fault: { type: 'error-event', status },
      problem: /500 InternalError: etcd is away$/u,
      reason: 'busy',
    },
    {
      name: 'is a web page',
      fault: { type: 'body', contentType: 'text/html', body: Buffer.from('<html>') },
      problem: /the answer is text\/html, not of the Kubernetes API$/u,
      reason: 'unusable',
    },
  ]
  for (const { name, fault, problem, reason } of faults) {
    it(`gets requests with growing delays, and is watched again: ${name}`, async () => {
      await lab.start()
      lab.events.length = 0
      await lab.untilFollowing()
      lab.server.setFault('Service', fault)
      lab.clock.pass(6000)
      lab.server.store.put('Service', apiService('hidden', '10.96.0.2'))
      await lab.untilEvent('+Service default/hidden 10.96.0.2')
      lab.server.store.put('Node', { metadata: { name: 'node-b' } })
      lab.server.endWatches('Service')
      const before = requestsOf('Service').length
      const delaysMs = growing[reason]
      const longestMs = delaysMs.at(-1) ?? 0
      for (const delayMs of delaysMs) await lab.fire(delayMs)
      await lab.until(() => lab.clock.count(longestMs) > 0)
      const asked = requestsOf('Service').slice(before)
      const checks = asked.filter((request) => request === 'Service check from 6')
      assert.equal(checks.length, delaysMs.length + 1)
      assert.ok(asked.every((request) => /(?:check|watch) from 6$/u.test(request)))
      assert.match(lab.log.join('\n'), new RegExp(`link: .*${problem.source}`, 'mu'))
      assert.equal(lab.log.length, 1, 'a state is logged once')
      lab.server.setFault('Service', undefined)
      lab.server.store.put('Service', apiService('after', '10.96.0.3'))
      await lab.fire(longestMs)
      assert.deepEqual(await lab.untilEvent('+Service default/after 10.96.0.3'), [
        '+Service default/after 10.96.0.3',
      ])
      assert.equal(lab.log.at(-1), 'link: over')
    })
  }

  it('gets lists with growing delays if it refuses each watch with 410', async () => {
    lab.server.options = { streamedLists: 'old' }
    await lab.start()
    await lab.untilFollowing()
    lab.server.store.compact()
    lab.clock.pass(6000)
    lab.server.setFault('Service', { type: 'error-event', status: { code: 410, reason: 'Expired' } }, 'watch')
    lab.server.endWatches('Service')
    for (const delayMs of growing.relist) await lab.fire(delayMs)
    await lab.until(() => lab.clock.count(30_000) > 0)
    const lists = requestsOf('Service').filter((request) => request.startsWith('Service list'))
    assert.equal(lists.length, 1 + growing.relist.length, 'the first one, and one per attempt')
  })
})

describe('an outage of the server', () => {
  it('changes no object; the changes during the outage are delivered after it', async () => {
    lab.server.store.put('Service', apiService('gone', '10.96.0.2'))
    lab.server.store.put('Service', apiService('changed', '10.96.0.3'))
    await lab.start()
    await lab.untilFollowing()
    lab.events.length = 0
    const { port } = lab.server
    lab.clock.pass(6000)
    await lab.breakLinks(() => lab.server.close())
    await lab.passUntil(lab.clock.now() + 10_000)
    assert.deepEqual(lab.events, [])
    assert.match(lab.log.join('\n'), /link: Service: GET \/api\/v1\/services: connect ECONNREFUSED/u)
    const { store } = lab.server
    store.remove('Service', 'default/gone')
    store.put('Service', apiService('changed', '10.96.0.30'))
    store.put('Service', apiService('new', '10.96.0.4'))
    store.compact()
    await lab.server.listen(port)
    await lab.passUntilFollowing()
    assert.deepEqual(await lab.untilEvent('-Service default/gone'), [
      '+Service default/changed 10.96.0.30',
      '+Service default/new 10.96.0.4',
      '-Service default/gone',
    ])
  })

  it('is not reported if a watch is silent: it is opened again at its version', async () => {
    await lab.start()
    await lab.untilFollowing()
    for (let i = 0; i < 5; i++) {
      await lab.fire(delays.silence, 3)
      await lab.untilFollowing()
    }
    const again = ['Service check from 5', 'Service watch from 5']
    assert.deepEqual(requestsOf('Service').slice(0, 5), ['Service stream', ...again, ...again])
    assert.ok(
      lab.log.every((line) => line.startsWith('Watch is opened again (')),
      lab.log.join('\n'),
    )
    lab.server.store.put('Service', apiService('late', '10.96.0.2'))
    await lab.untilEvent('+Service default/late 10.96.0.2')
  })

  it('is not reported if connections break that were steady: new ones are opened', async () => {
    await lab.start()
    await lab.untilFollowing()
    lab.clock.pass(6000)
    await lab.breakLinks(() => lab.server.dropConnections())
    await lab.passUntilFollowing()
    assert.ok(
      lab.log.every((line) => line.startsWith('Watch is opened again (')),
      lab.log.join('\n'),
    )
  })

  it('is followed again over a new connection, not over an idle one that may be dead as well', async () => {
    await lab.start()
    await lab.untilFollowing()
    lab.clock.pass(6000)
    lab.server.setFault('Service', { type: 'status', status: { code: 503 } })
    lab.server.endWatches('Service')
    await lab.until(() => lab.clock.count(delays.first) === 1)
    const idle = lab.server.openConnections
    lab.server.setFault('Service', undefined)
    await lab.fire(delays.silence, 2)
    const isNew = (port: number): boolean => !idle.includes(port)
    await until(() => lab.following === 2 && lab.server.openConnections.every(isNew))
  })

  it('is noticed if a watch is silent and the next request gets no answer', async () => {
    await lab.start()
    await lab.untilFollowing()
    lab.events.length = 0
    lab.server.setFault('Service', { type: 'silence' })
    await lab.fire(delays.silence, 3)
    lab.server.store.put('Service', apiService('hidden', '10.96.0.2'))
    await lab.until(() => lab.clock.count(delays.answer) === 1 && lab.following === 2)
    await lab.fire(delays.answer)
    await lab.untilLogged(/link: Service: .*no answer within 10 s/u)
    lab.server.setFault('Service', undefined)
    await lab.fire(delays.first)
    assert.deepEqual(await lab.untilEvent('+Service default/hidden 10.96.0.2'), [
      '+Service default/hidden 10.96.0.2',
    ])
  })

  it('is not assumed while a watch delivers data', async () => {
    await lab.start()
    await lab.untilFollowing()
    lab.clock.pass(30_000)
    lab.server.store.put('Service', apiService('a', '10.96.0.2'))
    await lab.untilEvent('+Service default/a 10.96.0.2')
    await lab.fire(delays.silence, 3)
    await lab.until(() => lab.server.openWatches === 3)
    assert.deepEqual(requestsOf('Service'), ['Service stream'])
  })
})

describe('a failed list', () => {
  const pages: { name: string; fault: Fault; problem: RegExp }[] = [
    {
      name: 'a truncated body',
      fault: {
        type: 'body',
        contentType: 'application/json',
        body: Buffer.from('{"metadata":'),
        truncated: true,
      },
      problem: /aborted$/u,
    },
    {
      name: 'a body that is not JSON',
      fault: { type: 'body', contentType: 'application/json', body: Buffer.from('{"metadata":') },
      problem: /the list is not JSON$/u,
    },
    {
      name: 'an object that is not a list',
      fault: { type: 'body', contentType: 'application/json', body: Buffer.from('{}') },
      problem: /the list is without a kind, not v1 ServiceList$/u,
    },
    {
      name: 'an empty list of another kind',
      fault: {
        type: 'body',
        contentType: protobufWriter.type,
        body: protobufWriter.list('EndpointSlice', [], { resourceVersion: '9', continue: '' }),
      },
      problem: /the list is discovery\.k8s\.io\/v1 EndpointSliceList, not v1 ServiceList$/u,
    },
    {
      name: 'a list without a version',
      fault: {
        type: 'body',
        contentType: protobufWriter.type,
        body: protobufWriter.list('Service', [], { resourceVersion: '', continue: '' }),
      },
      problem: /a list without a resourceVersion$/u,
    },
    {
      name: 'a page that continues with itself',
      fault: {
        type: 'body',
        contentType: jsonWriter.type,
        body: jsonWriter.list('Service', [], { resourceVersion: '1', continue: 'x' }),
      },
      problem: /a page that leads to itself$/u,
    },
    {
      name: 'a body that is not protobuf',
      fault: { type: 'body', contentType: protobufWriter.type, body: Buffer.from('k8s\0\xff') },
      problem: /the list is cut off$/u,
    },
  ]
  for (const { name, fault, problem } of pages) {
    it(`deletes nothing, and is retried: ${name}`, async () => {
      lab.server.options = { streamedLists: 'old' }
      await lab.start()
      await lab.untilFollowing()
      lab.events.length = 0
      lab.clock.pass(6000)
      lab.server.setFault('Service', fault, 'list')
      lab.server.store.compact()
      lab.server.endWatches('Service')
      await lab.fire(delays.relist)
      await lab.untilLogged(new RegExp(`link: Service: .*${problem.source}`, 'u'))
      assert.deepEqual(lab.events, [])
      lab.server.setFault('Service', undefined)
      lab.server.store.remove('Service', 'default/web')
      await lab.fire(delays.first)
      await lab.untilEvent('-Service default/web')
    })
  }

  it('starts again if the server compacts between its pages', async () => {
    lab.server.options = { streamedLists: 'old', hasWatchCache: false }
    for (let i = 0; i < 600; i++) lab.server.store.put('Service', apiService(`s${i}`, '10.96.1.1'))
    await lab.server.listen()
    const once = lab.server.onChange
    lab.server.onChange = () => {
      if (lab.server.requests.at(-1) === 'Service list') {
        lab.server.onChange = once
        lab.server.store.compact()
      }
      once()
    }
    const listed = lab.open()
    await lab.untilLogged(/link: Service: .*410 Expired/u)
    await lab.fire(delays.relist)
    await listed
    assert.deepEqual(
      requestsOf('Service').filter((request) => request.includes('list')),
      ['Service list', 'Service list from 500', 'Service list', 'Service list from 500'],
    )
    assert.equal(lab.events.filter((one) => one.startsWith('+Service')).length, 601)
  })

  it('is repeated by pages if it was a streamed list without its end', async () => {
    await lab.server.listen()
    lab.server.setFault('Service', { type: 'stream', bytes: event }, 'watch')
    const listed = lab.open()
    await listed
    assert.ok(requestsOf('Service').includes('Service list'))
    // The objects of the broken stream count until the list contradicts them.
    assert.deepEqual(
      lab.events.filter((one) => one.includes('cut')),
      ['+Service default/cut 10.96.9.9', '-Service default/cut'],
    )
  })
})

describe('a server that requests a delay', () => {
  const waits: { name: string; fault: Fault; delayMs: number }[] = [
    { name: 'by a header', fault: { type: 'status', status: { code: 429 }, retryAfter: '7' }, delayMs: 7000 },
    {
      name: 'by a Status',
      fault: { type: 'status', status: { code: 503, details: { retryAfterSeconds: 9 } } },
      delayMs: 9000,
    },
    {
      name: 'of an excessive length',
      fault: { type: 'status', status: { code: 429 }, retryAfter: '99999999' },
      delayMs: 60_000,
    },
    {
      name: 'by a date, as load balancers do',
      fault: {
        type: 'status',
        status: { code: 503 },
        date: 'Sat, 28 Nov 2026 12:00:00 GMT',
        retryAfter: 'Sat, 28 Nov 2026 12:00:20 GMT',
      },
      delayMs: 20_000,
    },
    {
      name: 'by a date that has passed',
      fault: {
        type: 'status',
        status: { code: 503 },
        date: 'Sat, 28 Nov 2026 12:00:00 GMT',
        retryAfter: 'Sat, 28 Nov 2026 11:00:00 GMT',
      },
      delayMs: delays.first,
    },
    {
      name: 'by a text that is no time',
      fault: { type: 'status', status: { code: 429 }, retryAfter: 'soon' },
      delayMs: delays.first,
    },
  ]
  for (const { name, fault, delayMs } of waits) {
    it(`gets no request before the end of the delay: ${name}`, async () => {
      await lab.server.listen()
      lab.server.setFault('Service', fault)
      const listed = lab.open()
      await lab.until(() => lab.clock.count(delayMs) > 0)
      lab.server.setFault('Service', undefined)
      await lab.fire(delayMs)
      await listed
    })
  }
})

describe('a refused streamed list', () => {
  it('is not requested again before the link is reconnected', async () => {
    lab.server.options = { streamedLists: 'late' }
    await lab.start()
    await lab.untilFollowing()
    lab.clock.pass(6000)
    lab.server.store.compact()
    lab.server.endWatches('Service')
    await lab.fire(delays.relist)
    await lab.until(() => requestsOf('Service').length === 6)
    const again = ['Service check from 5', 'Service watch from 5', 'Service list since 5']
    assert.deepEqual(requestsOf('Service').slice(3), again)
    await lab.untilFollowing()
    lab.server.options = {}
    lab.clock.pass(6000)
    lab.server.store.compact()
    await lab.breakLinks(() => lab.server.dropConnections())
    await lab.passUntilFollowing()
    await lab.until(() => requestsOf('Service').at(-1) === 'Service stream')
  })
})

describe('a streamed list without an answer', () => {
  it('is replaced by pages', async () => {
    await lab.server.listen()
    lab.server.setFault('Service', { type: 'silence' }, 'watch')
    const listed = lab.open()
    await lab.untilEvent('+Node /node-a')
    await lab.until(() => lab.clock.count(delays.answer) === 1)
    await lab.fire(delays.answer)
    await lab.fire(delays.first)
    await listed
    assert.deepEqual(requestsOf('Service').slice(0, 2), ['Service stream', 'Service list'])
    assert.match(lab.log.join(), /link: Service: .*no answer within 10 s/u)
  })
})

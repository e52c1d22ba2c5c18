import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { nodeReference } from '../../../src/event.js'
import { masterOptions } from '../../../src/api/client-options.js'
import { EventLab, lost, starting, statusFault } from '../../support/event-lab.js'
import { delays } from '../../support/kubernetes-lab.js'

const minuteMs = 60_000
/** Period of the check for repeated Events. */
const sweepMs = 6 * minuteMs

let lab: EventLab

beforeEach(async () => {
  lab = new EventLab()
  await lab.start()
})

afterEach(async () => await lab.close())

describe('an Event', () => {
  it("has the same fields as kube-proxy's", async () => {
    const sender = lab.open()
    sender.record(starting)
    await lab.untilSent(1)
    assert.deepEqual(lab.server.events.requests, [
      {
        method: 'POST',
        target: 'default',
        contentType: 'application/json',
        body: {
          apiVersion: 'events.k8s.io/v1',
          kind: 'Event',
          metadata: { name: 'node-a.188fcf053de38000', namespace: 'default' },
          eventTime: '2026-01-31T12:00:00.000000Z',
          type: 'Normal',
          reason: 'Starting',
          action: 'StartKubeProxy',
          regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a' },
          note: '',
          reportingController: 'kube-proxy',
          reportingInstance: 'kube-proxy-node-a',
        },
      },
    ])
  })

  it("about a Service is in that Service's namespace", async () => {
    const sender = lab.open()
    sender.record(lost('web'))
    await lab.untilSent(1)
    assert.match([...lab.server.events.stored.keys()].join(), /^shop\/web\.[0-9a-f]{16}$/u)
  })

  it('has a different name on each node', async () => {
    for (const random of [0, 0.5, 0.999_999]) {
      const sender = lab.open({ random: () => random })
      sender.record(lost('web'))
    }
    await lab.untilSent(3)
    assert.equal(lab.server.events.stored.size, 3)
  })

  const name = `${'n'.repeat(63)}.`.repeat(3) + 'n'.repeat(61)
  const texts = [
    { what: 'a long note', report: lost('web', `${'x'.repeat(1023)}é and more`), field: 'note' },
    { what: 'a note of other characters', report: lost('web', '€'.repeat(342)), field: 'note' },
    {
      what: 'the longest name of a node',
      report: { ...starting, regarding: nodeReference(name) },
      field: 'reportingInstance',
    },
  ] as const
  for (const { what, report, field } of texts) {
    it(`is cut to the limits of the API server: ${what}`, async () => {
      const sender = lab.open({ nodeName: name })
      sender.record(report)
      await lab.untilSent(1)
      const stored = String(lab.storedEvent(0)[field])
      const whole = field === 'note' ? report.note : `kube-proxy-${name}`
      assert.ok(whole.startsWith(stored) && stored.length >= 128, stored)
    })
  }

  it('is only logged without an API server', async () => {
    const sender = lab.open({ client: undefined })
    sender.record(starting)
    assert.deepEqual(lab.log, ['Event'])
    assert.equal(lab.clock.armed, 0)
    assert.deepEqual(lab.results, { sent: 0, failed: 0, overflow: 0 })
  })
})

describe('a repeated Event', () => {
  it('becomes a series with a count, sent at the second time and at its end', async () => {
    const sender = lab.open()
    for (const [times, sent] of [
      [1, 1],
      [1, 2],
      [8, 2],
    ] as const) {
      for (let i = 0; i < times; i++) sender.record(lost('web', `note ${i}`))
      await lab.untilSent(sent)
    }
    assert.deepEqual(lab.requests, ['POST shop', 'PATCH shop/web'])
    assert.deepEqual(lab.stored, ['web x2'])
    await lab.fire(sweepMs)
    await lab.untilSent(3)
    assert.deepEqual(lab.stored, ['web x10'])
    assert.deepEqual(lab.storedEvent(0)['series'], {
      count: 10,
      lastObservedTime: '2026-01-31T12:00:00.000000Z',
    })
    assert.equal(lab.clock.count(sweepMs), 0, 'the series has ended')
    sender.record(lost('web'))
    await lab.untilSent(4)
    assert.deepEqual(lab.stored, ['web x10', 'web x1'])
  })

  it('is sent in one request while it waits in the queue', async () => {
    const sender = lab.open()
    for (let i = 0; i < 3; i++) sender.record(lost('web'))
    await lab.untilSent(1)
    assert.deepEqual(lab.requests, ['POST shop'])
    assert.deepEqual(lab.stored, ['web x3'])
  })

  it('is refreshed every 30 minutes, before the server deletes it, and created again if it was deleted', async () => {
    const sender = lab.open()
    sender.record(lost('web'))
    await lab.untilSent(1)
    sender.record(lost('web'))
    await lab.untilSent(2)
    for (let minute = 6; minute < 30; minute += 6) {
      lab.clock.pass(5 * minuteMs)
      sender.record(lost('web'))
      await lab.fire(sweepMs)
    }
    assert.equal(lab.results.sent, 2)
    lab.server.events.stored.clear()
    lab.clock.pass(5 * minuteMs)
    sender.record(lost('web'))
    await lab.fire(sweepMs)
    await lab.untilSent(3)
    assert.deepEqual(lab.requests.slice(2), ['PATCH shop/web', 'POST shop'])
    assert.deepEqual(lab.stored, ['web x7'])
  })

  it('is a new one for another Service or another reason', async () => {
    const sender = lab.open()
    sender.record(lost('web'))
    sender.record(lost('shop'))
    lab.clock.pass(1)
    sender.record({ ...lost('web'), reason: 'FailedToStartServiceHealthcheck' })
    await lab.untilSent(3)
    assert.deepEqual(lab.stored, ['web x1', 'shop x1', 'web x1'])
  })
})

describe('the limit of requests', () => {
  it('lets a burst pass, then one request after the other', async () => {
    const sender = lab.open({ limit: { qps: 2, burst: 3 } })
    for (let i = 0; i < 6; i++) sender.record(lost(`web-${i}`))
    await lab.untilSent(3)
    for (const sent of [4, 5, 6]) {
      await lab.until(() => lab.clock.count(500) === 1)
      assert.equal(lab.requests.length, sent - 1)
      lab.clock.fire(500)
      await lab.untilSent(sent)
    }
  })

  it('accumulates unused requests only up to the burst', async () => {
    const sender = lab.open({ limit: { qps: 5, burst: 1 } })
    lab.clock.pass(minuteMs)
    sender.record(lost('a'))
    sender.record(lost('b'))
    await lab.fire(200)
    await lab.untilSent(2)
  })

  it('drops Events when the queue is full, counts them, and logs it once', async () => {
    const sender = lab.open({ limit: { qps: 1, burst: 1 } })
    sender.record(lost('first'))
    await lab.untilSent(1)
    for (let i = 0; i < 1010; i++) sender.record(lost(`web-${i}`))
    assert.equal(lab.results.overflow, 10)
    assert.deepEqual(lab.sendingLines, ['Events are not sent: 1000 are waiting: further ones are dropped'])
    sender.record(lost('web-1009'))
    assert.equal(lab.results.overflow, 11, 'a dropped Event starts no series')
  })
})

describe('an API server that does not accept an Event', () => {
  const passing = [
    {
      name: 'it closes the connection',
      fault: { type: 'hang-up' },
      logged: 'the API server does not answer',
    },
    { name: 'it has an internal error', fault: statusFault(500), logged: 'status 500' },
    { name: 'a token is being replaced', fault: statusFault(401), logged: 'status 401' },
  ] as const
  for (const { name, fault, logged } of passing) {
    it(`gets a retry when ${name}, which is logged once`, async () => {
      const sender = lab.open()
      lab.server.eventFault = fault
      sender.record(starting)
      await lab.fire(delays.first)
      await lab.fire(delays.second)
      await lab.until(() => lab.clock.count(delays.third) === 1)
      assert.deepEqual(lab.sendingLines, [`Events are not sent: ${logged}`])
      lab.server.eventFault = undefined
      lab.clock.fire(delays.third)
      await lab.untilSent(1)
      assert.deepEqual(lab.sendingLines.slice(1), ['Events are sent again'])
      assert.deepEqual(lab.stored, ['node-a x1'])
    })
  }

  it('gets eight attempts, then the next Event', async () => {
    const sender = lab.open()
    lab.server.eventFault = { type: 'hang-up' }
    sender.record(lost('a'))
    sender.record(lost('b'))
    const { first, second, third, longest } = delays
    for (const delayMs of [first, second, third, 6400, 12_800, 25_600, longest]) await lab.fire(delayMs)
    await lab.until(() => lab.clock.count(first) === 1)
    assert.equal(lab.results.failed, 1)
    lab.server.eventFault = undefined
    lab.clock.fire(first)
    await lab.untilSent(1)
    assert.deepEqual(lab.stored, ['b x1'])
    sender.record(lost('a'))
    await lab.untilSent(2)
    assert.deepEqual(lab.stored, ['b x1', 'a x1'], 'an abandoned Event starts no series')
  })

  it('gets the retry after the time of its Retry-After header', async () => {
    const sender = lab.open()
    lab.server.eventFault = statusFault(429, '7')
    sender.record(starting)
    await lab.until(() => lab.clock.count(7000) === 1)
    lab.server.eventFault = undefined
    lab.clock.fire(7000)
    await lab.untilSent(1)
  })

  const final = [
    {
      code: 403,
      logged:
        'An Event was refused: status 403: the agent needs the verbs create and patch for events of events.k8s.io there, or the namespace is being deleted',
    },
    { code: 404, logged: 'An Event was refused: status 404' },
    { code: 422, logged: 'An Event was refused: status 422' },
  ]
  for (const { code, logged } of final) {
    it(`gets one attempt when it refuses with ${code}, which is logged once`, async () => {
      const sender = lab.open()
      lab.server.eventFault = statusFault(code)
      for (const name of ['a', 'b', 'c']) sender.record(lost(name))
      await lab.until(() => lab.results.failed === 3)
      assert.deepEqual(lab.requests, ['POST shop', 'POST shop', 'POST shop'])
      assert.deepEqual(lab.sendingLines, [logged])
    })
  }

  it('that accepts other Events is reported as refusing one reason, until six minutes pass without a refusal', async () => {
    const sender = lab.open()
    for (const [name, fault] of [
      ['a', statusFault(422)],
      ['b', undefined],
      ['c', statusFault(422)],
    ] as const) {
      lab.server.eventFault = fault
      sender.record(lost(name))
      const { sent, failed } = lab.results
      await lab.until(() => lab.results.sent + lab.results.failed > sent + failed)
    }
    assert.deepEqual(lab.results, { sent: 1, failed: 2, overflow: 0 })
    assert.deepEqual(lab.sendingLines, ['An Event was refused: status 422'])
    await lab.fire(sweepMs)
    assert.deepEqual(lab.sendingLines.slice(1), ['No such Event has been refused for 6 minutes'])
  })

  it('that refuses an Event is not reported as recovered', async () => {
    const sender = lab.open()
    lab.server.eventFault = statusFault(503)
    sender.record(lost('a'))
    await lab.until(() => lab.clock.count(delays.first) === 1)
    lab.server.eventFault = statusFault(422)
    lab.clock.fire(delays.first)
    await lab.until(() => lab.results.failed === 1)
    assert.deepEqual(lab.sendingLines, [
      'Events are not sent: status 503',
      'An Event was refused: status 422',
    ])
    lab.server.eventFault = undefined
    sender.record(lost('b'))
    await lab.untilSent(1)
    assert.deepEqual(lab.sendingLines.slice(2), ['Events are sent again'])
  })

  it('that lost its reply stores the Event only once', async () => {
    const sender = lab.open()
    lab.server.events.onStored = () => lab.server.dropConnections()
    sender.record(starting)
    await lab.fire(delays.first)
    await lab.untilSent(1)
    assert.deepEqual(lab.requests, ['POST default', 'POST default'])
    assert.deepEqual(lab.stored, ['node-a x1'])
  })

  it('gets the current credentials with each request', async () => {
    lab.server.options = { authorization: 'Bearer new' }
    let token = 'old'
    const options = masterOptions(lab.server.url.href)
    const login: typeof options.login = async (signal) => ({
      ...(await options.login(signal)),
      headers: { authorization: `Bearer ${token}` },
    })
    const sender = lab.open({ client: { ...options, login } })
    sender.record(starting)
    await lab.until(() => lab.clock.count(delays.first) === 1)
    token = 'new'
    lab.clock.fire(delays.first)
    await lab.untilSent(1)
  })
})

describe('a stop', () => {
  it('sends the waiting Events', async () => {
    const sender = lab.open()
    sender.record(lost('a'))
    sender.record(lost('b'))
    await sender.stop(200)
    assert.deepEqual(lab.stored, ['a x1', 'b x1'])
    assert.equal(lab.clock.armed, 0)
  })

  it('waits at most for the given time and leaves no timer or request', async () => {
    const sender = lab.open()
    lab.server.eventFault = { type: 'silence' }
    sender.record(lost('a'))
    sender.record(lost('b'))
    await lab.until(() => lab.requests.length === 1)
    const stopped = sender.stop(200)
    await lab.fire(200)
    await stopped
    assert.equal(lab.clock.armed, 0)
    sender.record(lost('c'))
    assert.equal(lab.clock.armed, 0)
    assert.deepEqual(lab.requests, ['POST shop'])
  })

  it('does not wait for the delay of a retry', async () => {
    const sender = lab.open()
    lab.server.eventFault = { type: 'hang-up' }
    sender.record(lost('a'))
    await lab.until(() => lab.clock.count(delays.first) === 1)
    const stopped = sender.stop(200)
    await lab.fire(200)
    await stopped
    assert.equal(lab.clock.armed, 0)
  })

  it('is immediate when no Event waits', async () => {
    const sender = lab.open()
    await sender.stop(200)
    assert.equal(lab.clock.armed, 0)
  })
})

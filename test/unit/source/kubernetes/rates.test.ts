import assert from 'node:assert/strict'
import dns from 'node:dns'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { gzipSync } from 'node:zlib'
import { apiService } from '../../../support/api-documents.js'
import { frame, jsonWriter, protobufWriter } from '../../../support/api-writer.js'
import type { Fault } from '../../../support/fake-api-server.js'
import { delays, KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

beforeEach(() => {
  lab = new KubernetesLab()
})
afterEach(async () => {
  mock.restoreAll()
  await lab.close()
})

const kinds = ['Service', 'EndpointSlice', 'Node'] as const
const status = (code: number): Fault => ({ type: 'status', status: { code } })
const expired: Fault = { type: 'error-event', status: { code: 410, reason: 'Expired' } }
const html: Fault = { type: 'stream', bytes: frame(Buffer.from('<html>')) }
const nothing: Fault = { type: 'stream', bytes: Buffer.alloc(0) }
const page: Fault = { type: 'body', contentType: 'text/html', body: Buffer.from('<html>') }

interface Rate {
  readonly name: string
  readonly fault: Fault
  readonly only?: 'watch'
  /** Lists, including streamed ones, and watches of each kind within ten seconds. */
  readonly atStart: readonly [lists: number, watches: number]
  readonly later: readonly [lists: number, watches: number]
}

/** The highest rates, because the random number is 0. docs/api-source.md has these numbers. */
const rates: readonly Rate[] = [
  { name: 'hangs up', fault: { type: 'hang-up' }, atStart: [4, 0], later: [0, 4] },
  { name: 'answers 500', fault: status(500), atStart: [4, 0], later: [0, 4] },
  { name: 'answers 503', fault: status(503), atStart: [4, 0], later: [0, 4] },
  { name: 'answers 401', fault: status(401), atStart: [5, 0], later: [0, 5] },
  { name: 'answers 403', fault: status(403), atStart: [5, 0], later: [0, 5] },
  { name: 'answers 410', fault: status(410), atStart: [5, 0], later: [4, 1] },
  { name: 'answers with a web page', fault: page, atStart: [5, 0], later: [0, 5] },
  { name: 'closes each watch at once', fault: nothing, only: 'watch', atStart: [2, 5], later: [0, 5] },
  { name: 'compacts before each watch', fault: expired, only: 'watch', atStart: [5, 0], later: [4, 5] },
  { name: 'sends garbage into each watch', fault: html, only: 'watch', atStart: [6, 5], later: [4, 5] },
]

describe('ten seconds of a server that', () => {
  for (const { name, fault, only, atStart, later } of rates) {
    it(`${name} cause few requests at the start`, async () => {
      await lab.server.listen()
      for (const kind of kinds) lab.server.setFault(kind, fault, only)
      lab.open().catch(assert.fail)
      await tenSeconds()
      for (const kind of kinds) assert.deepEqual(asked(kind, 0), atStart)
    })

    it(`${name} cause few requests while its watches are followed`, async () => {
      lab.server.options = { streamedLists: 'old' }
      await lab.start()
      await lab.untilFollowing()
      const from = lab.server.requests.length
      lab.clock.pass(6000)
      await lab.breakLinks(() => {
        for (const kind of kinds) {
          lab.server.setFault(kind, fault, only)
          lab.server.endWatches(kind)
        }
      })
      await tenSeconds()
      for (const kind of kinds) assert.deepEqual(asked(kind, from), later)
    })
  }
})

/** Lets ten seconds pass from the first request on. */
async function tenSeconds(): Promise<void> {
  await lab.passUntil(lab.clock.now() + 10_000)
}

function asked(kind: string, from: number): readonly [lists: number, watches: number] {
  const requests = lab.server.requests.slice(from).filter((request) => request.startsWith(`${kind} `))
  const count = (verb: string): number => requests.filter((request) => request.includes(verb)).length
  const [checks, watches] = [count(' check from'), count(' watch from')]
  // A check comes before each watch that continues. If it fails, no watch follows.
  return [requests.length - checks - watches - count(' first since'), Math.max(checks, watches)]
}

describe('a server name that DNS does not know', () => {
  it('is looked up again, and used when DNS knows it', async () => {
    await lab.server.listen()
    let isKnown = false
    mock.method(dns, 'lookup', (host: string, _options: unknown, done: (...found: unknown[]) => void) => {
      if (isKnown) done(undefined, [{ address: '127.0.0.1', family: 4 }])
      else done(Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: 'ENOTFOUND' }))
    })
    const listed = lab.open({ server: new URL(`http://api.example:${lab.server.port}`) })
    await lab.untilLogged(/link: Service: .*getaddrinfo ENOTFOUND api\.example/u)
    isKnown = true
    await lab.passUntilFollowing()
    await listed
    assert.equal(lab.events.at(-1), 'synced')
  })
})

describe('a slow server', () => {
  it('gets no time-out while it sends data', async () => {
    await lab.start()
    await lab.untilFollowing()
    lab.events.length = 0
    const event = protobufWriter.event('ADDED', 'Service', apiService('slow', '10.96.0.2'))
    for (const part of [event.subarray(0, 30), event.subarray(30, 60)]) {
      lab.server.sendBytes('Service', part)
      lab.server.store.put('Node', { metadata: { name: 'node-a' } })
      await lab.untilEvent('+Node /node-a')
      lab.clock.pass(30_000)
    }
    lab.server.sendBytes('Service', event.subarray(60))
    await lab.untilEvent('+Service default/slow 10.96.0.2')
    assert.equal(lab.server.openWatches, 3)
  })
})

describe('a compressed list', () => {
  it('is requested again if it cannot be decompressed, and deletes nothing', async () => {
    const whole = jsonWriter.list('Service', [], { resourceVersion: '9', continue: '' })
    const body = gzipSync(whole).fill(0, 12, 30)
    lab.server.options = { streamedLists: 'old' }
    await lab.start()
    await lab.untilFollowing()
    lab.events.length = 0
    lab.clock.pass(6000)
    const zipped: Fault = { type: 'body', contentType: jsonWriter.type, contentEncoding: 'gzip', body }
    lab.server.setFault('Service', zipped, 'list')
    lab.server.store.compact()
    lab.server.endWatches('Service')
    await lab.fire(delays.relist)
    await lab.untilLogged(/link: Service: /u)
    assert.deepEqual(lab.events, [])
    lab.server.setFault('Service', undefined)
    lab.server.store.remove('Service', 'default/web')
    await lab.fire(delays.first)
    await lab.untilEvent('-Service default/web')
  })
})

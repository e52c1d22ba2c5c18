// Real sockets on loopback and the real inspector of V8. A manual clock sets the duration of a profile.
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { resolveConfig } from '../../../src/config/index.js'
import { openMetrics } from '../../../src/metrics/index.js'
import { AgentServers } from '../../../src/server/index.js'
import { ask, connected, freePort, until, type HttpReply } from '../../support/http.js'
import { ManualClock } from '../../support/manual-clock.js'
import { ip, type LogLine, MemoryLog } from '../../support/pipeline-lab.js'

const stops: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

interface Bench {
  readonly port: number
  readonly clock: ManualClock
  readonly log: MemoryLog
  readonly servers: AgentServers
}

async function open(): Promise<Bench> {
  const port = await freePort()
  const [clock, log, registry] = [new ManualClock(), new MemoryLog(), new Registry()]
  const servers = new AgentServers({
    config: {
      ...resolveConfig({ manifests: 'm' }).servers,
      healthzBindAddress: undefined,
      metricsBindAddress: { host: ip('127.0.0.1'), port },
      enableProfiling: true,
    },
    facts: {
      families: () => [],
      isNodeEligible: () => true,
      mode: 'ipvs',
      metrics: registry,
      configuration: () => ({}),
      flags: () => ({}),
      startedMs: 0,
      version: '1.2.3',
    },
    counts: openMetrics(registry),
    nodeName: 'node-a',
    events: { record: () => assert.fail() },
    clock,
    log,
  })
  stops.push(async () => await servers.stop())
  await servers.start(Promise.resolve())
  return { port, clock, log, servers }
}

/** Requests a profile and waits until the recording runs. */
async function recording({ port, clock }: Bench, path: string): Promise<{ reply: Promise<HttpReply> }> {
  const reply = ask(port, { path })
  await until(() => clock.pending === 1)
  return { reply }
}

/** The lines at the default verbosity. */
function withoutDebug(log: MemoryLog): readonly LogLine[] {
  return log.lines.filter(({ level }) => level !== 'debug')
}

describe('/debug/flags/v', () => {
  const cases = [
    { body: '4', status: 200, expected: 'successfully set klog.logging.verbosity to 4\n', verbosity: 4 },
    { body: '10\n', status: 200, expected: 'successfully set klog.logging.verbosity to 10\n', verbosity: 10 },
    { body: '', status: 400, expected: /^failed set klog\.logging\.verbosity : /u },
    { body: 'debug', status: 400, expected: /^failed set klog\.logging\.verbosity debug: /u },
    { body: '-1', status: 400, expected: /^failed set klog\.logging\.verbosity -1: /u },
    { body: '2147483648', status: 400, expected: /^failed set klog\.logging\.verbosity 2147483648: /u },
    { body: '1'.repeat(100_000), status: 400, expected: 'error reading request body\n' },
    { method: 'GET', status: 406, expected: 'unsupported http method\n' },
    { method: 'POST', body: '4', status: 406, expected: 'unsupported http method\n' },
  ]
  for (const { method = 'PUT', body, status, expected, verbosity } of cases) {
    it(`replies ${status} to ${method} of ${JSON.stringify(body?.slice(0, 12))}`, async () => {
      const { port, log } = await open()
      const question = { path: '/debug/flags/v', method, ...(body === undefined ? {} : { body }) }
      const reply = await ask(port, question)
      assert.deepEqual([reply.status, reply.headers['content-type']], [status, 'text/plain'])
      if (typeof expected === 'string') assert.equal(reply.body, expected)
      else assert.match(reply.body, expected)
      assert.equal(log.verbosity, verbosity ?? 0)
      assert.deepEqual(
        withoutDebug(log).map(({ message, fields }) => ({ message, v: fields['v'] })),
        verbosity === undefined ? [] : [{ message: 'Log verbosity changed', v: verbosity }],
      )
    })
  }

  it('changes and logs nothing when the body stays incomplete', async () => {
    const { port, log } = await open()
    const socket = await connected(port)
    socket.write('PUT /debug/flags/v HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n4')
    socket.end()
    await new Promise((resolve) => socket.resume().once('close', resolve))
    assert.deepEqual([log.verbosity, withoutDebug(log)], [0, []])
  })
})

describe('/debug/pprof/', () => {
  const profiles = [
    { path: '/debug/pprof/profile?seconds=2', ms: 2000, file: 'viaduct.cpuprofile', key: 'nodes' },
    { path: '/debug/pprof/profile?seconds=soon', ms: 30_000, file: 'viaduct.cpuprofile', key: 'timeDeltas' },
    { path: '/debug/pprof/heap?seconds=60', ms: 60_000, file: 'viaduct.heapprofile', key: 'head' },
    { path: '/debug/pprof/heap', ms: 30_000, file: 'viaduct.heapprofile', key: 'samples' },
  ]
  for (const { path, ms, file, key } of profiles) {
    it(`has ${path} after ${ms} ms`, async () => {
      const bench = await open()
      const { reply } = await recording(bench, path)
      await bench.clock.advance(ms - 1)
      assert.equal(bench.clock.pending, 1)
      await bench.clock.advance(1)
      const { status, headers, body } = await reply
      assert.equal(status, 200)
      assert.equal(headers['content-type'], 'application/octet-stream')
      assert.equal(headers['content-disposition'], `attachment; filename="${file}"`)
      assert.ok(key in Object(JSON.parse(body)))
    })
  }

  it('lists the profiles with their paths', async () => {
    const { port } = await open()
    const { status, body } = await ask(port, { path: '/debug/pprof/' })
    assert.equal(status, 200)
    assert.match(body, /not Go's pprof/u)
    const moved = await ask(port, { path: '/debug/pprof' })
    assert.deepEqual([moved.status, moved.headers.location], [301, '/debug/pprof/'])
  })

  it('makes one profile at a time, of at most 60 s', async () => {
    const bench = await open()
    const { reply } = await recording(bench, '/debug/pprof/heap?seconds=1')
    assert.equal((await ask(bench.port, { path: '/debug/pprof/profile' })).status, 503)
    assert.equal((await ask(bench.port, { path: '/debug/pprof/profile?seconds=61' })).status, 400)
    assert.equal((await ask(bench.port, { path: '/proxyMode' })).body, 'ipvs')
    await bench.clock.advance(1000)
    assert.equal((await reply).status, 200)
  })

  it('ends a profile when its client disconnects', async () => {
    const bench = await open()
    const socket = await connected(bench.port)
    socket.write('GET /debug/pprof/profile?seconds=60 HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => bench.clock.pending === 1)
    socket.destroy()
    await until(() => bench.clock.pending === 0)
    const { reply } = await recording(bench, '/debug/pprof/profile?seconds=1')
    await bench.clock.advance(1000)
    assert.equal((await reply).status, 200)
  })

  it('ends a profile when the agent stops', async () => {
    const bench = await open()
    const { reply } = await recording(bench, '/debug/pprof/heap?seconds=60')
    const lost = assert.rejects(reply, { code: 'ECONNRESET' })
    await bench.servers.stop()
    await lost
    assert.equal(bench.clock.pending, 0)
  })
})

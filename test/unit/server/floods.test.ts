// Clients that flood a server with requests (issue 18, C5). Real sockets on loopback; the clock of the turns is manual.
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { afterEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { resolveConfig } from '../../../src/config/index.js'
import { openMetrics } from '../../../src/metrics/index.js'
import { AgentServers, HealthCheckServers } from '../../../src/server/index.js'
import { BoundServer, openListenProblems } from '../../../src/server/testing.js'
import { ask, connected, freePort, readUntil, settledSockets, until } from '../../support/http.js'
import { ManualClock } from '../../support/manual-clock.js'
import { ip, MemoryLog } from '../../support/pipeline-lab.js'

const stops: (() => unknown)[] = []

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

const turnsPerPeriod = 10
/** Turns of one client address: at once, and in each period. */
const [turnsAtOnce, ownTurnsPerPeriod] = [10, 1] as const
const connectionLimit = 512
const periodMs = 10

function requests(count: number, path = '/livez'): string {
  return `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(count)
}

/** The address of the client with this number. */
function clientAddress(number: number): string {
  return `127.0.1.${number}`
}

/** A connection that the test closes. */
async function client(port: number, localAddress?: string): Promise<Socket> {
  const socket = await connected(port, localAddress)
  stops.push(() => socket.destroy())
  return socket
}

interface Bench {
  readonly port: number
  readonly clock: ManualClock
  /** Replies in progress or finished. */
  readonly begun: ServerResponse[]
  /** Paths of their requests. */
  readonly paths: (string | undefined)[]
}

/** A server whose replies end at once or when the test ends them. */
async function open(endsAtOnce: boolean): Promise<Bench> {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const [begun, paths]: [ServerResponse[], (string | undefined)[]] = [[], []]
  const server = new BoundServer({
    name: 'healthz',
    address: { host: '127.0.0.1', port: 0 },
    reply: (request, response) => {
      begun.push(response)
      paths.push(request.url)
      if (endsAtOnce) response.end('here')
    },
    isHardFail: false,
    onHardFail: () => {},
    clock,
    log,
    problems: openListenProblems(log),
  })
  stops.push(async () => await server.stop())
  await server.start()
  return { port: server.address?.port ?? 0, clock, begun, paths }
}

/** Connections of one address, each with a request. Resolves when the server has handled what it accepts at once. */
async function flood(port: number, count: number, localAddress = '127.0.0.2'): Promise<void> {
  for (let i = 0; i < count; i++) {
    const socket = await client(port, localAddress)
    socket.on('error', () => {}).write(requests(1, '/flood'))
  }
  await settledSockets()
}

describe('a flooded server', () => {
  it('starts the next reply of a connection when the previous one has ended', async () => {
    const { port, begun } = await open(false)
    const socket = await client(port)
    socket.write(requests(1900))
    for (let count = 1; count <= 3; count++) {
      await until(() => begun.length >= count)
      await settledSockets()
      assert.equal(begun.length, count)
      begun.at(-1)?.end('here')
    }
  })

  it('starts at most two replies per connection when bodies precede requests in one buffer', async () => {
    const { port, begun } = await open(false)
    const socket = await client(port)
    socket.write('POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx'.repeat(500))
    await until(() => begun.length >= 2)
    await settledSockets()
    assert.equal(begun.length, 2)
    for (let count = 0; count < 8; count++) {
      begun[count]?.end('here')
      await until(() => begun.length > count + 1)
    }
    await settledSockets()
    assert.equal(begun.filter((response) => !response.writableEnded).length, 2)
  })

  it('finds the end of headers that arrive in two parts', async () => {
    const { port, begun } = await open(false)
    const socket = await client(port)
    const [text, half] = [requests(3), requests(1).length - 1]
    socket.write(text.slice(0, half))
    await settledSockets()
    socket.write(text.slice(half))
    await until(() => begun.length > 0)
    await settledSockets()
    assert.equal(begun.length, 1)
  })

  it('accepts ten requests in 10 ms, one connection after the other', async () => {
    const { port, clock, paths } = await open(true)
    const greedy: Socket[] = []
    for (const number of [1, 2, 3]) greedy.push(await client(port, clientAddress(number)))
    for (const socket of greedy) socket.write(requests(500))
    await until(() => paths.length >= turnsPerPeriod)
    await settledSockets()
    assert.equal(paths.length, turnsPerPeriod)
    const modest = ask(port, { path: '/modest' })
    await settledSockets()
    assert.equal(paths.length, turnsPerPeriod)
    await clock.advance(periodMs)
    await until(() => paths.length >= 2 * turnsPerPeriod)
    await settledSockets()
    assert.equal(paths.length, 2 * turnsPerPeriod)
    assert.ok(paths.indexOf('/modest') < turnsPerPeriod + greedy.length + 1)
    assert.equal((await modest).body, 'here')
  })

  it('accepts ten requests of one address at once, and one in each 10 ms, on however many connections', async () => {
    const { port, clock, paths } = await open(true)
    await flood(port, 60)
    assert.equal(paths.length, turnsAtOnce)
    for (let period = 1; period <= 20; period++) {
      await clock.advance(periodMs)
      await settledSockets()
      assert.equal(paths.length, turnsAtOnce + period * ownTurnsPerPeriod)
    }
  })

  it('accepts ten requests at once again of an address that has rested', async () => {
    const { port, clock, paths } = await open(true)
    await flood(port, turnsAtOnce)
    await clock.advance(periodMs * turnsAtOnce)
    await flood(port, turnsAtOnce + 1)
    assert.equal(paths.length, 2 * turnsAtOnce)
  })

  it('replies to a probe of another address at once while many connections of one address wait', async () => {
    const { port, clock, paths } = await open(true)
    await flood(port, 60)
    await clock.advance(periodMs)
    const reply = await ask(port, { path: '/probe', localAddress: clientAddress(1) })
    assert.equal(reply.body, 'here')
    assert.equal(paths.length, turnsAtOnce + ownTurnsPerPeriod + 1)
  })

  it('lets the next address have its turn while several addresses flood it', async () => {
    const { port, clock, paths } = await open(true)
    const floods = turnsPerPeriod + 2
    for (let number = 1; number <= floods; number++) await flood(port, 10, clientAddress(number))
    await clock.advance(periodMs)
    const probe = ask(port, { path: '/probe', localAddress: '127.0.0.9' })
    await settledSockets()
    const before = paths.length
    for (let i = 0; i < 2; i++) {
      await clock.advance(periodMs)
      await settledSockets()
    }
    assert.equal((await probe).body, 'here')
    assert.ok(paths.indexOf('/probe') < before + floods + 1)
  })

  it('keeps the connection of a probe while one address floods it with more connections than it keeps', async () => {
    const { port, clock, paths } = await open(true)
    await flood(port, turnsAtOnce + connectionLimit + 2)
    const probe = ask(port, { path: '/probe', localAddress: clientAddress(1) })
    await flood(port, 130)
    await clock.advance(2 * periodMs)
    assert.equal((await probe).body, 'here')
    assert.equal(paths.filter((path) => path === '/probe').length, 1)
  })

  it('closes the connection of an address that has waited longest, when all wait', async () => {
    const { port, clock, paths } = await open(true)
    const count = turnsAtOnce + connectionLimit + 3
    for (let i = 0; i < count; i++) {
      const socket = await client(port)
      socket.on('error', () => {}).write(requests(1, `/${i}`))
      await settledSockets()
    }
    await clock.advance(periodMs * count)
    await settledSockets()
    // The ten first connections have their reply and are closed first.
    const lost = [turnsAtOnce, turnsAtOnce + 1, turnsAtOnce + 2]
    const numbers = Array.from({ length: count }, (_, i) => i)
    const served = numbers.filter((i) => !lost.includes(i))
    assert.deepEqual(
      paths,
      served.map((i) => `/${i}`),
    )
  })

  it('drops the requests of a disconnected client', async () => {
    const { port, clock, begun } = await open(true)
    const socket = await client(port)
    socket.write(requests(1900))
    await until(() => begun.length >= turnsPerPeriod)
    socket.destroy()
    await settledSockets()
    for (let i = 0; i < 10; i++) {
      await clock.advance(periodMs)
      await settledSockets()
    }
    assert.ok(begun.length <= 2 * turnsPerPeriod, `${begun.length} replies`)
    assert.equal((await answeredAfter(clock, port)).body, 'here')
  })

  it('replies to all pipelined requests, and closes the connection on request', async () => {
    const { port, clock } = await open(true)
    const socket = await client(port)
    socket.write(`${requests(4)}GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    const text = await readUntil(socket, undefined)
    assert.equal(text.match(/HTTP\/1\.1 200 OK/gu)?.length, 5)
    assert.equal(clock.pending, 0)
  })
})

/** Advances one period, since the turns of the current one may be used up. */
async function answeredAfter(clock: ManualClock, port: number): ReturnType<typeof ask> {
  await clock.advance(periodMs)
  return await ask(port)
}

describe('flooded health checks of Services', () => {
  it('accept ten requests in 10 ms over all Services', async () => {
    const clock = new ManualClock()
    let asked = 0
    const isHealthy = (): boolean => {
      asked++
      return true
    }
    const servers = new HealthCheckServers({ family: 'ipv4', nodeName: 'node-a', isHealthy, clock })
    stops.push(async () => await servers.stop())
    const ports = [await freePort(), await freePort()]
    const checks = ports.map((port) => ({ namespace: 'default', name: `s-${port}`, port, localEndpoints: 1 }))
    await servers.sync(new Map(checks.map((check) => [`default/${check.name}`, check])), [ip('127.0.0.1')])
    for (const port of ports)
      for (const number of [1, 2]) (await client(port, clientAddress(number))).write(requests(500, '/'))
    for (let period = 1; period <= 2; period++) {
      await until(() => asked >= period * turnsPerPeriod)
      await settledSockets()
      assert.equal(asked, period * turnsPerPeriod)
      await clock.advance(periodMs)
    }
  })
})

describe('health checks of many Services', () => {
  it('accept one request per Service and second if that is more', async () => {
    const clock = new ManualClock()
    let asked = 0
    const isHealthy = (): boolean => {
      asked++
      return true
    }
    const servers = new HealthCheckServers({ family: 'ipv4', nodeName: 'node-a', isHealthy, clock })
    stops.push(async () => await servers.stop())
    const port = await freePort()
    // All have the same port, which the first one owns.
    const checks = Array.from({ length: 2000 }, (_, i) => ({
      namespace: 'n',
      name: `s-${i}`,
      port,
      localEndpoints: 1,
    }))
    await servers.sync(new Map(checks.map((check) => [`n/${check.name}`, check])), [ip('127.0.0.1')])
    const prober = await client(port)
    prober.write(requests(500, '/'))
    await until(() => asked >= 20)
    await settledSockets()
    assert.equal(asked, 20)
  })
})

describe('flooded /metrics', () => {
  it('is rendered once for all waiting clients, and again after 100 ms at the earliest', async () => {
    const [clock, port] = [new ManualClock(), await freePort()]
    const renderings: ((text: string) => void)[] = []
    const metrics = {
      contentType: 'text/plain',
      metrics: async () => await new Promise<string>((resolve) => renderings.push(resolve)),
    }
    const servers = new AgentServers({
      config: {
        ...resolveConfig({ manifests: 'm' }).servers,
        healthzBindAddress: undefined,
        metricsBindAddress: { host: ip('127.0.0.1'), port },
      },
      facts: {
        families: () => [],
        isNodeEligible: () => true,
        mode: 'iptables',
        metrics,
        configuration: () => ({}),
        flags: () => ({}),
        startedMs: 0,
        version: '1.2.3',
      },
      counts: openMetrics(new Registry()),
      nodeName: 'node-a',
      events: { record: () => {} },
      clock,
      log: new MemoryLog(),
    })
    stops.push(async () => await servers.stop())
    await servers.start(Promise.resolve())
    const sockets: Socket[] = []
    for (let i = 0; i < 8; i++) sockets.push(await client(port))
    const askAll = (answer: string): Promise<string>[] =>
      sockets.map((socket) => {
        socket.write(requests(1, '/metrics'))
        return readUntil(socket, answer)
      })
    const first = askAll('one')
    await until(() => renderings.length > 0)
    await settledSockets()
    assert.equal(renderings.length, 1)
    renderings[0]?.('one')
    await Promise.all(first)
    await clock.advance(periodMs)
    const second = askAll('two')
    await settledSockets()
    assert.equal(renderings.length, 1)
    await clock.advance(100)
    assert.equal(renderings.length, 2)
    renderings[1]?.('two')
    await Promise.all(second)
  })
})

// Real sockets on loopback.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { afterEach, describe, it } from 'node:test'
import { answering, type Page } from '../../../src/server/index.js'
import {
  BoundServer,
  httpLimits,
  openListenProblems,
  type BoundServerOptions,
} from '../../../src/server/testing.js'
import {
  ask,
  assertRefused,
  close,
  connected,
  freePort,
  occupy,
  readUntil,
  until,
} from '../../support/http.js'
import { ManualClock } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

const opened: { stop(): Promise<unknown> }[] = []

afterEach(async () => {
  for (const one of opened.splice(0)) await one.stop()
})

/** Limit for a client without progress. It starts with a request, so that a slow machine loses no request. */
const silenceMs = 50

interface Bench {
  readonly server: BoundServer
  readonly clock: ManualClock
  readonly log: MemoryLog
  readonly port: () => number
}

function open(options: Partial<BoundServerOptions> = {}): Bench {
  const [clock, log] = [new ManualClock(), new MemoryLog()]
  const server = new BoundServer({
    name: 'healthz',
    address: { host: '127.0.0.1', port: 0 },
    reply: (_request, response) => response.end('here'),
    isHardFail: false,
    onHardFail: () => {},
    clock,
    problems: openListenProblems(log),
    log,
    ...options,
  })
  opened.push(server)
  return { server, clock, log, port: () => server.address?.port ?? 0 }
}

describe("one of the agent's servers", () => {
  it('retries a port in use every 5 s, logs it once, and listens when the port is free', async () => {
    const other = await occupy()
    const { server, clock, log } = open({ address: { host: '127.0.0.1', port: other.port } })
    await server.start()
    assert.equal(server.address, undefined)
    const tried = async (): Promise<void> => {
      await clock.advance(5000)
      // The next attempt is scheduled, so the first one has failed.
      await until(() => clock.pending === 1 || server.address !== undefined)
    }
    await clock.advance(4999)
    assert.equal(clock.pending, 1)
    for (let i = 0; i < 3; i++) await tried()
    assert.deepEqual(
      log.lines.map(({ level, message }) => `${level} ${message}`),
      [
        `error Server cannot listen: healthz server on 127.0.0.1:${other.port}: listen EADDRINUSE: address already in use 127.0.0.1:${other.port}; retry every 5 s`,
      ],
    )
    await close(other.server)
    await tried()
    assert.equal((await ask(other.port)).body, 'here')
    assert.deepEqual(
      log.find('info', 'Server listens now').map(({ fields }) => fields),
      [{ server: 'healthz', address: `127.0.0.1:${other.port}` }],
    )
  })

  it('logs the address and port on which it listens', async () => {
    const { server, log, port } = open()
    await server.start()
    assert.deepEqual(
      log.find('debug', 'healthz server listens').map(({ fields }) => fields),
      [{ server: 'healthz', address: `127.0.0.1:${port()}` }],
    )
  })

  it('ends the agent with the reason if isHardFail is set', async () => {
    const other = await occupy()
    const { server, log } = open({ address: { host: '127.0.0.1', port: other.port }, isHardFail: true })
    await assert.rejects(server.start(), {
      name: 'ConfigError',
      path: 'healthz-bind-address',
      message: `healthz-bind-address: listen EADDRINUSE: address already in use 127.0.0.1:${other.port}: free the address, choose another, or remove --bind-address-hard-fail`,
    })
    assert.deepEqual(log.lines, [])
    await close(other.server)
  })

  it('retries an address that the machine does not have', async () => {
    const { server, clock, log } = open({ address: { host: '192.0.2.99', port: 1 } })
    await server.start()
    assert.match(log.find('error', 'Server cannot listen')[0]?.message ?? '', /EADDRNOTAVAIL/u)
    assert.equal(clock.pending, 1)
    await server.stop()
    assert.equal(clock.pending, 0, 'no retry after stop')
  })

  for (const host of ['0.0.0.0', '::']) {
    it(`replies to both families on ${host}`, async () => {
      const { server, port } = open({ address: { host, port: 0 } })
      await server.start()
      assert.equal((await ask(port())).body, 'here')
      assert.equal((await ask(port(), { host: '::1' })).body, 'here')
    })
  }

  it('closes with its connections on stop, also on a second stop and during the start', async () => {
    const { server, port } = open()
    await server.start()
    const held = await connected(port())
    held.resume()
    const [ended, former] = [once(held, 'close'), port()]
    await server.stop()
    await ended
    await server.stop()
    await assertRefused(former)
    const free = await freePort()
    const early = open({ address: { host: '127.0.0.1', port: free } }).server
    const starting = early.start()
    await early.stop()
    await starting
    await assertRefused(free)
  })
})

describe('a hostile or broken client', () => {
  const limits = { ...httpLimits, headersTimeout: 50, requestTimeout: 50, connectionsCheckingInterval: 10 }
  const slow = [
    { name: 'sends nothing', words: '' },
    { name: 'never ends its headers', words: 'GET / HTTP/1.1\r\nHost: a\r\nX-A: ' },
  ]
  for (const { name, words } of slow) {
    it(`gets 408 when it ${name}`, async () => {
      const { server, port } = open({ limits })
      await server.start()
      const socket = await connected(port())
      socket.write(words)
      assert.match(await readUntil(socket, undefined), /^HTTP\/1\.1 408 Request Timeout\r\n/u)
    })
  }

  it('gets a reply and a closed connection when it never ends its body', async () => {
    const { server, port } = open({ limits })
    await server.start()
    const socket = await connected(port())
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx')
    const words = await readUntil(socket, undefined)
    assert.match(words, /^HTTP\/1\.1 200 OK\r\n/u)
    assert.match(words, /here/u)
  })

  it('gets 431 for huge headers', async () => {
    const { server, port } = open()
    await server.start()
    const { status } = await ask(port(), { headers: { 'x-a': 'a'.repeat(40_000) } })
    assert.equal(status, 431)
  })

  it('gets 400 when it does not speak HTTP', async () => {
    const { server, port } = open()
    await server.start()
    const socket = await connected(port())
    socket.write('\u0016\u0003\u0001 hello\r\n\r\n')
    assert.match(await readUntil(socket, undefined), /^HTTP\/1\.1 400 Bad Request\r\n/u)
  })

  it('is dropped without a reply when it makes no progress', async () => {
    const { server, port } = open({
      limits: { ...httpLimits, headersTimeout: 0, requestTimeout: 0, timeout: silenceMs },
    })
    await server.start()
    assert.equal(await readUntil(await connected(port()), undefined), '')
  })

  it('is dropped when it does not read its reply', async () => {
    const body = 'a'.repeat(32 << 20)
    const { server, port } = open({
      reply: (request, response) => {
        request.socket.setTimeout(silenceMs)
        response.end(body)
      },
    })
    await server.start()
    const socket = await connected(port())
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => server.connectionCount === 1)
    await until(() => server.connectionCount === 0)
    socket.destroy()
  })

  it('loses idle connections beyond the limit, and 1,000 of them do not shut out others', async () => {
    const { server, port } = open()
    await server.start()
    const sockets = []
    let dropped = 0
    for (let i = 0; i < 1000; i++) {
      const socket = await connected(port())
      socket.on('error', () => {}).on('close', () => dropped++)
      sockets.push(socket.resume())
    }
    await until(() => dropped >= 1000 - 128)
    assert.ok(server.connectionCount <= 128)
    assert.equal((await ask(port())).body, 'here')
    for (const socket of sockets) socket.destroy()
  })

  it('does not close a connection that another client uses', async () => {
    const { server, port } = open()
    await server.start()
    const kept = await connected(port())
    const answer = async (): Promise<string> => {
      kept.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
      return await readUntil(kept, 'here')
    }
    const others = []
    for (let i = 0; i < 300; i++) {
      if (i % 100 === 0) await answer()
      const socket = await connected(port())
      others.push(socket.on('error', () => {}).resume())
    }
    assert.match(await answer(), /^HTTP\/1\.1 200 OK/u)
    for (const socket of [kept, ...others]) socket.destroy()
  })
})

function plainPage(body: string, made?: Promise<unknown>): Page {
  return async () => {
    await made
    return { status: 200, contentType: 'text/plain', body }
  }
}

/** A server with two pages: one takes longer than the limit for a silent connection, one replies at once. */
function openSlow(body: string): Bench {
  const events = new EventEmitter()
  const pages = new Map([
    ['/slow', plainPage(body, once(events, 'silence'))],
    ['/quick', plainPage('quick')],
  ])
  const reply = answering(pages, openListenProblems(new MemoryLog()))
  return open({
    reply: (request, response) => {
      request.socket.setTimeout(silenceMs)
      request.socket.once('timeout', () => events.emit('silence'))
      reply(request, response)
    },
  })
}

describe('a page that takes longer than the limit for a silent connection', () => {
  const orders = [['slow'], ['slow', 'quick'], ['quick', 'slow']]
  for (const order of orders) {
    it(`arrives when a connection requests ${order.join(' and then ')}`, async () => {
      const { server, port } = openSlow('slow')
      await server.start()
      const socket = await connected(port())
      socket.write(order.map((path) => `GET /${path} HTTP/1.1\r\nHost: a\r\n\r\n`).join(''))
      const words = await readUntil(socket, order.at(-1))
      assert.deepEqual(words.match(/^(?:slow|quick)/gmu), order)
      socket.destroy()
    })
  }

  it('ends the connection of a client that does not read it', async () => {
    const { server, port } = openSlow('a'.repeat(32 << 20))
    await server.start()
    const socket = await connected(port())
    socket.write('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n')
    await until(() => server.connectionCount === 1)
    await until(() => server.connectionCount === 0)
    socket.destroy()
  })
})

// An ApiClient and a server that speaks HTTP/2 and does what the test says.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createSecureServer, constants, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { text as textOf } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { ApiClient } from '../../../src/api/api-client.js'
import { ApiError } from '../../../src/api/api-error.js'
import { trustedWithoutAuthority, type ClientOptions } from '../../../src/api/client-options.js'
import { makeCertificate } from '../../support/certificates.js'
import { until } from '../../support/http.js'
import { ManualClock } from '../../support/manual-clock.js'
import { goAway, reset, startRawServer } from '../../support/raw-http2.js'

const certificate = makeCertificate()
const json = { ':status': 200, 'content-type': 'application/json' }

let clock: ManualClock
let end: AbortController
let server: ReturnType<typeof createSecureServer>
let sessions: ServerHttp2Session[]
let open: number
/** The paths of the requests. */
let asked: string[]
let serve: (stream: ServerHttp2Stream, headers: Record<string, unknown>) => void
/** Empty: none. */
let token: string
/** Connections differ by them. */
let authorities: string[]
let alive: number

beforeEach(async () => {
  clock = new ManualClock()
  end = new AbortController()
  sessions = []
  asked = []
  open = 0
  alive = 0
  token = 'abc'
  authorities = [certificate.cert]
  server = createSecureServer({ ...certificate, allowHTTP1: true })
  server.on('session', (session) => {
    sessions.push(session)
    open++
    session.on('error', () => undefined)
    session.on('close', () => open--)
  })
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined)
    asked.push(String(headers[':path']))
    serve(stream, headers)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
})

afterEach(async () => {
  end.abort()
  await clock.advance(0)
  for (const session of sessions) session.destroy()
  server.close()
  await until(() => open === 0)
})

function client(port = portOf(), options: Partial<ClientOptions> = {}): ApiClient {
  return new ApiClient(
    {
      server: new URL(`https://127.0.0.1:${port}/prefix/`),
      login: async () =>
        await Promise.resolve({
          headers: token === '' ? {} : { authorization: `Bearer ${token}` },
          tls: { ca: authorities },
          trusted: trustedWithoutAuthority,
        }),
      alive: () => alive++,
      ...options,
    },
    clock,
    end.signal,
  )
}

function portOf(): number {
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  return address.port
}

const list = { path: '/api', query: { limit: '1' }, isWatch: false, spread: 0 }

describe('a client of a server with HTTP/2', () => {
  it('sends path, query, host and credentials, and reads the answer', async () => {
    let found: Record<string, unknown> = {}
    serve = (stream, headers) => {
      found = headers
      stream.respond(json)
      stream.end('{}')
    }
    const answer = await client().get(list)
    assert.equal(await textOf(answer.chunks), '{}')
    assert.deepEqual(asked, ['/prefix/api?limit=1'])
    assert.match(String(found[':authority']), /^127\.0\.0\.1:\d+$/u)
    assert.equal(found['authorization'], 'Bearer abc')
    assert.equal(found['accept-encoding'], 'gzip')
    await client().get({ ...list, isWatch: true })
    assert.equal(found['accept-encoding'], 'identity', 'a watch')
  })

  // Before, HTTP/2 sent no user and no password.
  for (const mayUseHttp2 of [true, false])
    it(`sends user and password of the URL where there are no other credentials (HTTP/2: ${mayUseHttp2})`, async () => {
      const found: unknown[] = []
      serve = (stream, headers) => {
        found.push(headers['authorization'])
        stream.respond(json)
        stream.end('{}')
      }
      server.on('request', ({ httpVersion, headers }, response) => {
        if (httpVersion === '2.0') return
        found.push(headers.authorization)
        response.setHeader('content-type', 'application/json')
        response.end('{}')
      })
      const url = new URL(`https://me:50%25%20off@127.0.0.1:${portOf()}`)
      const api = client(0, { server: url, mayUseHttp2 })
      for (token of ['abc', '']) await textOf((await api.get(list)).chunks)
      const basic = Buffer.from('me:50% off').toString('base64')
      assert.deepEqual(found, ['Bearer abc', `Basic ${basic}`])
    })

  // Before, a request with the earlier certificates, which came late, closed the newer connection to further requests.
  it('keeps a connection for each set of certificates while requests with both come', async () => {
    serve = (stream) => {
      stream.respond(json)
      stream.end('{}')
    }
    const api = client()
    for (let i = 0; i < 3; i++)
      for (authorities of [[certificate.cert], [certificate.cert, certificate.cert]])
        await textOf((await api.get(list)).chunks)
    assert.equal(sessions.length, 2)
    await clock.advance(28_000)
    await until(() => open === 0)
  })

  it('reads gzip', async () => {
    serve = (stream) => {
      stream.respond({ ...json, 'content-encoding': 'gzip' })
      stream.end(gzipSync('{"a":1}'))
    }
    assert.equal(await textOf((await client().get(list)).chunks), '{"a":1}')
  })

  it('writes', async () => {
    const bodies: string[] = []
    serve = (stream) => {
      let text = ''
      stream.setEncoding('utf8').on('data', (part: string) => (text += part))
      stream.on('end', () => {
        bodies.push(text)
        stream.respond({ ...json, ':status': 201 })
        stream.end('{}')
      })
    }
    await client().write({ method: 'POST', path: '/events', contentType: 'application/json', body: '[1]' })
    assert.deepEqual(bodies, ['[1]'])
  })

  it('reports the status and the words of a refusal', async () => {
    serve = (stream) => {
      stream.respond({ ...json, ':status': 403 })
      stream.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', reason: 'Forbidden', message: 'no' }))
    }
    await assert.rejects(client().get(list), {
      code: 'status',
      status: 403,
      message: 'GET /api: 403 Forbidden: no',
    })
  })

  const ends: { name: string; cut: (socket: TLSSocket) => void; problem: RegExp }[] = [
    {
      name: 'the connection breaks',
      cut: (socket) => socket.end(),
      problem: /^GET \/api: the connection ended before the end of the answer$/u,
    },
    {
      name: 'the server ends the connection with an error',
      cut: (socket) => socket.write(goAway(constants.NGHTTP2_INTERNAL_ERROR)),
      problem: /^GET \/api: the server ended the connection: INTERNAL_ERROR$/u,
    },
    {
      name: 'the server ends the request with an error',
      cut: (socket) => socket.write(reset(constants.NGHTTP2_INTERNAL_ERROR)),
      problem: /^GET \/api: the server ended the request: INTERNAL_ERROR$/u,
    },
    {
      name: 'the server cancels the request',
      cut: (socket) => socket.write(reset(constants.NGHTTP2_CANCEL)),
      problem: /^GET \/api: the connection ended before the end of the answer$/u,
    },
  ]
  for (const { name, cut, problem } of ends) {
    // Node ends the iteration of most of these streams as if they were whole. A list cut between two objects would delete the others.
    it(`takes no part of a list for the whole: ${name}`, async () => {
      const raw = await startRawServer(certificate, (socket) => setImmediate(cut, socket))
      const answer = await client(raw.port).get(list)
      await assert.rejects(textOf(answer.chunks), { code: 'connection', message: problem })
      raw.close()
    })
  }

  it('sends a request again at once that the server has not begun', async () => {
    let count = 0
    serve = (stream) => {
      if (count++ === 0) return stream.close(constants.NGHTTP2_REFUSED_STREAM)
      stream.respond(json)
      stream.end('{}')
    }
    await textOf((await client().get(list)).chunks)
    assert.equal(asked.length, 2)
    serve = (stream) => stream.close(constants.NGHTTP2_REFUSED_STREAM)
    await assert.rejects(client().get(list), {
      code: 'connection',
      message: 'GET /api: the server takes no further request on this connection',
    })
    assert.equal(asked.length, 4)
  })

  it('refuses a token that no header may have', async () => {
    token = 'a\nb'
    await assert.rejects(client().get(list), {
      code: 'connection',
      message: 'GET /api: Invalid character in header content ["authorization"]',
    })
    assert.deepEqual(asked, [])
  })

  it('fails at once, again and again, where the server refuses the certificate of the client', async () => {
    const strict = createSecureServer({ ...certificate, requestCert: true, rejectUnauthorized: true })
    strict.on('sessionError', () => undefined).on('tlsClientError', () => undefined)
    await once(strict.listen(0, '127.0.0.1'), 'listening')
    const address = strict.address()
    assert.ok(typeof address === 'object' && address !== null)
    const api = client(address.port)
    for (let i = 0; i < 2; i++) await assert.rejects(api.get(list), ApiError)
    strict.close()
  })

  it('ends a quiet answer after a GOAWAY, because no PING can be sent on its connection', async () => {
    serve = (stream) => {
      stream.respond(json)
      if (sessions.length === 1 && asked.length === 1) stream.write('{')
      else stream.end('{}')
    }
    const api = client()
    const quiet = await api.get(list)
    quiet.expectSilence()
    const read = assert.rejects(textOf(quiet.chunks), /nothing came for 90 s/u)
    sessions[0]?.goaway()
    while (sessions.length < 2) await textOf((await api.get(list)).chunks)
    await clock.advance(90_000)
    await read
  })

  // A load balancer that ends HTTP/2 answers PINGs itself. Before, such a watch stayed open for ever.
  it('ends an answer that the server should have ended, after 30 s of silence', async () => {
    let stream: ServerHttp2Stream | undefined
    serve = (opened) => {
      opened.respond(json)
      stream = opened
    }
    const watch = await client().get({ ...list, isWatch: true, endsAfterMs: 300_000 })
    watch.expectSilence()
    const chunks: string[] = []
    let problem: unknown
    const read = (async () => {
      for await (const chunk of watch.chunks) chunks.push(chunk.toString())
    })().catch((error: unknown) => (problem = error))
    for (let pings = 1; pings <= 15; pings++) {
      await clock.advance(20_000)
      await until(() => alive === pings)
    }
    await clock.advance(10_000)
    stream?.write('late')
    await until(() => chunks.length === 1)
    watch.expectSilence()
    await clock.advance(10_000)
    await until(() => alive === 16)
    await clock.advance(19_999)
    assert.equal(problem, undefined)
    await clock.advance(1)
    await read
    assert.match(String(problem), /nothing came for 30 s/u)
  })

  it('keeps nothing of an answer that is left before its end is read', async () => {
    serve = (stream) => {
      stream.respond(json)
      stream.end(Buffer.alloc(1024 * 1024))
    }
    const api = client()
    for (let i = 0; i < 3; i++) {
      for await (const chunk of (await api.get(list)).chunks) {
        assert.ok(chunk.length > 0)
        break
      }
      await clock.advance(0)
    }
    await clock.advance(28_000)
    await until(() => open === 0)
  })

  it('closes a connection that no request uses', async () => {
    serve = (stream) => {
      stream.respond(json)
      stream.end('{}')
    }
    await textOf((await client().get(list)).chunks)
    assert.equal(open, 1)
    await clock.advance(20_000)
    await until(() => open === 0)
    assert.equal(clock.pending, 0)
  })

  it('tells each answer to a PING', async () => {
    serve = (stream) => stream.respond(json)
    await client().get({ ...list, isWatch: true })
    await clock.advance(20_000)
    await until(() => alive === 1)
  })

  it('ends requests and connections when it stops', async () => {
    serve = (stream) => stream.respond(json)
    const stopped = client()
    const { chunks } = await stopped.get(list)
    const reading = (async () => {
      for await (const chunk of chunks) assert.fail(chunk.toString())
    })()
    serve = () => undefined
    const waiting = stopped.get({ ...list, path: '/later' })
    await until(() => asked.length === 2)
    const failures = [
      assert.rejects(waiting, { code: 'connection', message: 'GET /later: the agent stops' }),
      assert.rejects(reading, { code: 'connection' }),
    ]
    end.abort()
    await clock.advance(0)
    await Promise.all(failures)
    await until(() => open === 0)
    await assert.rejects(stopped.get(list), { message: 'GET /api: the agent stops' })
    assert.equal(clock.pending, 0)
  })
})

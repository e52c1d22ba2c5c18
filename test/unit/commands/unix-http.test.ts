// The client of the control socket, at a server that sends one reply and closes.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { askingAt, readAt } from '../../../src/commands/client.js'
import { CommandError } from '../../../src/commands/command.js'
import { getOverSocket } from '../../../src/commands/unix-http.js'

const folder = mkdtempSync(join(tmpdir(), 'viaduct-unix-http-'))
after(() => rmSync(folder, { recursive: true }))

const silenceMs = 200

interface Exchange {
  readonly request: string
  readonly outcome: Awaited<ReturnType<typeof getOverSocket>> | Error
}

/** One request to a server that calls `reply` when it has the whole request. */
async function exchange(reply: (socket: Socket) => void): Promise<Exchange> {
  const path = join(folder, 'server.sock')
  let request = ''
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      request += chunk.toString()
      if (request.endsWith('\r\n\r\n')) reply(socket)
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(path, resolve)
  })
  const outcome = await getOverSocket(path, '/v1/status?x=1', silenceMs).catch((error: unknown) => {
    assert.ok(error instanceof Error)
    return error
  })
  await new Promise((resolve) => {
    server.close(resolve)
  })
  return { request, outcome }
}

const messageOf = (outcome: Exchange['outcome']): string =>
  outcome instanceof Error ? outcome.message : JSON.stringify(outcome)

describe('a reply over the Unix socket', () => {
  const whole = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nä123'
  const cases: readonly {
    readonly name: string
    readonly bytes: string
    readonly outcome: { status: number; body: string } | RegExp
  }[] = [
    { name: 'with its length', bytes: whole, outcome: { status: 200, body: 'ä123' } },
    {
      name: 'that ends with the connection',
      bytes: 'HTTP/1.0 404 Not Found\r\n\r\n{}',
      outcome: { status: 404, body: '{}' },
    },
    { name: 'without a reason phrase', bytes: 'HTTP/1.1 200\r\n\r\n', outcome: { status: 200, body: '' } },
    { name: 'that is incomplete', bytes: whole.slice(0, -1), outcome: /has 4 bytes, and its head says 5/ },
    { name: 'that is too long', bytes: `${whole}4`, outcome: /has 6 bytes, and its head says 5/ },
    { name: 'that ends within its head', bytes: 'HTTP/1.1 200 OK\r\nCont', outcome: /no HTTP/ },
    { name: 'of another protocol', bytes: 'SSH-2.0-OpenSSH_9.2\r\n\r\n', outcome: /no HTTP/ },
    { name: 'that is empty', bytes: '', outcome: /no reply/ },
  ]
  for (const { name, bytes, outcome } of cases) {
    test(name, async () => {
      const { outcome: actual } = await exchange((socket) => void socket.end(bytes))
      if (outcome instanceof RegExp) assert.match(messageOf(actual), outcome)
      else assert.deepEqual(actual, outcome)
    })
  }

  test('that does not come', async () => {
    const { outcome } = await exchange((socket) => void socket.on('close', () => undefined))
    assert.match(messageOf(outcome), /no answer within 0\.2 s/)
  })

  test('to a request of HTTP/1.0', async () => {
    const { request } = await exchange((socket) => void socket.end(whole))
    assert.equal(request, 'GET /v1/status?x=1 HTTP/1.0\r\nHost: agent\r\n\r\n')
  })
})

/** The pieces that a client gets of this reply, and the error that ends them. */
async function readReply(reply: readonly string[]): Promise<{ pieces: string; error: unknown }> {
  const path = join(folder, 'list.sock')
  const server = createServer((socket) => {
    socket.on('data', () => {
      for (const bytes of reply) socket.write(bytes)
      socket.end()
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(path, resolve)
  })
  let pieces = ''
  try {
    for await (const piece of readAt(path, { name: 'tables/services', parameters: {}, end: '\n\n' }))
      pieces += piece
    return { pieces, error: undefined }
  } catch (error) {
    return { pieces, error }
  } finally {
    server.close()
  }
}

const refusal = (status: number, body: string): readonly string[] => [`HTTP/1.1 ${status} No\r\n\r\n`, body]

describe('a list that is read while it arrives', () => {
  const head = 'HTTP/1.1 200 OK\r\n\r\n'
  const cases: readonly {
    readonly name: string
    readonly reply: readonly string[]
    readonly pieces?: string
    readonly error?: readonly [exitCode: number, sentence: RegExp]
  }[] = [
    { name: 'is whole', reply: [head, 'A\tB\n1\t', '2\n', '\n'], pieces: 'A\tB\n1\t2\n\n' },
    { name: 'has characters of several bytes', reply: [`${head}\u00E4\n\n`], pieces: '\u00E4\n\n' },
    {
      name: 'ends early, after a row',
      reply: [head, 'A\n1\n'],
      pieces: 'A\n1\n',
      error: [3, /is incomplete: run/u],
    },
    {
      name: 'ends early, within a row',
      reply: [head, 'A\n1'],
      pieces: 'A\n1',
      error: [3, /is incomplete: run/u],
    },
    { name: 'ends before its first row', reply: [head], error: [3, /is incomplete: run/u] },
    {
      name: 'is refused',
      reply: refusal(404, '{"error":"no Service a/b"}'),
      error: [1, /^no Service a\/b$/u],
    },
    { name: 'has wrong parameters', reply: refusal(400, '{"error":"wrong"}'), error: [2, /^wrong$/u] },
    {
      name: 'is of another version',
      reply: refusal(404, '404 page not found\n'),
      error: [3, /does not know \/v1\/tables\/services:/u],
    },
    { name: 'has no reply', reply: [], error: [3, /closed the connection/u] },
  ]
  for (const { name, reply, pieces = '', error } of cases)
    test(name, async () => {
      const actual = await readReply(reply)
      assert.equal(actual.pieces, pieces)
      if (error === undefined) return assert.equal(actual.error, undefined)
      assert.ok(actual.error instanceof CommandError)
      assert.equal(actual.error.exitCode, error[0])
      assert.match(actual.error.message, error[1])
    })
})

test('a list that ends early is a CommandError, not a SyntaxError', async () => {
  const path = join(folder, 'cut.sock')
  const server = createServer((socket) => {
    socket.on('data', () => void socket.end('HTTP/1.1 200 OK\r\n\r\n{"items":[{"service":"a'))
  })
  await new Promise<void>((resolve) => {
    server.listen(path, resolve)
  })
  await assert.rejects(
    askingAt(path)('services'),
    (error) =>
      error instanceof CommandError && error.exitCode === 3 && /is incomplete: run/u.test(error.message),
  )
  server.close()
})

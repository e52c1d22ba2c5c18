// The client of the control socket, at a server that sends one reply and closes.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { AgentClient, askingAt, getOverSocket } from '../../../src/commands/client.js'
import { CommandError } from '../../../src/commands/command.js'

const folder = mkdtempSync(join(tmpdir(), 'viaduct-unix-http-'))
after(() => rmSync(folder, { recursive: true }))

const silenceMs = 200

interface Exchange {
  readonly request: string
  readonly outcome: { readonly status: number; readonly body: string } | Error
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
  const outcome = await getOverSocket(path, '/v1/status?x=1', silenceMs).then(
    ({ status, body }) => ({ status, body: body.toString() }),
    (error: unknown) => {
      assert.ok(error instanceof Error)
      return error
    },
  )
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
    assert.match(messageOf(outcome), /no byte within 0\.2 s/)
  })

  test('to a request of HTTP/1.0', async () => {
    const { request } = await exchange((socket) => void socket.end(whole))
    assert.equal(request, 'GET /v1/status?x=1 HTTP/1.0\r\nHost: agent\r\n\r\n')
  })
})

/** The text that a client gets of this reply, or the error. */
async function readReply(reply: readonly string[]): Promise<string | CommandError> {
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
  try {
    return (await new AgentClient(path).readTable('services')).toString()
  } catch (error) {
    assert.ok(error instanceof CommandError)
    return error
  } finally {
    server.close()
  }
}

const refusal = (status: number, body: string): readonly string[] => [`HTTP/1.1 ${status} No\r\n\r\n`, body]

describe('the bytes of a list', () => {
  const head = 'HTTP/1.1 200 OK\r\n\r\n'
  const cases: readonly {
    readonly name: string
    readonly reply: readonly string[]
    readonly outcome: string | readonly [exitCode: number, sentence: RegExp]
  }[] = [
    { name: 'that is whole', reply: [head, 'A   B\n1', '   2\n', '\0'], outcome: 'A   B\n1   2\n' },
    { name: 'that has no row', reply: [head, '\0'], outcome: '' },
    { name: 'with characters of several bytes', reply: [`${head}\u00E4\n\0`], outcome: '\u00E4\n' },
    { name: 'that ends early, after a row', reply: [head, 'A\n1\n'], outcome: [3, /is incomplete: run/u] },
    { name: 'that ends early, within a row', reply: [head, 'A\n1'], outcome: [3, /is incomplete: run/u] },
    { name: 'that ends before its first row', reply: [head], outcome: [3, /is incomplete: run/u] },
    {
      name: 'that is refused',
      reply: refusal(404, '{"error":"no Service a/b"}'),
      outcome: [1, /^no Service a\/b$/u],
    },
    {
      name: 'with wrong parameters',
      reply: refusal(400, '{"error":"wrong"}'),
      outcome: [2, /^wrong$/u],
    },
    {
      name: 'of another version',
      reply: refusal(404, '404 page not found\n'),
      outcome: [
        3,
        /^the agent is of another version, this command is .*: restart the agent; it does not know \/v1\/tables\/services$/u,
      ],
    },
    { name: 'without a reply', reply: [], outcome: [3, /closed the connection/u] },
  ]
  for (const { name, reply, outcome } of cases)
    test(name, async () => {
      const actual = await readReply(reply)
      if (typeof outcome === 'string') return assert.equal(actual, outcome)
      assert.ok(actual instanceof CommandError)
      assert.equal(actual.exitCode, outcome[0])
      assert.match(actual.message, outcome[1])
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

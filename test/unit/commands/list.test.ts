// The commands of long lists, at a server that sends one reply.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { controlApi, controlHeaders } from '../../../src/control-socket.js'
import { runCommand } from '../../../src/commands/index.js'

const folder = mkdtempSync(join(tmpdir(), 'viaduct-list-'))
after(() => rmSync(folder, { recursive: true }))

interface Outcome {
  readonly target: string
  readonly code: number
  readonly out: string
  readonly err: string
}

async function run(words: readonly string[], body: string): Promise<Outcome> {
  const path = join(folder, 'agent.sock')
  let target = ''
  const server = createServer((socket) => {
    socket.on('data', (data) => {
      target = data.toString().split(' ')[1] ?? ''
      socket.end(`HTTP/1.1 200 OK\r\n${controlHeaders.api}: ${controlApi}\r\n\r\n${body}`)
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(path, resolve)
  })
  const [out, err]: [string[], string[]] = [[], []]
  const io = {
    out: (text: string | Buffer) => void out.push(String(text)),
    err: (text: string) => void err.push(text),
  }
  const code = await runCommand([...words, `--socket=${path}`], io)
  server.close()
  return { target, code, out: out.join(''), err: err.join('') }
}

describe('a long list', () => {
  const json = '{"items":[\n{"service":"default/web"}\n]}\n'
  const cases: readonly (readonly [words: string, body: string, outcome: Omit<Outcome, 'err'>])[] = [
    [
      'services',
      'A      B\nlong   -\n\0',
      { target: '/v1/tables/services', code: 0, out: 'A      B\nlong   -\n' },
    ],
    [
      'endpoints default/web',
      'A\n1\n\0',
      { target: '/v1/tables/endpoints?service=default%2Fweb', code: 0, out: 'A\n1\n' },
    ],
    [
      'endpoints default/none',
      '\0',
      { target: '/v1/tables/endpoints?service=default%2Fnone', code: 0, out: '' },
    ],
    ['routes -o json', json, { target: '/v1/routes', code: 0, out: json }],
    ['routes -o yaml', json, { target: '/v1/routes', code: 0, out: 'items:\n  - service: default/web\n' }],
    // It printed the rows that had come, before the error.
    ['services', 'A   B\n1   2\n', { target: '/v1/tables/services', code: 3, out: '' }],
    ['services -o json', '{"items":[\n{}', { target: '/v1/services', code: 3, out: '' }],
  ]
  for (const [words, body, expected] of cases)
    it(`of ${words} with ${JSON.stringify(body)} ends with ${expected.code}`, async () => {
      const { err, ...outcome } = await run(words.split(' '), body)
      assert.deepEqual(outcome, expected)
      assert.match(err, expected.code === 0 ? /^$/u : /is incomplete: run the command again\n$/u)
    })
})

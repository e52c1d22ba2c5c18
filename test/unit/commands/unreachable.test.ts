// Sentences of commands that reach no agent, and of wrong words.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { runCommand } from '../../../src/commands/index.js'

const folder = mkdtempSync(join(tmpdir(), 'viaduct-unreachable-'))
after(() => rmSync(folder, { recursive: true }))

async function run(...words: readonly string[]): Promise<readonly [code: number, err: string]> {
  let err = ''
  const code = await runCommand(words, { out: () => undefined, err: (text) => void (err += text) })
  return [code, err]
}

describe('a command that reaches no agent', () => {
  const long = `${folder}/${'a'.repeat(120)}`
  const cases: readonly (readonly [socket: string, code: number, sentence: RegExp])[] = [
    [join(folder, 'absent'), 3, /^viaduct: no agent listens on \S+absent: /],
    // Linux answers ECONNREFUSED for all three. "the agent of FOLDER has ended" was the sentence.
    [folder, 3, /^viaduct: \S+ is no socket: name the agent's with --socket$/m],
    ['/etc/hostname', 3, /^viaduct: \/etc\/hostname is no socket: name/],
    // It said that a port should be >= 0.
    ['', 2, /^viaduct: --socket: the path of a socket has 1 to 107 bytes, and this one 0$/m],
    [long, 2, new RegExp(`has 1 to 107 bytes, and this one ${long.length}$`, 'm')],
  ]
  for (const [socket, code, sentence] of cases)
    it(`at ${JSON.stringify(socket.slice(-20))} ends with ${code}`, async () => {
      const [actual, err] = await run('status', `--socket=${socket}`)
      assert.match(err, sentence)
      assert.equal(actual, code)
    })

  it('does not ask another agent, whose path is the beginning of a long one', async () => {
    // Node cuts a path after 108 bytes.
    const path = `${folder}/`.padEnd(108, 'b')
    let connections = 0
    const server = createServer((socket) => {
      connections++
      socket.destroy()
    })
    await new Promise<void>((resolve) => {
      server.listen(path, resolve)
    })
    const [code] = await run('status', `--socket=${path}bbb`)
    server.close()
    assert.deepEqual({ code, connections }, { code: 2, connections: 0 })
  })
})

describe('help', () => {
  it('of a word that is no command names the word', async () => {
    // It printed "(outputHelp)".
    assert.deepEqual(await run('help', 'nope'), [2, "viaduct: unknown command 'nope' (see viaduct help)\n"])
  })

  it('alone, and of a command, succeeds', async () => {
    assert.deepEqual(await run('help'), [0, ''])
    assert.deepEqual(await run('help', 'status'), [0, ''])
  })
})

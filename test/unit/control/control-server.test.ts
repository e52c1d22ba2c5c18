// The file of the control socket: its mode, other programs that remove or replace it, and the end of the server.
import assert from 'node:assert/strict'
import { existsSync, lstatSync, mkdtempSync, readdirSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ControlServer } from '../../../src/control/index.js'
import type { LogFields } from '../../../src/log.js'
import { settledSockets } from '../../support/http.js'
import { ManualClock } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

/** A log whose reader can wait for a line. */
class WaitedLog extends MemoryLog {
  #wake: () => void = () => {}

  override debug(message: string, fields: LogFields = {}): void {
    super.debug(message, fields)
    this.#wake()
  }

  override warn(message: string, fields: LogFields = {}): void {
    super.warn(message, fields)
    this.#wake()
  }

  /** Resolves when `count` lines contain the text. */
  async has(text: string, count: number): Promise<void> {
    const found = (): number => this.lines.filter(({ message }) => message.includes(text)).length
    while (found() < count)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
  }
}

describe('the control socket', () => {
  let folder: string
  let path: string
  let clock: ManualClock
  let log: WaitedLog
  let server: ControlServer

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-control-'))
    path = join(folder, 'viaduct.sock')
    clock = new ManualClock()
    log = new WaitedLog()
    server = open('first')
    await server.start()
  })

  afterEach(async () => {
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  function open(name: string): ControlServer {
    return new ControlServer({
      build: { version: '1.2.3', commit: 'unknown' },
      path,
      pages: new Map([['/name', () => ({ status: 200, contentType: 'text/plain', body: name })]]),
      kernel: { peerCredentials: () => ({ pid: 1, uid: 0 }) },
      ownUid: 0,
      clock,
      log,
    })
  }

  async function ask(): Promise<string> {
    return await new Promise((resolve, reject) => {
      request({ socketPath: path, path: '/name', agent: false }, (response) => {
        response.once('data', (data: Buffer) => resolve(data.toString()))
      })
        .on('error', reject)
        .end()
    })
  }

  it('has mode 0600 under its name, and leaves no other file in the folder', () => {
    assert.equal(lstatSync(path).mode & 0o777, 0o600)
    assert.deepEqual(readdirSync(folder), ['viaduct.sock'])
  })

  it('replies to commands that are started at the same time as fast as it can', async () => {
    let replies = 0
    const asked = Array.from({ length: 14 }, async () => await ask().then(() => replies++))
    await Promise.race(asked)
    await settledSockets()
    await clock.advance(10)
    await settledSockets()
    assert.equal(replies, asked.length)
  })

  it('is removed at the end', async () => {
    await server.stop()
    assert.deepEqual(readdirSync(folder), [])
  })

  it('is made again after another program removes it', async () => {
    unlinkSync(path)
    await clock.advance(5000)
    await log.has('Control socket listens', 2)
    assert.equal(await ask(), 'first')
    await clock.advance(60_000)
    assert.equal(log.find('warn', 'Control socket was removed or replaced').length, 1)
  })

  it('stays with another agent that replaced it, also at the end', async () => {
    unlinkSync(path)
    const second = open('second')
    await second.start()
    await server.stop()
    assert.equal(await ask(), 'second')
    await second.stop()
    assert.ok(!existsSync(path))
  })

  it('waits while another agent answers there, and tells so', async () => {
    unlinkSync(path)
    const second = open('second')
    await second.start()
    await clock.advance(5000)
    await log.has('another process listens there', 1)
    assert.equal(await ask(), 'second')
    await second.stop()
    await clock.advance(5000)
    await log.has('Control socket listens', 3)
    assert.equal(await ask(), 'first')
  })

  it('is not available under a path that no client can use', async () => {
    // It listened under that name, and each client said that no agent does.
    await server.stop()
    path = join(folder, 'a'.repeat(120))
    server = open('long')
    await server.start()
    assert.equal(
      log.find('warn', `the path has ${path.length} bytes, and that of a socket at most 107`).length,
      1,
    )
    assert.deepEqual(readdirSync(folder), [])
  })

  it('leaves a file of another kind alone', async () => {
    unlinkSync(path)
    writeFileSync(path, 'text')
    await clock.advance(5000)
    await log.has('the file exists and is no socket', 1)
    await server.stop()
    assert.ok(lstatSync(path).isFile())
  })
})

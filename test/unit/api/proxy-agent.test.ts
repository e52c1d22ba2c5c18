import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { systemClock } from '../../../src/clock.js'
import { proxyAgent } from '../../../src/api/proxy/proxy-agent.js'

const rows = [
  { scheme: 'http', closedAfterMs: 9000 },
  { scheme: 'socks5', closedAfterMs: 30_000 },
] as const

function isAddress(address: AddressInfo | string | null): address is AddressInfo {
  return typeof address === 'object' && address !== null
}

describe('a proxy that accepts the connection and does not answer', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }))
  afterEach(() => mock.timers.reset())

  for (const { scheme, closedAfterMs } of rows)
    it(`is reported after 9 s, without its credentials, and no connection stays open: ${scheme}`, async () => {
      const proxy = createServer()
      await once(proxy.listen(0, '127.0.0.1'), 'listening')
      const address = proxy.address()
      assert.ok(isAddress(address))
      const place = `127.0.0.1:${address.port}`
      const agent = proxyAgent(new URL(`${scheme}://me:secret@${place}`), systemClock)
      const failed = once(request({ host: '192.0.2.1', port: 6443, agent }).end(), 'error')
      const socket = await new Promise<Socket>((resolve) => proxy.once('connection', resolve))
      const closed = once(socket, 'close')
      await once(socket, 'data')
      mock.timers.tick(9000)
      const [error]: unknown[] = await failed
      assert.equal(String(error), `Error: the proxy ${place} does not answer`)
      mock.timers.tick(closedAfterMs - 9000)
      await closed
      proxy.close()
    })
})

// One request to an API server, for commands.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { askOnce } from '../../../src/api/index.js'
import { masterOptions } from '../../../src/api/client-options.js'
import { ApiError } from '../../../src/api/api-error.js'
import { ManualClock } from '../../support/manual-clock.js'

test('an API server that does not answer is named with the time', async () => {
  const clock = new ManualClock()
  const asked: string[] = []
  const server = createServer(({ url }) => {
    asked.push(url ?? '')
    // The clock moves when the server has the request.
    void clock.advance(10_000)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server has an address with a port
  const { port } = server.address() as AddressInfo
  const options = masterOptions(`http://127.0.0.1:${port}`)
  await assert.rejects(
    askOnce(options, { method: 'GET', path: '/version' }, clock),
    (error) => error instanceof ApiError && error.message.includes('GET /version: no answer within 10 s'),
  )
  assert.deepEqual(asked, ['/version'])
  assert.equal(clock.pending, 0)
  server.close()
  server.closeAllConnections()
})

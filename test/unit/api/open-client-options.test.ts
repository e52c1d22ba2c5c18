import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openClientOptions } from '../../../src/api/open-client-options.js'
import { resolveConfig } from '../../../src/config/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

describe('openClientOptions', () => {
  for (const { environment, expected } of [
    { environment: {}, expected: true },
    { environment: { DISABLE_HTTP2: '' }, expected: true },
    { environment: { DISABLE_HTTP2: '0' }, expected: false },
  ])
    it(`${expected ? 'permits' : 'forbids'} HTTP/2 with ${JSON.stringify(environment)}, as client-go`, async () => {
      const { client } = resolveConfig({ client: { master: 'https://192.0.2.1:6443' } })
      const dependencies = {
        environment,
        clock: new ManualClock(),
        log: new MemoryLog(),
        metrics: { apiRequest: () => undefined },
      }
      assert.equal((await openClientOptions(client, dependencies)).mayUseHttp2, expected)
    })
})

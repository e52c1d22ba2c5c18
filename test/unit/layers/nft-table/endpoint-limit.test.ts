import assert from 'node:assert/strict'
import { it } from 'node:test'
import { openWarnings } from '../../../../src/layers/shared/index.js'
import { maxEndpoints } from '../../../../src/layers/nft-table/testing.js'
import { EndpointLimit } from '../../../../src/layers/nft-table/endpoint-limit.js'
import { servicePortKey } from '../../../../src/model/testing.js'
import type { Backend } from '../../../../src/routing/index.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'
import { ip } from '../../../support/routes.js'

it('a service port with too many endpoints is reported once, and its recovery; a deleted one ends in silence', () => {
  const log = new MemoryLog()
  const limit = new EndpointLimit('ipv4', openWarnings({ log, events: { record: () => {} } }))
  const key = servicePortKey('shop/web', 'http/TCP')
  const backend: Backend = { address: ip('10.1.0.1'), port: 80 }
  const decided = (count: number) => ({
    clusterBackends: Array.from({ length: count }, () => backend),
    localBackends: [],
  })
  limit.note(key, decided(maxEndpoints))
  assert.equal(log.lines.length, 0)
  limit.note(key, decided(maxEndpoints + 1))
  limit.note(key, decided(maxEndpoints + 1))
  limit.note(key, decided(1))
  limit.note(key, decided(maxEndpoints + 2))
  limit.note(key, undefined)
  limit.note(key, decided(1))
  const text = 'Service port shop/web:http/TCP: it has 4097 endpoints, and Viaduct uses the first 4096'
  assert.deepEqual(
    log.lines.map(({ level, message }) => `${level} ${message}`),
    [
      `warn Service is not programmed as specified: ${text}`,
      'info Service is programmed as specified now',
      `warn Service is not programmed as specified: ${text.replace('4097', '4098')}`,
    ],
  )
})

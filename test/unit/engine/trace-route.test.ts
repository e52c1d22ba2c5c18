import assert from 'node:assert/strict'
import { it } from 'node:test'
import { openLog } from '../../../src/log.js'
import { traceRoute } from '../../../src/engine/claim-dirty.js'
import { plainRoute } from '../../support/routes.js'

it('a changed service port gets a log line at -v=4 and none below', () => {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line.trim()) }
  const log = openLog({ format: 'json', verbosity: 3, destination, clock: { unixMs: () => 0 } })
  const web = plainRoute()
  traceRoute(log, 'ipv4', web.key, web)
  assert.deepEqual(lines, [])
  log.setVerbosity(4)
  traceRoute(log, 'ipv4', web.key, web)
  traceRoute(log, 'ipv6', web.key, undefined)
  const shape = { level: 'trace', ts: 0, service: web.key }
  assert.deepEqual(
    lines.map((line): unknown => JSON.parse(line)),
    [
      {
        ...shape,
        ipFamily: 'IPv4',
        clusterEndpoints: web.clusterBackends.length,
        localEndpoints: web.localBackends.length,
        refused: !web.hasEndpoints,
        msg: 'Service port compiled',
      },
      { ...shape, ipFamily: 'IPv6', msg: 'Service port is gone' },
    ],
  )
})

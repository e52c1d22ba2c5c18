// The log about Services without a cluster IP: a line that is no problem while they are served, a problem when nothing is.
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Service } from '../../../src/source/index.js'
import { IntakeLab } from '../../support/intake-lab.js'
import { port, remove, service, set } from '../../support/objects.js'

const ports = [port(80, { nodePort: 30080 })]
const bare = (rest: Partial<Service> = {}): Service => service('web', '', { clusterIPs: [], ports, ...rest })

it('a Service without a cluster IP is logged at each change, and counts as failed only while it has no frontend', () => {
  const lab = new IntakeLab().open()
  const { log, problemCounts: counts } = lab
  const linesAfter = (own: Service): readonly string[] => {
    log.lines.length = 0
    lab.deliver(set(own))
    return log.lines.map(({ level, message }) => `${level} ${message}`)
  }
  const atNodePort = 'info Service has no cluster IP: default/web is served at node port 30080 only'
  assert.deepEqual(linesAfter(bare()), [atNodePort])
  assert.deepEqual(log.lines[0]?.fields, { service: 'default/web', ipFamily: 'IPv4' })
  assert.deepEqual(linesAfter(bare({ internalTrafficPolicy: 'Local' })), [])
  assert.deepEqual(linesAfter(bare({ externalIPs: ['192.0.2.1'] })), [
    'info Service has no cluster IP: default/web is served at external IP 192.0.2.1, node port 30080 only',
  ])
  assert.deepEqual(linesAfter(service('web', '10.96.0.1')), ['info Service has a cluster IP now'])
  assert.deepEqual(linesAfter(bare()), [atNodePort])
  assert.deepEqual(counts, [])
  const [failed, ...more] = linesAfter(bare({ ports: [port(80)] }))
  assert.match(
    failed ?? '',
    /^error Network programming failed: Service default\/web: spec\.clusterIP is missing/u,
  )
  assert.deepEqual([more, counts], [[], [1]])
  assert.deepEqual(linesAfter(bare()), [atNodePort, 'info Network programming recovered'])
  assert.deepEqual(counts, [1, 0])
  lab.deliver(remove('Service', 'web'))
  assert.deepEqual(linesAfter(bare()), [atNodePort])
})

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { compileRoute } from '../../../../src/layers/relay/index.js'
import { describeDesired } from '../../../../src/modes/userspace/testing.js'
import { backends, cidr, ip, plainRoute } from '../../../support/routes.js'

const settings = { nodePortAddresses: [ip('192.0.2.1')], servesAllAddresses: false, nodeIP: ip('192.0.2.1') }

it('userspace mode describes the routes, listeners and endpoints of a service port', () => {
  const route = plainRoute({
    isExternallyAccessible: true,
    isExternalLocal: true,
    nodePort: 30080,
    loadBalancerIPs: [ip('203.0.113.1')],
    sourceRanges: [cidr('10.0.0.0/8')],
    affinitySeconds: 60,
    clusterBackends: backends(8080, '10.1.0.1', '10.2.0.1'),
    localBackends: backends(8080, '10.1.0.1'),
  })
  assert.deepEqual(describeDesired(route, compileRoute(route, settings), settings), [
    'local 10.96.0.1 dev lo proto 173 scope host src 192.0.2.1 metric 1447641412',
    'local 203.0.113.1 dev lo proto 173 scope host src 192.0.2.1 metric 1447641412',
    'listen tcp 10.96.0.1:80 near cluster far cluster',
    'listen tcp 203.0.113.1:80 near cluster far local sources 10.0.0.0/8',
    'listen tcp 192.0.2.1:30080 near cluster far local',
    'affinity 60s',
    'cluster 10.1.0.1:8080',
    'cluster 10.2.0.1:8080',
    'local 10.1.0.1:8080',
  ])
})

it('userspace mode describes the endpoints that only keep UDP flows', () => {
  const [ready, leaving] = [backends(53, '10.1.0.1'), backends(53, '10.1.0.2')]
  const flowBackends = [...ready, ...leaving]
  const route = plainRoute({ protocol: 'UDP', clusterBackends: ready, flowBackends })
  assert.deepEqual(describeDesired(route, compileRoute(route, settings), settings).slice(-2), [
    'cluster 10.1.0.1:53',
    'flows 10.1.0.2:53',
  ])
})

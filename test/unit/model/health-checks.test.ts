// F-093: the number of local endpoints that a health check reports.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { trackFamily, type TrackedFamily } from '../../support/tracked-family.js'
import type { SliceEndpoint } from '../../../src/source/index.js'
import { endpoint, port, remove, service, set, slice } from '../../support/objects.js'

const balanced = {
  type: 'LoadBalancer',
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: 30100,
  ports: [port(80, { name: 'http' }), port(443, { name: 'https' })],
} as const
const both = {
  ports: [
    { name: 'http', protocol: 'TCP' as const, port: 8080 },
    { name: 'https', protocol: 'TCP' as const, port: 8443 },
  ],
}

function trackerWith(...endpoints: readonly SliceEndpoint[]): TrackedFamily {
  const tracker = trackFamily('ipv4')
  tracker.apply(set(service('web', '10.0.0.1', balanced)))
  tracker.apply(set(slice('s', 'web', endpoints, both)))
  return tracker
}

describe('local endpoints of a health check', () => {
  const here = { nodeName: 'here' }
  const cases: readonly (readonly [string, readonly SliceEndpoint[], number])[] = [
    ['are 0 without endpoints', [], 0],
    ['count each address once over all ports', [endpoint('10.1.0.1', here), endpoint('10.1.0.2', here)], 2],
    [
      'endpoints on another node or on no node do not count',
      [endpoint('10.1.0.1', { nodeName: 'there' }), endpoint('10.1.0.2')],
      0,
    ],
    ['endpoints that are not ready do not count', [endpoint('10.1.0.1', { ...here, ready: false })], 0],
    [
      'terminating endpoints do not count',
      [endpoint('10.1.0.1', { ...here, ready: false, terminating: true })],
      0,
    ],
  ]
  for (const [name, endpoints, localEndpoints] of cases) {
    it(name, () => {
      assert.deepEqual(
        trackerWith(...endpoints).healthChecks('here'),
        new Map([['default/web', { namespace: 'default', name: 'web', port: 30100, localEndpoints }]]),
      )
    })
  }

  it('count for ports that only the slice has', () => {
    const tracker = trackerWith()
    const ports = [{ name: 'other', protocol: 'TCP' as const, port: 1 }]
    tracker.apply(set(slice('t', 'web', [endpoint('10.1.0.9', here)], { ports })))
    assert.equal(tracker.healthChecks('here').get('default/web')?.localEndpoints, 1)
  })

  it('are the same map until a check changes', () => {
    const tracker = trackerWith(endpoint('10.1.0.1', here))
    const first = tracker.healthChecks('here')
    tracker.apply(set(service('plain', '10.0.0.2')))
    tracker.apply(set(slice('p', 'plain', ['10.1.0.7'])))
    assert.equal(tracker.healthChecks('here'), first)
    tracker.apply(remove('EndpointSlice', 's'))
    assert.equal(tracker.healthChecks('here').get('default/web')?.localEndpoints, 0)
    assert.equal(first.get('default/web')?.localEndpoints, 1)
    tracker.apply(set(service('web', '10.0.0.1', { ...balanced, healthCheckNodePort: 30101 })))
    assert.equal(tracker.healthChecks('here').get('default/web')?.port, 30101)
    tracker.apply(remove('Service', 'web'))
    assert.equal(tracker.healthChecks('here').size, 0)
  })
})

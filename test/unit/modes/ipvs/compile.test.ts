import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig } from '../../../src/config/index.js'
import { compileRoute } from '../../../src/modes/ipvs/index.js'
import { backends, ip, plainRoute } from '../../support/routes.js'

/** As the configuration resolves the name. */
function scheduled(scheduler: string) {
  return { ...resolveConfig({ manifests: 'none', ipvs: { scheduler } }).ipvs, missing: new Set<string>() }
}

describe('a route as a virtual server', () => {
  const none = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
  const cases = [
    { name: 'plain', route: {}, scheduler: 'rr', settings: none },
    {
      name: 'IPv6 masks 128 bits',
      route: { clusterIP: ip('fd00::1') },
      scheduler: 'rr',
      settings: { ...none, netmaskLength: 128 },
    },
    {
      name: 'affinity is persistence',
      route: { affinitySeconds: 600 },
      scheduler: 'rr',
      settings: { ...none, flags: 0x1, timeoutSeconds: 600 },
    },
    {
      name: 'mh hashes the port',
      route: {},
      scheduler: 'mh',
      settings: { ...none, scheduler: 'mh', flags: 0x10 },
    },
    {
      name: 'mh with affinity',
      route: { affinitySeconds: 1 },
      scheduler: 'mh',
      settings: { scheduler: 'mh', flags: 0x11, timeoutSeconds: 1, netmaskLength: 32 },
    },
    { name: 'sh has no flags', route: {}, scheduler: 'sh', settings: { ...none, scheduler: 'sh' } },
  ] as const
  for (const { name, route, scheduler, settings } of cases) {
    it(name, () => {
      const [server, ...others] = compileRoute(plainRoute(route), scheduled(scheduler))
      assert.deepEqual(server?.settings, settings)
      assert.deepEqual(others, [])
    })
  }

  it('protocols, port and real servers as they are', () => {
    for (const [protocol, expected] of [
      ['TCP', 'tcp'],
      ['UDP', 'udp'],
      ['SCTP', 'sctp'],
    ] as const) {
      const clusterBackends = backends(8080, '10.1.0.1')
      const [server] = compileRoute(plainRoute({ protocol, clusterBackends }), scheduled('rr'))
      assert.deepEqual(server?.key, { family: 'ipv4', protocol: expected, address: '10.96.0.1', port: 80 })
      const settings = { weight: 1, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 }
      assert.deepEqual(server?.realServers, [{ key: clusterBackends[0], settings }])
      assert.equal(server?.bindAddress, true)
    }
  })

  const clusterBackends = backends(80, '10.1.0.1', '10.1.0.2')
  const localBackends = backends(80, '10.1.0.1')
  const choices = [
    { name: 'Cluster', route: { clusterBackends }, expected: clusterBackends },
    { name: 'Local', route: { isInternalLocal: true, localBackends }, expected: localBackends },
    { name: 'Local without any here', route: { isInternalLocal: true, hasEndpoints: true }, expected: [] },
    {
      name: 'Local without any here, but the cluster has some for outside traffic',
      route: { isInternalLocal: true, clusterBackends },
      expected: clusterBackends,
    },
    {
      name: 'Local for outside traffic only',
      route: { isExternalLocal: true, clusterBackends, localBackends },
      expected: clusterBackends,
    },
  ]
  for (const { name, route, expected } of choices) {
    it(`real servers of policy ${name}`, () => {
      const [server] = compileRoute(plainRoute(route), scheduled('rr'))
      assert.deepEqual(
        server?.realServers.map(({ key }) => key),
        expected,
      )
    })
  }
})

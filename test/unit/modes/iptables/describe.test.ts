import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { compileRoute, describeDesired } from '../../../../src/modes/iptables/testing.js'
import { makeSettings } from '../../../support/packet-model-settings.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

const settings = makeSettings('ipv4', { withComments: true })

describe('the description of a route in iptables mode', () => {
  it('has the chains and rules of a served Service, in the tables that they are in', () => {
    const route = plainRoute({
      portName: 'http',
      nodePort: 30080,
      isExternallyAccessible: true,
      healthCheckNodePort: 30100,
      clusterBackends: backends(8080, '10.1.0.1', '10.1.0.2'),
    })
    assert.deepEqual(describeDesired(compileRoute(route, settings), 'ipv4'), [
      '*nat',
      ':KUBE-EXT-CDGGSHYLG3RE2FKL - [0:0]',
      ':KUBE-SVC-CDGGSHYLG3RE2FKL - [0:0]',
      '-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -m comment --comment "default/web:http cluster IP" -j KUBE-SVC-CDGGSHYLG3RE2FKL',
      '-A KUBE-NODEPORTS -p tcp -m tcp --dport 30080 -m comment --comment "default/web:http" -j KUBE-EXT-CDGGSHYLG3RE2FKL',
      '-A KUBE-EXT-CDGGSHYLG3RE2FKL -m comment --comment "masquerade traffic for default/web:http external destinations" -j KUBE-MARK-MASQ',
      '-A KUBE-EXT-CDGGSHYLG3RE2FKL -j KUBE-SVC-CDGGSHYLG3RE2FKL',
      '-A KUBE-SVC-CDGGSHYLG3RE2FKL -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination 10.1.0.1:8080',
      '-A KUBE-SVC-CDGGSHYLG3RE2FKL -p tcp -j DNAT --to-destination 10.1.0.2:8080',
      '*filter',
      '-A KUBE-NODEPORTS -p tcp -m comment --comment "default/web health check node port" -m tcp --dport 30100 -j ACCEPT',
    ])
  })

  it('has the refusals of a Service without endpoints', () => {
    const route = plainRoute({
      clusterIP: ip('fd00::1'),
      externalIPs: [ip('fd00::2')],
      isExternallyAccessible: true,
    })
    assert.deepEqual(describeDesired(compileRoute(route, makeSettings('ipv6')), 'ipv6'), [
      '*filter',
      '-A KUBE-SERVICES -d fd00::1/128 -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp6-port-unreachable',
      '-A KUBE-EXTERNAL-SERVICES -d fd00::2/128 -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp6-port-unreachable',
    ])
  })

  it('is empty for a route without rules', () => {
    assert.deepEqual(describeDesired({ chains: [], frontends: [] }, 'ipv4'), [])
  })

  it('ends after 1000 lines, with a note', () => {
    const addresses = Array.from({ length: 2000 }, (_, i) => `10.1.${i >> 8}.${i & 255}`)
    const route = plainRoute({ clusterBackends: backends(80, ...addresses) })
    const lines = describeDesired(compileRoute(route, settings), 'ipv4')
    assert.equal(lines.length, 1001)
    assert.match(lines.at(-1) ?? '', /^# more than 1000 lines/u)
  })
})

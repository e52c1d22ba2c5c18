import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { resolveConfig } from '../../../../src/config/index.js'
import { tableSettings } from '../../../../src/modes/iptables/node-settings.js'
import { type NodeFacts } from '../../../../src/node/index.js'
import { OtherNodes } from '../../../../src/node/testing.js'
import { cidr, ip } from '../../../support/routes.js'

const node: NodeFacts = {
  name: 'node-a',
  zone: undefined,
  addresses: { ipv4: ip('192.0.2.7'), ipv6: ip('2001:db8::7') },
  podCIDRs: [cidr('10.244.1.0/24')],
  places: { apiServer: [], agent: [] },
  otherNodes: new OtherNodes(),
}
const loopback = ['127.0.0.0/8', '::1/128']

describe('the settings of the table in iptables mode of the flavour nft', () => {
  const config = resolveConfig({
    manifests: 'none',
    nodePortAddresses: ['192.0.2.0/24', '2001:db8::/64', ...loopback],
    detectLocalMode: 'NodeCIDR',
    iptables: { masqueradeBit: 15, masqueradeAll: true },
  })

  it('come from the section of iptables mode, with node ports on loopback addresses of IPv4', () => {
    const machine = [ip('127.0.0.1'), ip('192.0.2.7'), ip('198.51.100.7')]
    assert.deepEqual(tableSettings('ipv4', config, { node, machine }), {
      family: 'ipv4',
      semantics: 'iptables',
      masqueradeMark: 0x8000,
      masqueradeAll: true,
      localDetector: { kind: 'cidr', cidr: cidr('10.244.1.0/24') },
      nodePortAddresses: [ip('127.0.0.1'), ip('192.0.2.7')],
      localhostNodePorts: true,
      nodeIP: ip('192.0.2.7'),
      nodeName: 'node-a',
    })
  })

  it('have no loopback address of IPv6', () => {
    const machine = [ip('::1'), ip('2001:db8::7')]
    const { nodePortAddresses, localhostNodePorts } = tableSettings('ipv6', config, { node, machine })
    assert.deepEqual(nodePortAddresses, [ip('2001:db8::7')])
    assert.equal(localhostNodePorts, false)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type ConfigInput, resolveConfig } from '../../../../src/config/index.js'
import { type NftConfig, nftSettings } from '../../../../src/modes/nftables/testing.js'
import { type NodeFacts } from '../../../../src/node/index.js'
import { OtherNodes } from '../../../../src/node/testing.js'
import { cidr, ip } from '../../../support/routes.js'

const node: NodeFacts = {
  name: 'node-a',
  zone: undefined,
  addresses: { ipv4: ip('192.0.2.7') },
  podCIDRs: [cidr('10.244.1.0/24'), cidr('fd00:10:244:1::/64')],
  places: { apiServer: [], agent: [] },
  otherNodes: new OtherNodes(),
}
const machine = [ip('127.0.0.1'), ip('192.0.2.7'), ip('198.51.100.7')]

function configOf(input: ConfigInput = {}): NftConfig {
  const config = resolveConfig({ manifests: 'none', ...input })
  return { ...config, nftables: { masqueradeBit: 15, masqueradeAll: true } }
}

describe('the settings of nftables mode', () => {
  it('come from its own section, the node and the machine', () => {
    const config = configOf({
      nodePortAddresses: ['192.0.2.0/24', '127.0.0.0/8'],
      detectLocalMode: 'NodeCIDR',
    })
    assert.deepEqual(nftSettings('ipv4', config, { node, machine }), {
      family: 'ipv4',
      semantics: 'nftables',
      masqueradeMark: 0x8000,
      masqueradeAll: true,
      localDetector: { kind: 'cidr', cidr: cidr('10.244.1.0/24') },
      nodePortAddresses: [ip('192.0.2.7')],
      localhostNodePorts: false,
      nodeIP: ip('192.0.2.7'),
      nodeName: 'node-a',
    })
  })

  it('serve node ports on all addresses where no network of the family is named', () => {
    const config = configOf({ nodePortAddresses: ['192.0.2.0/24'] })
    const settings = nftSettings('ipv6', config, { node, machine: [] })
    assert.equal(settings.nodePortAddresses, 'all')
    assert.equal(settings.nodeIP, undefined)
  })
})

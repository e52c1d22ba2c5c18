// `explain` for a client that is an endpoint itself, in nftables mode without a local detector.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { explainPacket } from '../../../src/inspect/testing.js'
import { withOwners } from '../../support/frontend-owners.js'
import { trackFamily } from '../../support/tracked-family.js'
import { NodeTracker } from '../../../src/node/index.js'
import { endpoint, port, service, set, slice } from '../../support/objects.js'
import { packetRules } from '../../support/packet-rules.js'
import { ip } from '../../support/routes.js'

const rules = { ...packetRules, hairpin: 'this-node' } as const

describe('explain of a client that is the only endpoint', () => {
  // Before, the node itself lost the packet if the slice named no node. The kernel delivers it by lo.
  for (const { client, nodeName, verdict } of [
    { client: 'node', nodeName: undefined, verdict: 'serve' },
    { client: 'node', nodeName: 'node-b', verdict: 'serve' },
    { client: ip('10.244.1.10'), nodeName: 'node-a', verdict: 'serve' },
    { client: ip('10.244.1.10'), nodeName: 'node-b', verdict: 'drop' },
  ] as const) {
    it(`${client} on ${nodeName ?? 'no node'}: ${verdict}`, () => {
      const address = client === 'node' ? '192.168.60.11' : client
      const services = trackFamily('ipv4', () => undefined, { allowsExternalIPs: true })
      services.apply(set(service('web', '10.96.0.10', { ports: [port(80)] })))
      services.apply(
        set(slice('web-1', 'web', [endpoint(address, nodeName === undefined ? {} : { nodeName })])),
      )
      const decision = explainPacket(
        { client, inInterface: undefined, destination: ip('10.96.0.10'), port: 80, protocol: 'tcp' },
        withOwners({
          services,
          node: new NodeTracker('node-a').facts,
          rules,
          machine: [ip('192.168.60.11')],
        }),
      )
      assert.equal(decision.verdict, verdict)
    })
  }
})

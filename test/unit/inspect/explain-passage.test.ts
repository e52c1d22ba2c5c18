// The hooks that a packet of ipvs mode passes in `explain`, for an endpoint on this node and one on another node.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FirewallChains } from '../../../src/inspect/index.js'
import { explainPacket, type Packet, type PacketView, withOtherRules } from '../../../src/inspect/testing.js'
import type { FirewallHook } from '../../../src/kernel/index.js'
import { withOwners } from '../../support/frontend-owners.js'
import { trackFamily } from '../../support/tracked-family.js'
import { packetRules } from '../../../src/modes/ipvs/testing.js'
import { NodeTracker } from '../../../src/node/index.js'
import { node as nodeObject, port, service, set, slice } from '../../support/objects.js'
import { ip } from '../../support/routes.js'

const nodeIP = ip('192.168.60.11')
const vip = ip('10.96.0.10')

function viewOf(endpoint: string): PacketView {
  const services = trackFamily('ipv4', () => undefined, { allowsExternalIPs: true })
  services.apply(set(service('web', vip, { ports: [port(80, { name: 'tcp' })] })))
  services.apply(
    set(slice('web-1', 'web', [endpoint], { ports: [{ name: 'tcp', protocol: 'TCP', port: 8080 }] })),
  )
  const node = new NodeTracker('node-a')
  node.apply(set(nodeObject('node-a', { ips: [nodeIP] })))
  const rules = packetRules({
    nodePortAddresses: [nodeIP],
    nodeIP,
    localDetector: undefined,
    masqueradeAll: false,
    relayedLoopback: undefined,
    marks: { mask: 0x107f, masqueradeMark: 0x4000, of: () => undefined },
  })
  return withOwners({ services, node: node.facts, rules, machine: [ip('127.0.0.1'), nodeIP] })
}

/** The fate of a packet where a chain at the hook drops what goes to the endpoint. */
async function fate(hook: FirewallHook, client: Packet['client'], endpoint: string): Promise<string> {
  const packet: Packet = { client, inInterface: 'eth0', destination: vip, port: 80, protocol: 'tcp' }
  const view = viewOf(endpoint)
  const chains = new FirewallChains([
    {
      flavour: 'nft',
      family: 'inet',
      table: 'fw',
      chain: hook,
      entrance: { hook, priority: 0 },
      accepts: true,
      rules: async () =>
        await Promise.resolve([
          { text: 'drop', matches: { destinationPorts: [8080, 8080] }, isWhole: true, verdict: 'drop' },
        ]),
    },
  ])
  const reader = {
    read: async () => await Promise.resolve(chains),
    pause: async () => await Promise.resolve(),
  }
  return (await withOtherRules(packet, view, explainPacket(packet, view), reader)).verdict
}

describe('in ipvs mode rules at a hook drop what goes to an endpoint', () => {
  const outside = ip('192.0.2.10')
  for (const [hook, ofOthers, fromNode] of [
    ['prerouting', 'serve', 'drop'],
    ['output', 'serve', 'drop'],
    ['postrouting', 'serve', 'drop'],
  ] as const)
    it(`on this node: ${hook}`, async () => {
      assert.equal(await fate(hook, outside, nodeIP), ofOthers)
      assert.equal(await fate(hook, 'node', nodeIP), fromNode)
    })

  for (const hook of ['output', 'postrouting'] as const)
    it(`on another node: ${hook}`, async () => {
      assert.equal(await fate(hook, outside, '10.244.1.10'), 'drop')
      assert.equal(await fate(hook, 'node', '10.244.1.10'), 'drop')
    })
})

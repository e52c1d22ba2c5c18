// In ipvs mode another program's rule keeps packets from KUBE-SERVICES of table nat: which of them explain takes for masqueraded.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpAddress } from '../../../src/address.js'
import { FirewallChains } from '../../../src/inspect/index.js'
import { explainPacket, type Packet, type PacketView, withOtherRules } from '../../../src/inspect/testing.js'
import type { FirewallChain, FirewallRule } from '../../../src/kernel/index.js'
import { withOwners } from '../../support/frontend-owners.js'
import { trackFamily } from '../../support/tracked-family.js'
import { packetRules } from '../../../src/modes/ipvs/testing.js'
import { NodeTracker } from '../../../src/node/index.js'
import { node as nodeObject, port, service, set, slice } from '../../support/objects.js'
import { ip } from '../../support/routes.js'

const nodeIP = ip('192.168.60.11')
const vip = ip('10.96.0.10')
const any = { text: 'any', matches: {}, isWhole: true } as const
const accept: FirewallRule = { ...any, verdict: 'accept' }
const translate: FirewallRule = { ...any, verdict: 'accept', isTranslating: true }
const toServices: FirewallRule = { ...any, verdict: { chain: 'KUBE-SERVICES', isGoto: false } }
const notrack: FirewallRule = { ...any, verdict: 'accept', tracking: 'none' }

function chain(table: string, priority: number, rules: readonly FirewallRule[]): FirewallChain {
  const nat = table === 'raw' ? {} : { natOrder: priority }
  return {
    flavour: 'legacy',
    family: 'ipv4',
    table,
    chain: 'PREROUTING',
    entrance: { hook: 'prerouting', priority, ...nat },
    accepts: true,
    rules: async () => await Promise.resolve(rules),
  }
}

function viewOf(guarded: IpAddress | undefined): PacketView {
  const services = trackFamily('ipv4', () => undefined, { allowsExternalIPs: true })
  const ports = [port(80, { name: 'tcp', nodePort: 30_080 })]
  services.apply(set(service('web', vip, { type: 'NodePort', ports })))
  const served = [{ name: 'tcp', protocol: 'TCP', port: 8080 }] as const
  services.apply(set(slice('web-1', 'web', ['10.244.2.10'], { ports: served })))
  const node = new NodeTracker('node-a')
  node.apply(set(nodeObject('node-a', { ips: [nodeIP] })))
  const rules = packetRules({
    nodePortAddresses: [nodeIP],
    nodeIP,
    localDetector: undefined,
    masqueradeAll: true,
    relayedLoopback: undefined,
    marks: { mask: 0x107f, masqueradeMark: 0x4000, of: () => undefined },
  })
  const guardOf = (address: IpAddress) => (address === guarded ? { order: -101 } : undefined)
  return withOwners({
    services,
    node: node.facts,
    rules: { ...rules, guardOf },
    machine: [ip('127.0.0.1'), nodeIP],
  })
}

const targets = {
  VIP: { destination: vip, port: 80 },
  'node port': { destination: nodeIP, port: 30_080 },
} as const

async function answer(
  to: keyof typeof targets,
  chains: readonly FirewallChain[],
  guarded?: IpAddress,
): Promise<readonly [state: string, isMasqueraded: boolean | undefined]> {
  const client = ip('192.0.2.10')
  const packet: Packet = { client, inInterface: 'eth0', protocol: 'tcp', ...targets[to] }
  const view = viewOf(guarded)
  const reader = {
    read: async () => await Promise.resolve(new FirewallChains(chains)),
    pause: async () => await Promise.resolve(),
  }
  const { firewall, endpoints } = await withOtherRules(packet, view, explainPacket(packet, view), reader)
  return [firewall.state, endpoints[0]?.isMasqueraded]
}

describe('explain in ipvs mode, of a connection from outside', () => {
  const early = chain('nat', -100, [accept, toServices])
  const untracked = chain('raw', -300, [notrack])

  it('says that it is masqueraded', async () => {
    const chains = [chain('nat', -100, [toServices])]
    assert.deepEqual(await answer('VIP', chains), ['passes', true])
    assert.deepEqual(await answer('node port', chains), ['passes', true])
  })

  it('knows that table mangle marks it where a rule accepts it before KUBE-SERVICES, unless it goes to a node port', async () => {
    assert.deepEqual(await answer('VIP', [early]), ['passes', true])
    assert.deepEqual(await answer('node port', [early]), ['bypasses', false])
  })

  it('says that it is not masqueraded where conntrack does not track it', async () => {
    assert.deepEqual(await answer('VIP', [untracked, early]), ['bypasses', false])
    assert.deepEqual(await answer('node port', [untracked, early]), ['bypasses', false])
  })

  it('says that a rule for host ports takes a VIP which has no guard', async () => {
    const chains = [chain('cni_hostport', -100, [translate])]
    assert.deepEqual(await answer('VIP', chains), ['bypasses', undefined])
    assert.deepEqual(await answer('VIP', chains, vip), ['passes', true])
  })
})

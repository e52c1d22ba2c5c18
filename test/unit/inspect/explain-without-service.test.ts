// `explain` for packets that reach no Service: what the node does with them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { explainPacket, type Packet } from '../../../src/inspect/testing.js'
import { withOwners } from '../../support/frontend-owners.js'
import { trackFamily } from '../../support/tracked-family.js'
import { NodeTracker } from '../../../src/node/index.js'
import { port, service, set } from '../../support/objects.js'
import { packetRules as rules } from '../../support/packet-rules.js'
import { ip } from '../../support/routes.js'

const services = trackFamily('ipv4', () => undefined, { allowsExternalIPs: true })
services.apply(set(service('web', '10.96.0.10', { ports: [port(80)], externalIPs: ['192.0.2.7'] })))

interface Row {
  readonly name: string
  readonly client: Packet['client']
  readonly to: string
  readonly port: number
  readonly verdict: string
  readonly step: RegExp
}

const outside = ip('203.0.113.5')
const rows: readonly Row[] = [
  {
    name: 'an address of the node',
    client: outside,
    to: '192.168.60.11',
    port: 22,
    verdict: 'untouched',
    step: /192\.168\.60\.11 is an address of this node, and 22 no node port/u,
  },
  {
    name: 'a number of node ports that no Service has',
    client: outside,
    to: '192.168.60.11',
    port: 30_080,
    verdict: 'untouched',
    step: /30080 no node port: a program that listens there answers/u,
  },
  {
    name: 'the loopback network, from the node',
    client: 'node',
    to: '127.0.0.1',
    port: 30_080,
    verdict: 'untouched',
    step: /127\.0\.0\.1 is an address of this node/u,
  },
  {
    name: 'the loopback network, from outside',
    client: outside,
    to: '127.0.0.1',
    port: 30_080,
    verdict: 'drop',
    step: /no other machine reaches the loopback network/u,
  },
  {
    name: 'another machine, from outside',
    client: outside,
    to: '198.51.100.1',
    port: 443,
    verdict: 'untouched',
    step: /this node forwards it by its routes/u,
  },
  {
    name: 'another machine, from the node',
    client: 'node',
    to: '198.51.100.1',
    port: 443,
    verdict: 'untouched',
    step: /this node sends it by its routes/u,
  },
  {
    name: 'an unknown address of the ServiceCIDR',
    client: outside,
    to: '10.96.0.99',
    port: 80,
    verdict: 'drop',
    step: /no Service has 10\.96\.0\.99, and it is in the ServiceCIDR 10\.96\.0\.0\/16/u,
  },
  {
    name: 'a port that a cluster IP does not have',
    client: outside,
    to: '10.96.0.10',
    port: 81,
    verdict: 'refuse',
    step: /a port that no Service has of this address is refused/u,
  },
  {
    name: 'a port that an external IP does not have',
    client: outside,
    to: '192.0.2.7',
    port: 81,
    verdict: 'untouched',
    step: /this node forwards it by its routes/u,
  },
]

describe('explain of a packet that reaches no Service', () => {
  for (const { name, client, to, port: number, verdict, step } of rows) {
    it(name, () => {
      const packet: Packet = {
        client,
        inInterface: undefined,
        destination: ip(to),
        port: number,
        protocol: 'tcp',
      }
      const { facts } = new NodeTracker('node-a')
      const decision = explainPacket(
        packet,
        withOwners({
          services,
          node: facts,
          rules,
          machine: [ip('192.168.60.11'), ip('127.0.0.1')],
        }),
      )
      assert.equal(decision.verdict, verdict)
      assert.match(decision.steps.at(-1)?.text ?? '', step)
    })
  }
})

// Frontends that the mode leaves out, as another machine or the node itself has them (issue 35, E2): `explain` said that the Service
// serves them, and connections to their addresses counted as the Service's.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { PacketRules } from '../../../src/engine/index.js'
import { explainPacket, type Packet } from '../../../src/inspect/testing.js'
import { ownersOf, portThatOwns } from '../../../src/inspect/frontend-owners.js'
import { withOwners } from '../../support/frontend-owners.js'
import { trackFamily } from '../../support/tracked-family.js'
import { NodeTracker } from '../../../src/node/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { port, service, set, slice } from '../../support/objects.js'
import { packetRules } from '../../support/packet-rules.js'
import { ip } from '../../support/routes.js'

const [worker, free, apiServer] = [ip('192.0.2.12'), ip('203.0.113.9'), ip('192.0.2.100')]
const services = trackFamily('ipv4', () => undefined, { allowsExternalIPs: true })
services.apply(
  set(
    service('web', '10.96.0.10', {
      ports: [port(80), port(6443, { name: 'api' }), port(10_256, { name: 'health' })],
      externalIPs: [worker, free, apiServer],
    }),
  ),
)
services.apply(set(slice('web-1', 'web', ['10.1.0.1'])))

const holders = new Map([
  [worker, 'Node worker'],
  [apiServer, 'the API server'],
])
const tracker = new NodeTracker('node-a', undefined, [
  { server: 'healthz', address: 'every frontend', port: 10_256 },
])
tracker.apply({ type: 'connected', address: apiServer, port: 6443 })
const node = tracker.facts

/** As in ipvs and userspace mode. */
const rules: PacketRules = {
  ...packetRules,
  refusedPorts: 'vips',
  foreignHolder: (_port, address) => holders.get(address),
}

function explained(destination: Packet['destination'], number: number) {
  const packet: Packet = {
    client: 'node',
    destination,
    port: number,
    protocol: 'tcp',
    inInterface: undefined,
  }
  const { verdict, found, steps } = explainPacket(packet, withOwners({ services, node, rules, machine: [] }))
  return { verdict, isFound: found !== undefined, steps: steps.map(({ text }) => text) }
}

const sent = 'this node sends it by its routes, as it does without Services'

describe('explain of a frontend that the mode leaves out', () => {
  const cases = [
    {
      name: 'the address of another Node',
      to: [worker, 80],
      first:
        'default/web names this as an external IP, and does not get it: it belongs to Node worker, and this mode makes no such address local',
    },
    {
      name: 'another port of the address of another Node',
      to: [worker, 22],
      first:
        '192.0.2.12 is an external IP of default/web, which has the ports 80/tcp, 6443/tcp, 10256/tcp, and is not served there: the address belongs to Node worker',
    },
    {
      name: 'the address and port of the API server',
      to: [apiServer, 6443],
      first:
        'default/web:api names this as an external IP, and does not get it: it belongs to the API server, whose place no Service may take',
    },
  ] as const
  for (const {
    name,
    to: [address, number],
    first,
  } of cases)
    it(`names the Service and the holder: ${name}`, () => {
      const { verdict, isFound, steps } = explained(address, number)
      assert.deepEqual([verdict, isFound, steps[0], steps.at(-1)], ['untouched', false, first, sent])
    })

  // The last step was that this node sends it by its routes.
  it('names the agent, which answers at a VIP', () => {
    const { verdict, isFound, steps } = explained(free, 10_256)
    const name = 'default/web:health names this as an external IP, and does not get it'
    assert.deepEqual(
      [verdict, isFound, ...steps],
      [
        'untouched',
        false,
        `${name}: it belongs to the agent's healthz server, whose place no Service may take`,
        `this node accepts packets to ${free} itself: a program that listens there answers`,
      ],
    )
  })

  it('leaves the other addresses as they are', () => {
    assert.equal(explained(free, 80).isFound, true)
    assert.equal(explained(free, 22).verdict, 'refuse')
  })
})

describe('the owners of frontends', () => {
  it('are no Services whose frontend is left out', async () => {
    const view = withOwners({ services, node, rules, machine: [] })
    const owners = await ownersOf({ clock: new ManualClock() }, view, undefined)
    const ownerOf = (address: typeof worker, number: number): string | undefined =>
      portThatOwns(owners, { kind: 'address', protocol: 'tcp', address, port: number })?.key
    assert.equal(ownerOf(worker, 80), undefined)
    assert.equal(ownerOf(apiServer, 6443), undefined)
    assert.equal(ownerOf(free, 80), 'default/web:/TCP')
    assert.equal(ownerOf(apiServer, 80), undefined)
  })
})

// The listeners that the kernel lists, against those of a route.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Ports } from '../../../../src/kernel/index.js'
import { compileRoute } from '../../../../src/layers/relay/index.js'
import { differences } from '../../../../src/modes/userspace/differences.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

type Listing = Awaited<ReturnType<Ports['find']>>

const own: Listing[number] = {
  protocol: 'tcp',
  address: ip('10.96.0.1'),
  port: 80,
  uid: 0,
  process: undefined,
  isHeld: false,
  isOwn: true,
}
const relayed = compileRoute(plainRoute({ clusterBackends: backends(8080, '10.1.0.1') }), {
  nodePortAddresses: [],
  servesAllAddresses: false,
  nodeIP: ip('192.0.2.1'),
})

describe('a listener of userspace mode', () => {
  const cases: readonly (readonly [
    what: string,
    listings: readonly Listing[],
    missing: readonly string[],
  ])[] = [
    ['that the kernel lists', [[own]], []],
    ['that a listing passes over', [[], [own]], []],
    ['that two listings pass over', [[], [], [own]], []],
    ['that no listing has', [[], [], []], ['listener tcp 10.96.0.1:80 is missing']],
    [
      'that another process has',
      [1, 2, 3].map(() => [{ ...own, isOwn: false }]),
      ['listener tcp 10.96.0.1:80 is missing'],
    ],
  ]
  for (const [what, listings, missing] of cases)
    it(what, async () => {
      const left = [...listings]
      const kernel = {
        ports: { find: async () => left.shift() ?? assert.fail('one listing too many') },
        routes: { dumpLocalRoutes: async () => new Uint8Array() },
      }
      assert.deepEqual(await differences({ relayed, vips: [] }, 'ipv4', kernel), missing)
      assert.equal(left.length, 0)
    })
})

describe('a node port of userspace mode on all addresses', () => {
  const addresses = [ip('127.0.0.1'), ip('192.0.2.1')]
  const desired = compileRoute(plainRoute({ nodePort: 30080, clusterBackends: backends(8080, '10.1.0.1') }), {
    nodePortAddresses: addresses,
    servesAllAddresses: true,
    nodeIP: ip('192.0.2.1'),
  })
  const nodePort = { ...own, port: 30080 }
  const cases: readonly (readonly [what: string, sockets: Listing, missing: readonly string[]])[] = [
    ['is in force by a socket on all addresses', [{ ...nodePort, address: undefined }], []],
    ['is in force by a socket for each address', addresses.map((address) => ({ ...nodePort, address })), []],
    [
      'is missing where it has no socket',
      [{ ...nodePort, address: ip('127.0.0.1') }],
      ['listener tcp 192.0.2.1:30080 is missing'],
    ],
  ]
  for (const [what, sockets, missing] of cases)
    it(what, async () => {
      const kernel = {
        ports: { find: async () => [own, ...sockets] },
        routes: { dumpLocalRoutes: async () => new Uint8Array() },
      }
      assert.deepEqual(await differences({ relayed: desired, vips: [] }, 'ipv4', kernel), missing)
    })
})

// The listeners that the kernel lists, against those of a route.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Ports } from '../../../../src/kernel/index.js'
import { compileRoute } from '../../../../src/modes/relay/index.js'
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

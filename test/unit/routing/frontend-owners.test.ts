import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { servicePortKey } from '../../../src/model/index.js'
import { describeFrontend, type Frontend, FrontendOwners, frontendsOf } from '../../../src/routing/index.js'
import { ip, plainRoute } from '../../support/routes.js'

interface Wanted {
  readonly frontend: Frontend
  /** Distinguishes two claims of one service port. */
  readonly text: string
}

const shared: Frontend = { kind: 'address', address: ip('192.0.2.1'), protocol: 'tcp', port: 80 }
const nodePort: Frontend = { kind: 'node-port', protocol: 'tcp', port: 30080 }
const healthCheck: Frontend = { kind: 'health-check', protocol: 'tcp', port: 30080 }
const frontends = [shared, nodePort, healthCheck]
/** Two ports of the Service a, and one of b, in the order of their keys. */
const ports = ['a/http', 'a/rpc', 'b/http'] as const
type Port = (typeof ports)[number]

function serviceOf(port: Port): string {
  return `ns/${port.slice(0, 1)}`
}

function keyOf(port: Port) {
  return servicePortKey(serviceOf(port), `${port.slice(2)}/TCP`)
}

function claim(owners: FrontendOwners<Wanted>, port: Port, wanted: readonly Frontend[], text = ''): string[] {
  const changes = owners.claim(
    keyOf(port),
    serviceOf(port),
    wanted.map((frontend) => ({ frontend, text: `${port}${text}` })),
  )
  const texts = (list: readonly Wanted[]) => list.map(({ text: one }) => one).join('+') || '-'
  return changes.map(({ before, after }) => {
    const frontend = (after[0] ?? before[0])?.frontend
    return `${frontend && describeFrontend(frontend)}: ${texts(before)} > ${texts(after)}`
  })
}

function nameOf(key: string | undefined): string {
  return ports.find((port) => keyOf(port) === key) ?? '-'
}

/** Each conflict as `loser < winner`. `-`: the loser no longer claims the frontend. */
function conflicts(owners: FrontendOwners<Wanted>): readonly string[] {
  return owners
    .takeConflicts()
    .map(({ frontend, loser, winner }) => `${frontend}: ${nameOf(loser)} < ${nameOf(winner)}`)
}

type Step = readonly [port: Port, wanted: readonly Frontend[]]

const cases: readonly {
  readonly name: string
  readonly before?: readonly Step[]
  readonly step: Step
  readonly changes: readonly string[]
  readonly conflicts: readonly string[]
}[] = [
  {
    name: 'gives a free frontend to the port that claims it',
    step: ['b/http', [shared]],
    changes: ['tcp 192.0.2.1:80: - > b/http'],
    conflicts: [],
  },
  {
    name: 'keeps the owner when a port with a later key claims it',
    before: [['a/http', [shared]]],
    step: ['b/http', [shared]],
    changes: [],
    conflicts: ['tcp 192.0.2.1:80: b/http < a/http'],
  },
  {
    name: 'passes to a port with an earlier key',
    before: [['b/http', [shared]]],
    step: ['a/http', [shared]],
    changes: ['tcp 192.0.2.1:80: b/http > a/http'],
    conflicts: ['tcp 192.0.2.1:80: b/http < a/http'],
  },
  {
    name: 'passes to the loser when the owner releases it, and ends the conflict',
    before: [
      ['a/http', [shared]],
      ['b/http', [shared]],
    ],
    step: ['a/http', []],
    changes: ['tcp 192.0.2.1:80: a/http > b/http'],
    conflicts: ['tcp 192.0.2.1:80: b/http < b/http'],
  },
  {
    name: 'ends the conflict when the loser releases it',
    before: [
      ['a/http', [shared]],
      ['b/http', [shared]],
    ],
    step: ['b/http', []],
    changes: [],
    conflicts: ['tcp 192.0.2.1:80: b/http < -'],
  },
  {
    name: 'releases frontends that a port no longer claims',
    before: [['a/http', [shared, nodePort]]],
    step: ['a/http', [nodePort]],
    changes: ['tcp node port 30080: a/http > a/http', 'tcp 192.0.2.1:80: a/http > -'],
    conflicts: [],
  },
  {
    name: 'lets two ports of one Service conflict over an address',
    before: [['a/http', [shared]]],
    step: ['a/rpc', [shared]],
    changes: [],
    conflicts: ['tcp 192.0.2.1:80: a/rpc < a/http'],
  },
  {
    name: 'lets the ports of one Service share its health check port',
    before: [['a/http', [healthCheck]]],
    step: ['a/rpc', [healthCheck]],
    changes: [],
    conflicts: [],
  },
  {
    name: 'lets two Services conflict over a health check port',
    before: [['a/http', [healthCheck]]],
    step: ['b/http', [healthCheck]],
    changes: [],
    conflicts: ['health check tcp node port 30080: b/http < a/http'],
  },
  {
    name: 'distinguishes a node port and a health check port with the same number',
    before: [['a/http', [nodePort]]],
    step: ['b/http', [healthCheck]],
    changes: ['health check tcp node port 30080: - > b/http'],
    conflicts: [],
  },
  {
    name: 'passes all claims of a port on a frontend at once',
    step: ['a/http', [shared, shared]],
    changes: ['tcp 192.0.2.1:80: - > a/http+a/http'],
    conflicts: [],
  },
]

describe('the owner of a frontend', () => {
  for (const { name, before = [], step, changes, conflicts: wanted } of cases) {
    it(name, () => {
      const owners = new FrontendOwners<Wanted>()
      for (const [port, frontend] of before) claim(owners, port, frontend)
      conflicts(owners)
      assert.deepEqual(claim(owners, ...step), changes)
      assert.deepEqual(conflicts(owners), wanted)
      assert.deepEqual(conflicts(owners), [], 'a conflict is taken once')
    })
  }

  it('is the claim with the first key, after any history', () => {
    const steps = fc.array(
      fc.record({ port: fc.constantFrom(...ports), wanted: fc.subarray(frontends), take: fc.boolean() }),
      { maxLength: 30 },
    )
    fc.assert(
      fc.property(steps, (history) => {
        const owners = new FrontendOwners<Wanted>()
        const last = new Map<Port, readonly Frontend[]>()
        const reported = new Map<string, string>()
        const take = () => {
          for (const text of conflicts(owners)) {
            const [lost = '', winner = ''] = text.split(' < ')
            if (winner === '-' || lost.endsWith(` ${winner}`)) reported.delete(lost)
            else reported.set(lost, winner)
          }
        }
        for (const [i, { port, wanted, take: takes }] of history.entries()) {
          claim(owners, port, wanted, ` ${i}`)
          last.set(port, wanted)
          if (takes) take()
        }
        take()
        const expected = new Map<string, string>()
        for (const frontend of frontends) {
          const [owner, ...losers] = ports.filter((port) => last.get(port)?.includes(frontend))
          assert.equal(owners.ownerOf(frontend), owner && keyOf(owner))
          assert.deepEqual(
            owners.wantedOf(frontend).map(({ text }) => text.split(' ')[0]),
            owner === undefined ? [] : [owner],
          )
          for (const loser of losers) {
            if (owner === undefined) continue
            if (frontend.kind === 'health-check' && serviceOf(loser) === serviceOf(owner)) continue
            expected.set(`${describeFrontend(frontend)}: ${loser}`, owner)
          }
        }
        assert.deepEqual(reported, expected)
        assert.equal(
          owners.size,
          frontends.filter((frontend) => owners.ownerOf(frontend) !== undefined).length,
        )
      }),
    )
  })
})

describe('the frontends of a service port', () => {
  it('are its addresses, each once, and its node port', () => {
    const both = [ip('192.0.2.1'), ip('fd00::1')]
    const port = plainRoute({ protocol: 'UDP', nodePort: 30053, externalIPs: both, loadBalancerIPs: both })
    assert.deepEqual(frontendsOf(port).map(describeFrontend), [
      'udp 10.96.0.1:80',
      'udp 192.0.2.1:80',
      'udp [fd00::1]:80',
      'udp node port 30053',
    ])
  })
})

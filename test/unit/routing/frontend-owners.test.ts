import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { servicePortKey } from '../../../src/model/testing.js'
import {
  type Claimant,
  describeFrontend,
  type Frontend,
  type FrontendOrigin,
  FrontendOwners,
  frontendsOf,
} from '../../../src/routing/index.js'
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

/** Where the port has the shared address from, and the second in which its Service was made; undefined: unknown. */
interface Rank {
  readonly origin: FrontendOrigin
  readonly createdSeconds?: number | undefined
}

const plain: Rank = { origin: 'external-ip' }

function claimantOf(port: Port, { origin, createdSeconds }: Rank): Claimant {
  return {
    key: keyOf(port),
    service: serviceOf(port),
    clusterIP: origin === 'allocated' ? ip('192.0.2.1') : ip('10.96.0.1'),
    loadBalancerIPs: origin === 'load-balancer' ? [ip('192.0.2.1')] : [],
    createdSeconds,
  }
}

function claim(
  owners: FrontendOwners<Wanted>,
  port: Port,
  wanted: readonly Frontend[],
  { text = '', rank = plain }: { readonly text?: string; readonly rank?: Rank } = {},
): string[] {
  const changes = owners.claim(
    keyOf(port),
    claimantOf(port, rank),
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

/** Sorts the owner first among claims; equal for claims that only their keys order. */
function weightOf({ origin, createdSeconds = 9 }: Rank = plain, { kind }: Frontend): number {
  const place = { allocated: 0, 'load-balancer': 1, 'external-ip': 2 }[origin]
  return (kind === 'address' ? place * 10 : 0) + createdSeconds
}

const ranks: readonly {
  readonly name: string
  readonly owner: Rank
  readonly loser: Rank
  readonly reason: string
}[] = [
  {
    name: 'a cluster IP wins over an older address of a load balancer',
    owner: { origin: 'allocated', createdSeconds: 2 },
    loser: { origin: 'load-balancer', createdSeconds: 1 },
    reason: 'to which the API server allocated it',
  },
  {
    name: 'a cluster IP wins over an older external IP',
    owner: { origin: 'allocated', createdSeconds: 2 },
    loser: { origin: 'external-ip', createdSeconds: 1 },
    reason: 'to which the API server allocated it',
  },
  {
    name: 'an address of a load balancer wins over an older external IP',
    owner: { origin: 'load-balancer', createdSeconds: 2 },
    loser: { origin: 'external-ip', createdSeconds: 1 },
    reason: 'whose load balancer has it',
  },
  {
    name: 'the older of two external IPs wins',
    owner: { origin: 'external-ip', createdSeconds: 1 },
    loser: { origin: 'external-ip', createdSeconds: 2 },
    reason: 'which is older',
  },
  {
    name: 'a known age wins over an unknown one',
    owner: { origin: 'external-ip', createdSeconds: 1 },
    loser: { origin: 'external-ip' },
    reason: 'which is older',
  },
]

// Issue 35, A1: the Service whose namespace sorts first took the cluster IP of another one.
describe('regardless of the names of the Services,', () => {
  for (const { name, owner, loser, reason } of ranks)
    for (const [strong, weak] of [
      ['a/http', 'b/http'],
      ['b/http', 'a/http'],
    ] as const)
      for (const first of [strong, weak])
        it(`${name}: ${strong}, and ${first} comes first`, () => {
          const owners = new FrontendOwners<Wanted>()
          for (const port of [first, first === strong ? weak : strong])
            claim(owners, port, [shared], {
              rank: port === strong ? owner : loser,
            })
          assert.equal(owners.ownerOf(shared), keyOf(strong))
          assert.deepEqual(owners.takeConflicts(), [
            {
              frontend: 'tcp 192.0.2.1:80',
              loser: keyOf(weak),
              winner: keyOf(strong),
              reason,
            },
          ])
        })

  it('the older one wins a node port and a health check port', () => {
    const owners = new FrontendOwners<Wanted>()
    claim(owners, 'a/http', [nodePort, healthCheck], {
      rank: { origin: 'allocated', createdSeconds: 2 },
    })
    claim(owners, 'b/http', [nodePort, healthCheck], {
      rank: { origin: 'external-ip', createdSeconds: 1 },
    })
    assert.deepEqual(
      [nodePort, healthCheck].map((frontend) => owners.ownerOf(frontend)),
      [keyOf('b/http'), keyOf('b/http')],
    )
  })
})

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

  it('is the strongest claim, after any history', () => {
    const rank = fc.record({
      origin: fc.constantFrom<FrontendOrigin>('allocated', 'load-balancer', 'external-ip'),
      createdSeconds: fc.constantFrom(undefined, 1, 2),
    })
    const steps = fc.array(
      fc.record({
        port: fc.constantFrom(...ports),
        wanted: fc.subarray(frontends),
        rank,
        take: fc.boolean(),
      }),
      { maxLength: 30 },
    )
    fc.assert(
      fc.property(steps, (history) => {
        const owners = new FrontendOwners<Wanted>()
        const last = new Map<Port, { readonly wanted: readonly Frontend[]; readonly rank: Rank }>()
        const reported = new Map<string, string>()
        const take = () => {
          for (const text of conflicts(owners)) {
            const [lost = '', winner = ''] = text.split(' < ')
            if (winner === '-' || lost.endsWith(` ${winner}`)) reported.delete(lost)
            else reported.set(lost, winner)
          }
        }
        for (const [i, { port, wanted, rank: own, take: takes }] of history.entries()) {
          claim(owners, port, wanted, { text: ` ${i}`, rank: own })
          last.set(port, { wanted, rank: own })
          if (takes) take()
        }
        take()
        const expected = new Map<string, string>()
        for (const frontend of frontends) {
          const [owner, ...losers] = ports
            .filter((port) => last.get(port)?.wanted.includes(frontend))
            .toSorted((a, b) => weightOf(last.get(a)?.rank, frontend) - weightOf(last.get(b)?.rank, frontend))
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

describe('a claim on many frontends', () => {
  const count = 500
  const addresses = Array.from({ length: count }, (_, i) => ip(`192.0.${2 + (i >> 8)}.${i & 255}`))
  const many = addresses.map((address): Frontend => ({ ...shared, address }))

  it('reads each object a fixed number of times', () => {
    let reads = 0
    const claimed = many.map((frontend) => ({ frontend, text: 'a' }))
    const counted = new Proxy(claimed, {
      get: (target, property): unknown => {
        if (typeof property === 'string' && /^\d+$/u.test(property)) reads++
        return Reflect.get(target, property)
      },
    })
    const owners = new FrontendOwners<Wanted>()
    owners.claim(keyOf('a/http'), claimantOf('a/http', plain), counted)
    assert.equal(owners.size, count)
    assert.ok(reads <= 3 * count, `${reads} reads of ${count} objects`)
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { servicePortKey } from '../../../src/model/testing.js'
import {
  describeFrontend,
  type Frontend,
  FrontendOwners,
  frontendsOf,
  type Route,
} from '../../../src/routing/index.js'
import { ip, plainRoute } from '../../support/routes.js'

const shared: Frontend = { kind: 'address', address: ip('192.0.2.1'), protocol: 'tcp', port: 80 }
const nodePort: Frontend = { kind: 'node-port', protocol: 'tcp', port: 30080 }
const frontends = [shared, nodePort]
/** Two ports of the Service a, and one of b, in the order of their keys. */
const ports = ['a/http', 'a/rpc', 'b/http'] as const
type Port = (typeof ports)[number]

function serviceOf(port: Port): string {
  return `ns/${port.slice(0, 1)}`
}

function keyOf(port: Port) {
  return servicePortKey(serviceOf(port), `${port.slice(2)}/TCP`)
}

type FrontendOrigin = 'allocated' | 'load-balancer' | 'external-ip'

/** Where the port has the shared address from, and the second in which its Service was made; undefined: unknown. */
interface Rank {
  readonly origin: FrontendOrigin
  readonly createdSeconds?: number | undefined
}

const plain: Rank = { origin: 'external-ip' }

/** A route of the port that claims these frontends. */
function routeOf(port: Port, wanted: readonly Frontend[], { origin, createdSeconds }: Rank = plain): Route {
  const addresses = wanted.flatMap((frontend) => (frontend.kind === 'address' ? [frontend.address] : []))
  const portOf = (kind: Frontend['kind']): number => wanted.find((each) => each.kind === kind)?.port ?? 0
  return {
    ...plainRoute(),
    key: keyOf(port),
    service: serviceOf(port),
    createdSeconds,
    clusterIP: origin === 'allocated' ? addresses[0] : undefined,
    loadBalancerIPs: origin === 'load-balancer' ? addresses : [],
    externalIPs: origin === 'external-ip' ? addresses : [],
    nodePort: portOf('node-port'),
  }
}

/** Returns the ports that gained or lost a frontend. */
function claim(
  owners: FrontendOwners,
  port: Port,
  wanted: readonly Frontend[],
  rank: Rank = plain,
): readonly string[] {
  const claimed = routeOf(port, wanted, rank)
  return owners.claim(claimed, claimed).map(nameOf)
}

function nameOf(key: string | undefined): string {
  return ports.find((port) => keyOf(port) === key) ?? '-'
}

/** Each conflict as `loser < winner`. `-`: the loser no longer claims the frontend. */
function conflicts(owners: FrontendOwners): readonly string[] {
  return owners
    .takeConflicts()
    .map(({ frontend, loser, winner }) => `${frontend}: ${nameOf(loser)} < ${nameOf(winner)}`)
}

type Step = readonly [port: Port, wanted: readonly Frontend[]]

const cases: readonly {
  readonly name: string
  readonly before?: readonly Step[]
  readonly step: Step
  /** The other ports that gained or lost a frontend. */
  readonly concerned: readonly string[]
  readonly conflicts: readonly string[]
}[] = [
  {
    name: 'gives a free frontend to the port that claims it',
    step: ['b/http', [shared]],
    concerned: [],
    conflicts: [],
  },
  {
    name: 'keeps the owner when a port with a later key claims it',
    before: [['a/http', [shared]]],
    step: ['b/http', [shared]],
    concerned: [],
    conflicts: ['tcp 192.0.2.1:80: b/http < a/http'],
  },
  {
    name: 'passes to a port with an earlier key',
    before: [['b/http', [shared]]],
    step: ['a/http', [shared]],
    concerned: ['b/http'],
    conflicts: ['tcp 192.0.2.1:80: b/http < a/http'],
  },
  {
    name: 'passes to the loser when the owner releases it, and ends the conflict',
    before: [
      ['a/http', [shared]],
      ['b/http', [shared]],
    ],
    step: ['a/http', []],
    concerned: ['b/http'],
    conflicts: ['tcp 192.0.2.1:80: b/http < b/http'],
  },
  {
    name: 'ends the conflict when the loser releases it',
    before: [
      ['a/http', [shared]],
      ['b/http', [shared]],
    ],
    step: ['b/http', []],
    concerned: [],
    conflicts: ['tcp 192.0.2.1:80: b/http < -'],
  },
  {
    name: 'releases frontends that a port no longer claims',
    before: [['a/http', [shared, nodePort]]],
    step: ['a/http', [nodePort]],
    concerned: [],
    conflicts: [],
  },
  {
    name: 'lets two ports of one Service conflict over an address',
    before: [['a/http', [shared]]],
    step: ['a/rpc', [shared]],
    concerned: [],
    conflicts: ['tcp 192.0.2.1:80: a/rpc < a/http'],
  },
  {
    name: 'tells only the owners before and after of a change',
    before: [
      ['a/rpc', [shared]],
      ['b/http', [shared]],
    ],
    step: ['a/http', [shared]],
    concerned: ['a/rpc'],
    conflicts: ['tcp 192.0.2.1:80: a/rpc < a/http', 'tcp 192.0.2.1:80: b/http < a/http'],
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
          const owners = new FrontendOwners()
          for (const port of [first, first === strong ? weak : strong])
            claim(owners, port, [shared], port === strong ? owner : loser)
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

  it('the older one wins a node port', () => {
    const owners = new FrontendOwners()
    claim(owners, 'a/http', [nodePort], { origin: 'allocated', createdSeconds: 2 })
    claim(owners, 'b/http', [nodePort], { origin: 'external-ip', createdSeconds: 1 })
    assert.equal(owners.ownerOf(nodePort), keyOf('b/http'))
  })
})

describe('the owner of a frontend', () => {
  for (const { name, before = [], step, concerned, conflicts: wanted } of cases) {
    it(name, () => {
      const owners = new FrontendOwners()
      for (const [port, frontend] of before) claim(owners, port, frontend)
      conflicts(owners)
      assert.deepEqual(claim(owners, ...step), concerned)
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
        const owners = new FrontendOwners()
        const last = new Map<Port, { readonly wanted: readonly Frontend[]; readonly rank: Rank }>()
        const reported = new Map<string, string>()
        const take = () => {
          for (const text of conflicts(owners)) {
            const [lost = '', winner = ''] = text.split(' < ')
            if (winner === '-' || lost.endsWith(` ${winner}`)) reported.delete(lost)
            else reported.set(lost, winner)
          }
        }
        for (const { port, wanted, rank: own, take: takes } of history) {
          claim(owners, port, wanted, own)
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
          for (const port of ports) {
            const wanted = last.get(port)?.wanted ?? []
            const served = owners.without(routeOf(port, wanted, last.get(port)?.rank))
            assert.equal(has(served, frontend), port === owner, describeFrontend(frontend))
          }
          for (const loser of losers) {
            if (owner === undefined) continue
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

function has(served: Route | undefined, frontend: Frontend): boolean {
  if (served === undefined) return false
  return frontendsOf(served).some((each) => describeFrontend(each) === describeFrontend(frontend))
}

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

const external = (port: number): Partial<Route> => ({
  clusterIP: undefined,
  externalIPs: [ip('192.0.2.1')],
  port,
})

const held = (route: Route | undefined) => [route?.externalIPs, route?.nodePort, route?.nodePortLostAt]

// Issue 36, point 6. In ipvs mode each address of the node has a virtual server for a node port.
describe('where node ports are served address by address', () => {
  const places = [ip('192.0.2.1'), ip('192.0.2.2')]

  it('a node port comes before an external IP of the same number', () => {
    const owners = new FrontendOwners(() => places)
    const web = { ...routeOf('a/http', []), ...external(30080) }
    const rpc = { ...routeOf('a/rpc', []), clusterIP: undefined, nodePort: 30080 }
    owners.claim(web, web)
    assert.deepEqual(owners.claim(rpc, rpc).map(nameOf), ['a/http'])
    assert.equal(owners.without(web), undefined)
    assert.deepEqual(held(owners.without(rpc)), [[], 30080, undefined])
    assert.equal(nameOf(owners.ownerOf(nodePort)), 'a/rpc')
    assert.deepEqual(conflicts(owners), ['tcp 192.0.2.1:30080: a/http < a/rpc'])
  })

  it('an external IP with the number of its own node port is no conflict', () => {
    const owners = new FrontendOwners(() => places)
    const web = { ...routeOf('a/http', []), ...external(30080), nodePort: 30080 }
    assert.deepEqual([owners.claim(web, web), conflicts(owners), owners.without(web)], [[], [], web])
  })

  it('a node port is lost at the address that is the cluster IP of an older Service, and nowhere else', () => {
    const owners = new FrontendOwners(() => places)
    const older: Rank = { origin: 'allocated', createdSeconds: 1 }
    const web = { ...routeOf('a/http', [shared], older), port: 30080 }
    const rpc = { ...routeOf('b/http', [nodePort], plain), port: 80 }
    owners.claim(rpc, rpc)
    owners.claim(web, web)
    assert.deepEqual(held(owners.without(rpc)), [[], 30080, [ip('192.0.2.1')]])
    assert.deepEqual(owners.lostOf(rpc), [{ frontend: nodePort, owner: web.key, reason: 'which is older' }])
    assert.deepEqual(owners.lostOf(web), [])
  })

  it('a node port that is lost at all addresses is no frontend', () => {
    const owners = new FrontendOwners(() => places)
    const [web, rpc] = (['a/http', 'b/http'] as const).map((port) => routeOf(port, [nodePort]))
    assert.ok(web !== undefined && rpc !== undefined)
    owners.claim(rpc, rpc)
    owners.claim(web, web)
    assert.equal(owners.without(rpc), undefined)
    assert.deepEqual([...new Set(owners.release(web.key).map(nameOf))], ['b/http'])
    assert.equal(owners.without(rpc), rpc)
  })
})

describe('a claim on many frontends', () => {
  const count = 500
  const addresses = Array.from({ length: count }, (_, i) => ip(`192.0.${2 + (i >> 8)}.${i & 255}`))

  it('reads each address a fixed number of times, and compares a second claim once', () => {
    let reads = 0
    const externalIPs = new Proxy(addresses, {
      get: (target, property): unknown => {
        if (typeof property === 'string' && /^\d+$/u.test(property)) reads++
        return Reflect.get(target, property)
      },
    })
    const owners = new FrontendOwners()
    const web = { ...routeOf('a/http', []), externalIPs }
    owners.claim(web, web)
    owners.claim(web, web)
    assert.equal(owners.size, count)
    assert.ok(reads <= 2 * count, `${reads} reads of ${count} addresses`)
  })
})

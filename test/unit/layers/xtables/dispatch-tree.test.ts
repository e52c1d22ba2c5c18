import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { servicePortKey } from '../../../../src/model/testing.js'
import type { XtRule } from '../../../../src/kernel/index.js'
import { dispatchChains } from '../../../../src/layers/xtables/index.js'
import { DispatchTree } from '../../../../src/layers/xtables/testing.js'
import { addressOf, type Frontend } from '../../../../src/routing/index.js'
import { type ModelTables, walk } from '../../../support/packet-model.js'
import { formatRule, listing } from '../../../support/packet-model-tables.js'
import { ip } from '../../../support/routes.js'

const tail: readonly XtRule[] = [{ comment: 'tail', target: { kind: 'return' } }]
const backend = ip('10.0.0.1')

/** Rules of a frontend. The packets that match them leave at this port. */
function rulesOf(frontend: Frontend, result: number): readonly XtRule[] {
  const { protocol, port } = frontend
  const address = addressOf(frontend)
  const destination =
    address === undefined ? {} : { destination: { address, prefixLength: address.includes(':') ? 128 : 32 } }
  const target = { kind: 'dnat', address: backend, port: result } as const
  return [{ ...destination, protocol, destinationPorts: [port, port], target }]
}

const holder = servicePortKey('default/web', '/TCP')

type Chains = Map<string, readonly XtRule[]>

/** The kernel's chains after all changes. */
function takeInto(tree: DispatchTree, chains: Chains): Chains {
  const { set, removed } = tree.take()
  for (const chain of removed) assert.ok(chains.delete(chain), `${chain} did not exist`)
  const both = set.filter(({ chain }) => removed.includes(chain))
  assert.deepEqual(both, [], 'no chain is both set and removed')
  for (const { table, chain, rules } of set) {
    assert.equal(table, 'nat')
    chains.set(chain, rules)
  }
  return chains
}

function treeOf(frontends: readonly Frontend[]): DispatchTree {
  const tree = new DispatchTree(dispatchChains.services, tail)
  for (const [i, frontend] of frontends.entries()) tree.set(frontend, rulesOf(frontend, i + 1), holder)
  return tree
}

/** The port that packets to this frontend reach, and the number of rules before it. */
function find(chains: Chains, frontend: Frontend) {
  const { protocol, port } = frontend
  const address = addressOf(frontend) ?? ip('192.168.0.1')
  const empty = { chains: new Map(), hooks: new Map() }
  const hooks = new Map([['PREROUTING', chains.get('KUBE-SERVICES') ?? []]] as const)
  const tables: ModelTables = { filter: empty, nat: { chains, hooks } }
  const source = ip('10.9.9.9')
  const packet = { inInterface: 'eth0', source, destination: address, protocol, destinationPort: port }
  const [outcome, ...others] = walk(tables, { addresses: [] }, packet)
  assert.deepEqual(others, [])
  assert.ok(outcome !== undefined)
  return { result: outcome.isTranslated ? outcome.port : undefined, rules: outcome.rules }
}

const nameOf = (frontend: Frontend) => `${addressOf(frontend)} ${frontend.protocol} ${frontend.port}`

const pools = [
  fc.nat(0xffff).map((n) => ip(`10.96.${n >>> 8}.${n & 255}`)),
  fc.nat(40).map((n) => ip(`10.96.0.${n}`)),
  fc.nat(0xffffffff).map((n) => ip([24, 16, 8, 0].map((shift) => (n >>> shift) & 255).join('.'))),
]
const ipv6Pools = [
  fc.nat(0xffff).map((n) => ip(`fd00:10:96::${n.toString(16)}`)),
  fc
    .array(fc.nat(0xffff), { minLength: 8, maxLength: 8 })
    .map((groups) => ip(groups.map((group) => group.toString(16)).join(':'))),
]
const port = fc.oneof(fc.constantFrom(80, 443, 53), fc.integer({ min: 1, max: 65535 }))
const protocols = ['tcp', 'udp', 'sctp'] as const
const protocol = fc.constantFrom(...protocols)
type Address = ReturnType<typeof addressOf>
/** A node port, unless there is an address. */
const frontendAt = (
  address: Address,
  rest: Pick<Frontend, 'port'> & { protocol: (typeof protocols)[number] },
): Frontend =>
  address === undefined ? { kind: 'node-port', ...rest } : { kind: 'address', address, ...rest }
const frontendOf = (address: fc.Arbitrary<Address>): fc.Arbitrary<Frontend> =>
  fc.record({ address, protocol, port }).map(({ address: at, ...rest }) => frontendAt(at, rest))
const setOf = (address: fc.Arbitrary<Address>) =>
  fc.uniqueArray(frontendOf(address), {
    selector: nameOf,
    maxLength: 120,
    size: 'max',
  })
const frontendSets = fc.oneof(
  setOf(fc.oneof(...pools, fc.constant(undefined))),
  setOf(fc.oneof(...ipv6Pools)),
  setOf(fc.constant(undefined)),
  setOf(fc.constant(ip('10.96.0.1'))),
)

describe('properties of a dispatch tree', () => {
  it('has the same chains after any order of changes, equal to a full build', () => {
    const steps = fc.tuple(
      frontendSets,
      fc.array(fc.nat(), { maxLength: 60 }),
      fc.integer({ min: 1, max: 40 }),
    )
    fc.assert(
      fc.property(steps, ([frontends, detours, pause]) => {
        const tree = new DispatchTree(dispatchChains.services, tail)
        const chains: Chains = new Map()
        const present = new Set<number>()
        const put = (index: number) => {
          const frontend = frontends[index]
          if (frontend === undefined) return
          if (present.delete(index)) {
            tree.remove(frontend)
          } else {
            tree.set(frontend, rulesOf(frontend, index + 1), holder)
            present.add(index)
          }
        }
        for (const [i, detour] of [...detours, ...frontends.keys()].entries()) {
          put(detour % Math.max(frontends.length, 1))
          if (i % pause === 0) takeInto(tree, chains)
        }
        for (const index of frontends.keys()) if (!present.has(index)) put(index)
        takeInto(tree, chains)
        assert.equal(listing(chains), listing(takeInto(treeOf(frontends), new Map())))
        assert.equal(tree.size, frontends.length)
        assert.deepEqual(tree.take(), { set: [], removed: [] })
      }),
    )
  })

  it('leads each packet to the rules of its frontend, and other packets to the tail', () => {
    fc.assert(
      fc.property(frontendSets, fc.array(frontendOf(fc.oneof(...pools))), (frontends, others) => {
        const chains = takeInto(treeOf(frontends), new Map())
        const isAddressed = frontends.every(({ kind }) => kind === 'address')
        for (const [i, frontend] of frontends.entries()) {
          // A frontend without an address gets packets to any other address with its port.
          if (frontend.kind === 'node-port' && !isAddressed && frontends.some(addressOf)) continue
          assert.equal(find(chains, frontend).result, i + 1)
        }
        const known = new Set(frontends.map(nameOf))
        for (const other of isAddressed ? others : []) {
          if (!known.has(nameOf(other))) assert.equal(find(chains, other).result, undefined)
        }
        assert.deepEqual(chains.get('KUBE-SERVICES')?.at(-1), tail[0])
        // The base chain has the top of both trees, and its tail.
        for (const [chain, rules] of chains) {
          const limit = chain === 'KUBE-SERVICES' ? 33 : 16
          assert.ok(rules.length <= limit, `${chain} has ${rules.length} rules`)
        }
      }),
    )
  })
})

const spread = (i: number) => (i * 40503 + 7) % 65536

/** Services of port 80, scattered over one /16. */
const scattered = (i: number): Frontend => ({
  kind: 'address',
  address: ip(`10.96.${spread(i) >> 8}.${spread(i) & 255}`),
  protocol: 'tcp',
  port: 80,
})

describe('a dispatch tree of 10,000', () => {
  const worlds: readonly { readonly name: string; readonly frontend: (i: number) => Frontend }[] = [
    { name: 'services scattered over one /16', frontend: scattered },
    {
      name: 'services with consecutive addresses',
      frontend: (i) => ({
        kind: 'address',
        address: ip(`10.96.${i >> 8}.${i & 255}`),
        protocol: 'tcp',
        port: 80,
      }),
    },
    {
      name: 'services scattered over IPv6',
      frontend: (i) => {
        const group = (k: number) => (((i + 1) * (7919 + 104_729 * k)) % 65521).toString(16)
        return {
          kind: 'address',
          address: ip([1, 2, 3, 4, 5, 6, 7, 8].map(group).join(':')),
          protocol: 'tcp',
          port: 80,
        }
      },
    },
    { name: 'node ports', frontend: (i) => ({ kind: 'node-port', protocol: 'tcp', port: 30000 + i }) },
    {
      name: 'ports of one address',
      frontend: (i) => ({ kind: 'address', address: ip('5.6.7.8'), protocol: 'udp', port: 1 + i }),
    },
  ]
  for (const { name, frontend } of worlds) {
    it(`finds ${name} with few rules, and changes one chain for one frontend`, () => {
      const frontends = Array.from({ length: 10_000 }, (_, i) => frontend(i))
      const tree = treeOf(frontends)
      const chains = takeInto(tree, new Map())
      const walks = frontends.map((one) => find(chains, one))
      const lost = walks.findIndex(({ result }, i) => result !== i + 1)
      assert.equal(lost, -1)
      const most = Math.max(...walks.map(({ rules }) => rules))
      const mean = walks.reduce((sum, { rules }) => sum + rules, 0) / walks.length
      assert.ok(most <= 40 && mean <= 24, `${most} rules at most, ${mean} in the mean`)
      const last = frontends.at(-1)
      assert.ok(last !== undefined)
      tree.set(last, rulesOf(last, 1), holder)
      assert.equal(tree.take().set.length, 1)
      tree.remove(last)
      tree.set(last, rulesOf(last, 1), holder)
      assert.ok(tree.take().set.length <= 3)
    })
  }

  it('costs other packets only the match of one network', () => {
    const frontends = Array.from({ length: 10_000 }, (_, i) => scattered(i))
    const chains = takeInto(treeOf(frontends), new Map())
    assert.deepEqual(chains.get('KUBE-SERVICES')?.map(formatRule), [
      '-d 10.96.0.0/16 -j KUBE-SVC-10.96.0.0/16',
      '"tail" -j RETURN',
    ])
  })
})

/** The base chain of 40 frontends. */
const many = (address: (i: number) => string | undefined, portOf: (i: number) => number) => {
  const tree = new DispatchTree(dispatchChains.nodePorts)
  for (let i = 0; i < 40; i++) {
    const where = address(i)
    const rest = { protocol: 'tcp', port: portOf(i) } as const
    const frontend = frontendAt(where === undefined ? undefined : ip(where), rest)
    tree.set(frontend, rulesOf(frontend, 1), holder)
  }
  return tree.take().set.at(-1)?.rules.map(formatRule)
}

describe('a dispatch tree', () => {
  it('is only a base chain in the order of addresses while it is small', () => {
    const frontends = Array.from({ length: 16 }, (_, i) =>
      frontendAt(ip(`10.96.0.${16 - i}`), { protocol: 'tcp', port: 80 }),
    )
    const { set, removed } = treeOf(frontends).take()
    assert.deepEqual(removed, [])
    assert.deepEqual(
      set.map(({ chain, rules }) => [chain, rules.length]),
      [['KUBE-SERVICES', 17]],
    )
    assert.equal(set[0]?.rules[0]?.destination?.address, '10.96.0.1')
  })

  it('names buckets by their network or by a hash', () => {
    assert.deepEqual(
      many(
        () => undefined,
        (i) => 30720 + i,
      ),
      ['-p tcp --dport 30720:30783 -j KUBE-EXT-tcp/30720-30783'],
    )
    assert.deepEqual(
      many(
        (i) => `fd00:10:96::${(i + 1).toString(16)}`,
        () => 80,
      ),
      ['-d fd00:10:96::/122 -j KUBE-EXT-fd00:10:96::/122'],
    )
    const [long = ''] =
      many(
        (i) => `fd00:1111:2222:3333:4444::${(i + 1).toString(16)}`,
        () => 80,
      ) ?? []
    assert.match(long, /^-d fd00:1111:2222:3333:4444::\/122 -j KUBE-EXT-_[A-Z2-7]{16}$/)
  })

  it('can change only its tail', () => {
    const tree = treeOf([])
    assert.deepEqual(tree.take().set, [{ ...dispatchChains.services, rules: tail }])
    tree.setTail([...tail])
    assert.deepEqual(tree.take().set, [])
    tree.setTail([])
    assert.deepEqual(tree.take().set, [{ ...dispatchChains.services, rules: [] }])
  })
})

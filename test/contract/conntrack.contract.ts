// Laws of Conntrack, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { Conntrack, ConntrackFrontend } from '../../src/kernel/index.js'
import type { ModelFlow } from '../model/index.js'
import { ip, rejectsWith } from './law.js'

export interface ConntrackSubject {
  readonly conntrack: Conntrack
  /** Replaces the table's flows with these. */
  put(flows: readonly ModelFlow[]): Promise<void>
  /** Names of the present flows (test/support/conntrack-flows.ts), sorted. */
  list(): Promise<readonly string[]>
}

type Named<T> = Readonly<Record<string, T>>

const near = ip('10.244.0.9')
const service = ip('10.96.0.10')
const node = ip('192.0.2.1')
/** The addresses that serve node ports. */
const nodes = [node, ip('192.0.2.2'), ip('fd00::1')]

function flow(
  sourcePort: number,
  to: readonly [string, number],
  answering: readonly [string, number],
): ModelFlow {
  return {
    protocol: 'udp',
    source: to[0].includes(':') ? ip('fd00:244::9') : near,
    sourcePort,
    destination: ip(to[0]),
    destinationPort: to[1],
    replySource: ip(answering[0]),
    replySourcePort: answering[1],
  }
}

const flows = {
  toFirst: flow(1, ['10.96.0.10', 53], ['10.244.1.5', 5353]),
  toSecond: flow(2, ['10.96.0.10', 53], ['10.244.1.6', 5353]),
  toOtherPortOfFirst: flow(3, ['10.96.0.10', 53], ['10.244.1.5', 5354]),
  untranslated: flow(4, ['10.96.0.10', 53], ['10.96.0.10', 53]),
  otherPort: flow(5, ['10.96.0.10', 54], ['10.244.1.6', 5353]),
  otherAddress: flow(6, ['10.96.0.11', 53], ['10.244.1.6', 5353]),
  nodePortToFirst: flow(7, ['192.0.2.1', 30053], ['10.244.1.5', 5353]),
  nodePortToSecond: flow(8, ['192.0.2.2', 30053], ['10.244.1.6', 5353]),
  tcp: { ...flow(9, ['10.96.0.10', 53], ['10.244.1.6', 5353]), protocol: 'tcp' },
  foreignHost: flow(14, ['198.51.100.7', 30053], ['198.51.100.7', 30053]),
  sixForeignHost: flow(15, ['2001:db8::7', 30053], ['2001:db8::7', 30053]),
  sctp: { ...flow(10, ['10.96.0.10', 53], ['10.244.1.6', 5353]), protocol: 'sctp' },
  six: flow(11, ['fd00:96::10', 53], ['fd00:244:1::5', 5353]),
  sixUntranslated: flow(12, ['fd00:96::10', 53], ['fd00:96::10', 53]),
  sixNodePort: flow(13, ['fd00::1', 30053], ['fd00:244:1::6', 5353]),
} as const satisfies Named<ModelFlow>
type FlowName = keyof typeof flows

const first = [{ address: ip('10.244.1.5'), port: 5353 }]
const sixFirst = [{ address: ip('fd00:244:1::5'), port: 5353 }]

function at(
  address: string | undefined,
  port: number,
  backends: ConntrackFrontend['backends'],
  protocol: ConntrackFrontend['protocol'] = 'udp',
): ConntrackFrontend {
  return { protocol, address: address === undefined ? undefined : ip(address), port, backends }
}

interface Law {
  readonly name: string
  readonly family?: 'ipv6'
  readonly frontends: readonly ConntrackFrontend[]
  readonly deleted: readonly FlowName[]
}

const laws: readonly Law[] = [
  { name: 'nothing without a frontend', frontends: [], deleted: [] },
  {
    name: 'flows of a frontend that are not translated to one of its backends',
    frontends: [at(service, 53, first)],
    deleted: ['toSecond', 'toOtherPortOfFirst', 'untranslated'],
  },
  {
    name: 'all flows of a frontend without backends',
    frontends: [at(service, 53, [])],
    deleted: ['toFirst', 'toSecond', 'toOtherPortOfFirst', 'untranslated'],
  },
  {
    name: 'flows to a node port of the node’s addresses, and none to another host',
    frontends: [at(undefined, 30053, first)],
    deleted: ['nodePortToSecond'],
  },
  {
    name: 'flows by the frontend with an address, before the node port',
    frontends: [at(undefined, 30053, []), at(node, 30053, first)],
    deleted: ['nodePortToSecond'],
  },
  {
    name: 'flows by the first of two equal frontends',
    frontends: [at(service, 53, first), at(service, 53, [])],
    deleted: ['toSecond', 'toOtherPortOfFirst', 'untranslated'],
  },
  {
    name: 'only flows of the frontend’s protocol: TCP',
    frontends: [at(service, 53, first, 'tcp')],
    deleted: ['tcp'],
  },
  {
    name: 'only flows of the frontend’s protocol: SCTP',
    frontends: [at(service, 53, first, 'sctp')],
    deleted: ['sctp'],
  },
  {
    name: 'flows of several frontends, each by its own backends',
    frontends: [
      at(service, 53, first),
      at('10.96.0.11', 53, [{ address: ip('10.244.1.6'), port: 5353 }]),
      at(undefined, 30053, []),
    ],
    deleted: ['toSecond', 'toOtherPortOfFirst', 'untranslated', 'nodePortToFirst', 'nodePortToSecond'],
  },
  {
    name: 'IPv6 flows',
    family: 'ipv6',
    frontends: [at('fd00:96::10', 53, sixFirst), at(undefined, 30053, sixFirst)],
    deleted: ['sixUntranslated', 'sixNodePort'],
  },
]

/** `count` frontends without flows. A large count exceeds the limit for one dump per frontend. */
function withoutFlows(count: number, family: 'ipv4' | 'ipv6'): readonly ConntrackFrontend[] {
  const prefix = family === 'ipv4' ? '10.97.0.' : 'fd00:97::'
  return Array.from({ length: count }, (_, index) => at(`${prefix}${index + 1}`, 53, []))
}

/** Runs each law in one network namespace with its own connection table. */
export function conntrackContract(
  subject: string,
  open: () => ConntrackSubject,
  nameFlow: (flow: ModelFlow) => string,
): void {
  describe(`${subject}: Conntrack deletes`, () => {
    let table: ConntrackSubject
    before(() => {
      table = open()
    })
    beforeEach(() => table.put(Object.values(flows)))
    after(async () => {
      await table.put([])
      await table.conntrack.close()
      await table.conntrack.close()
      await rejectsWith(table.conntrack.deleteStale('ipv4', [at(service, 53, [])], []), 'EBADF')
      await rejectsWith(table.conntrack.listFlows('ipv4', [at(service, 53, [])], [], 1), 'EBADF')
    })

    const sizes = [
      { others: 0, which: '' },
      { others: 100, which: ', among a hundred frontends' },
    ]
    for (const { name, family = 'ipv4', frontends, deleted } of laws) {
      for (const { others, which } of sizes) {
        it(`${name}${which}`, async () => {
          const all = [...frontends, ...withoutFlows(others, family)]
          const outcome = await table.conntrack.deleteStale(family, all, nodes)
          const gone = new Set<string>(deleted.map((key) => nameFlow(flows[key])))
          const left = Object.values(flows)
            .map(nameFlow)
            .filter((text) => !gone.has(text))
          assert.deepEqual(await table.list(), left.toSorted())
          assert.equal(outcome.deleted, deleted.length)
          const again = await table.conntrack.deleteStale(family, all, nodes)
          assert.equal(again.deleted, 0)
        })
      }
    }

    const lists: readonly {
      readonly name: string
      readonly family?: 'ipv6'
      readonly frontends: readonly ConntrackFrontend[]
      readonly found: readonly FlowName[]
    }[] = [
      { name: 'no frontend', frontends: [], found: [] },
      {
        name: 'one frontend, translated or not',
        frontends: [at(service, 53, first)],
        found: ['toFirst', 'toSecond', 'toOtherPortOfFirst', 'untranslated'],
      },
      {
        name: 'a node port on the node’s addresses',
        frontends: [at(undefined, 30053, [])],
        found: ['nodePortToFirst', 'nodePortToSecond'],
      },
      {
        name: 'one frontend of TCP and one of SCTP',
        frontends: [at(service, 53, [], 'tcp'), at(service, 53, [], 'sctp')],
        found: ['tcp', 'sctp'],
      },
      {
        name: 'frontends of IPv6',
        family: 'ipv6',
        frontends: [at('fd00:96::10', 53, []), at(undefined, 30053, [])],
        found: ['six', 'sixUntranslated', 'sixNodePort'],
      },
    ]
    for (const { name, family = 'ipv4', frontends, found } of lists)
      it(`nothing in a list of the flows of ${name}`, async () => {
        const { flows: listed, total } = await table.conntrack.listFlows(family, frontends, nodes, 100)
        assert.deepEqual(listed.map(nameFlow).toSorted(), found.map((key) => nameFlow(flows[key])).toSorted())
        assert.equal(total, found.length)
        for (const { protocol, tcpState, timeoutSeconds } of listed) {
          assert.equal(tcpState, protocol === 'tcp' ? 'ESTABLISHED' : undefined)
          assert.ok(timeoutSeconds > 500 && timeoutSeconds <= 600, `${timeoutSeconds} s`)
        }
      })

    it('nothing in a list with a limit, which counts all flows', async () => {
      const { flows: listed, total } = await table.conntrack.listFlows('ipv4', [at(service, 53, [])], [], 3)
      assert.deepEqual({ listed: listed.length, total }, { listed: 3, total: 4 })
    })

    it('nothing in the numbers of flows, by destination and backend', async () => {
      const present = [...Object.values(flows), { ...flows.toFirst, sourcePort: 20 }]
      await table.put(present)
      const frontends = [at(service, 53, []), at(service, 53, [], 'tcp'), at(undefined, 30053, [])]
      const counts = [...(await table.conntrack.countFlows('ipv4', frontends, nodes))].map(
        ({ protocol, destination, destinationPort, replySource, replySourcePort, active, inactive }) =>
          `${protocol} ${destination}:${destinationPort} ${replySource}:${replySourcePort} ${active} ${inactive}`,
      )
      assert.deepEqual(counts.toSorted(), [
        'tcp 10.96.0.10:53 10.244.1.6:5353 1 0',
        'udp 10.96.0.10:53 10.244.1.5:5353 2 0',
        'udp 10.96.0.10:53 10.244.1.5:5354 1 0',
        'udp 10.96.0.10:53 10.244.1.6:5353 1 0',
        'udp 10.96.0.10:53 10.96.0.10:53 1 0',
        'udp 192.0.2.1:30053 10.244.1.5:5353 1 0',
        'udp 192.0.2.2:30053 10.244.1.6:5353 1 0',
      ])
      assert.deepEqual([...(await table.conntrack.countFlows('ipv4', [], nodes))], [])
      assert.deepEqual(await table.list(), present.map(nameFlow).toSorted())
    })

    it('flows of both families in calls at the same time', async () => {
      const outcomes = await Promise.all([
        table.conntrack.deleteStale('ipv4', [at(service, 53, [])], []),
        table.conntrack.deleteStale('ipv6', [at('fd00:96::10', 53, [])], []),
      ])
      assert.deepEqual(
        outcomes.map(({ deleted }) => deleted),
        [4, 2],
      )
    })
  })
}

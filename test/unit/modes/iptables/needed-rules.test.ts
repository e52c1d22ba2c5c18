// Every rule of iptables mode is needed: without it, a case of the traffic table fails on the packet model.
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { XtRule } from '../../../../src/kernel/index.js'
import type { ModelTables } from '../../../support/packet-model.js'
import { failuresOnModel, isOnModel } from '../../../traffic/table-on-model.js'
import { type TrafficCase, type TrafficGroup, trafficTable } from '../../../traffic/table/index.js'

/** Rules that new connections on the model do not need. Each comment names the test that shows the need. */
const shownElsewhere: readonly string[] = [
  // Health checks need a server: *the health check port is let in*, on the kernel.
  'filter INPUT: comment target, jump KUBE-NODEPORTS',
  'filter KUBE-NODEPORTS: comment destinationPorts protocol target, accept',
  // Replies: *what is masqueraded passes a firewall that forwards nothing, with its replies*, on the kernel.
  'filter KUBE-FORWARD: comment state target, accept',
  // Packets from the node to itself also pass INPUT, which has the same jump.
  'filter OUTPUT: target, jump KUBE-FIREWALL',
  // The mark is cleared for a packet that passes again in a tunnel: test/unit/modes/iptables/skeleton.test.ts.
  'nat KUBE-POSTROUTING: target, mark',
  // The rule only counts packets to node ports on loopback, for a metric: test/kernel/operator-pages.test.ts.
  'filter KUBE-SERVICES: comment mark source state target, return',
]

interface Spot {
  readonly kind: string
  /** The tables without this rule. */
  readonly without: (tables: ModelTables) => ModelTables
}

const tableNames = ['nat', 'filter'] as const
const parts = ['chains', 'hooks'] as const

/** Every rule of these tables. */
function spotsOf(tables: ModelTables): readonly Spot[] {
  return tableNames.flatMap((table) =>
    parts.flatMap((part) =>
      [...tables[table][part]].flatMap(([chain, rules]) =>
        rules.map((rule) => ({
          kind: kindOf(table, chain, rule),
          without: (others) => ({
            ...others,
            [table]: { ...others[table], [part]: withoutRule(others[table][part], chain, rule) },
          }),
        })),
      ),
    ),
  )
}

/** Tables are compiled again for each read, with equal content. */
function withoutRule(
  chains: ReadonlyMap<string, readonly XtRule[]>,
  chain: string,
  rule: XtRule,
): ReadonlyMap<string, readonly XtRule[]> {
  const text = JSON.stringify(rule)
  const rest = (chains.get(chain) ?? []).filter((other) => JSON.stringify(other) !== text)
  return new Map([...chains, [chain, rest]])
}

/** The rule's chain, matches and target, without names and addresses. */
function kindOf(table: string, chain: string, rule: XtRule): string {
  const target =
    'chain' in rule.target ? `${rule.target.kind} ${kindOfChain(rule.target.chain)}` : rule.target.kind
  return `${table} ${kindOfChain(chain)}: ${Object.keys(rule).toSorted().join(' ')}, ${target}`
}

function kindOfChain(chain: string): string {
  return chain.replace(/^(KUBE-(?:SVC|SVL|EXT|FW|SEP))-.*/, '$1')
}

function ruleSpots(group: TrafficGroup, row: TrafficCase): readonly Spot[] {
  const spots: Spot[] = []
  failuresOnModel(group, row, (tables) => {
    spots.push(...spotsOf(tables))
    return tables
  })
  return spots
}

it('a case of the traffic table fails without each kind of rule', () => {
  const kinds = new Map<string, boolean>()
  for (const group of trafficTable(['TCP'])) {
    for (const row of group.cases) {
      if (!isOnModel(row)) continue
      for (const spot of ruleSpots(group, row)) {
        const isKnown = kinds.get(spot.kind) === true || shownElsewhere.includes(spot.kind)
        kinds.set(spot.kind, isKnown || failuresOnModel(group, row, spot.without).length > 0)
      }
    }
  }
  const unnoticed = [...kinds].filter(([, noticed]) => !noticed).map(([kind]) => kind)
  assert.deepEqual(unnoticed, [])
  assert.deepEqual(
    shownElsewhere.filter((kind) => !kinds.has(kind)),
    [],
    'kinds of rules that no longer exist',
  )
})

// A part of the traffic table, by the names of groups and cases: for where every start of a program is dear.
import assert from 'node:assert/strict'
import { type TrafficCase, type TrafficGroup, trafficTable } from './table/index.js'
import type { Protocol } from './table/world.js'

/** Cases by the names of their groups; `all`: every one of the group. */
export type ChosenCases = Readonly<Record<string, 'all' | readonly string[]>>

/** Throws for a group or a case that the table does not have. */
export function chosenGroups(chosen: ChosenCases, protocols: readonly Protocol[]): readonly TrafficGroup[] {
  const table = trafficTable(protocols)
  return Object.entries(chosen).map(([groupName, names]) => {
    const group = table.find(({ name }) => name === groupName)
    assert.ok(group !== undefined, `the traffic table has no group "${groupName}"`)
    return { ...group, cases: names === 'all' ? group.cases : casesOf(group, names) }
  })
}

function casesOf(group: TrafficGroup, names: readonly string[]): readonly TrafficCase[] {
  const cases = group.cases.filter(({ name }) => names.includes(name))
  const found = cases.map(({ name }) => name)
  assert.deepEqual(found.toSorted(), names.toSorted(), `cases of "${group.name}"`)
  return cases
}

// The sentence of `viaduct status` about the sync.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { statusTable } from '../../../src/commands/status.js'
import type { StatusSnapshot } from '../../../src/inspect/index.js'

function snapshot(isInForce: boolean, isHealthy: boolean, objectsNotApplied: number): StatusSnapshot {
  const family = {
    family: 'IPv4',
    isInForce,
    isHealthy,
    lastSync: '2026-01-01T00:00:00.000Z',
    servicePorts: 1,
    endpoints: 1,
  } as const
  return {
    version: '0.2.0',
    node: 'node-a',
    start: family.lastSync,
    uptimeSeconds: 1,
    mode: { active: 'iptables', configured: 'iptables' },
    isInForce,
    families: [family],
    source: { kind: 'manifests', kindsNotWatched: 0, objectsNotApplied },
    drift: [],
    problemCount: 0,
    problems: [],
    passes: [],
  }
}

describe('viaduct status', () => {
  const cases: readonly (readonly [value: StatusSnapshot, sync: string])[] = [
    [snapshot(true, true, 0), 'up to date'],
    [snapshot(true, true, 1), 'up to date'],
    [snapshot(true, false, 0), 'late: events of IPv4 wait for more than two sync periods'],
    [snapshot(false, true, 0), 'starting: not everything is in the kernel yet'],
    [
      snapshot(false, true, 1),
      'incomplete: some objects are not applied; what an earlier run programmed for them stays',
    ],
  ]
  for (const [value, sync] of cases)
    it(`says ${sync.split(':')[0] ?? ''}, with ${value.source.objectsNotApplied} objects not applied`, () => {
      assert.ok(statusTable(value).split('\n').includes(`Sync:     ${sync}`))
    })
})

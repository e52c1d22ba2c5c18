// The screen of `viaduct status`.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { statusTable } from '../../../src/commands/status.js'
import type { StatusSnapshot } from '../../../src/inspect/index.js'

function snapshot(
  isInForce: boolean,
  isHealthy: boolean,
  objectsNotApplied: number,
  hasRefusals = false,
): StatusSnapshot {
  const family = {
    family: 'IPv4',
    isInForce,
    hasRefusals,
    isHealthy,
    lastSync: '2026-01-01T00:00:00.000Z',
    servicePorts: 1,
    endpoints: 1,
  } as const
  return {
    version: '0.2.0',
    commit: '0123456789abcdef0123456789abcdef01234567-dirty',
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

const linesOf = (value: StatusSnapshot): readonly string[] => statusTable(value).split('\n')

describe('viaduct status', () => {
  const cases: readonly (readonly [value: StatusSnapshot, sync: string])[] = [
    [snapshot(true, true, 0), 'up to date'],
    [snapshot(true, true, 1), 'up to date'],
    [
      snapshot(true, true, 0, true),
      'incomplete: the kernel refuses objects of IPv4, which the problems below name',
    ],
    [snapshot(true, false, 0), 'late: events of IPv4 wait for more than two sync periods'],
    [snapshot(false, true, 0), 'starting: not everything is in the kernel yet'],
    [
      snapshot(false, true, 1),
      'incomplete: some objects are not applied; what an earlier run programmed for them stays',
    ],
  ]
  for (const [value, sync] of cases)
    it(`says ${sync.split(':')[0] ?? ''}, with ${value.source.objectsNotApplied} objects not applied`, () => {
      assert.ok(linesOf(value).includes(`Sync:     ${sync}`))
    })

  it('names the build', () => {
    const [first] = linesOf(snapshot(true, true, 0))
    assert.equal(first, 'Version:  0.2.0 (commit 0123456789ab-dirty), up 1s')
  })

  it('names the flavour, and the configured mode if another one runs', () => {
    const base = snapshot(true, true, 0)
    const modes: readonly (readonly [StatusSnapshot['mode'], string])[] = [
      [{ active: 'nftables', configured: 'nftables' }, 'nftables'],
      [{ active: 'iptables', configured: 'iptables', flavour: 'nft' }, 'iptables (flavour nft)'],
      [
        { active: 'iptables', configured: 'ipvs', flavour: 'legacy' },
        'iptables (flavour legacy, configured: ipvs)',
      ],
    ]
    for (const [mode, text] of modes) assert.equal(linesOf({ ...base, mode })[2], `Mode:     ${text}`)
  })

  it('says how many problems it does not show', () => {
    const problems = [{ level: 'error', problem: 'Table is refused', fields: { table: 'nat' } }] as const
    const lines = linesOf({ ...snapshot(true, true, 0), problems, problemCount: 3 })
    const at = lines.indexOf('Problems: 3')
    assert.deepEqual(lines.slice(at + 1, at + 3), [
      '  ERROR Table is refused table="nat"',
      '  and 2 more: see the log',
    ])
  })

  it('has no time of a sync, and no pass, before the first one', () => {
    const base = snapshot(false, true, 0)
    const families = base.families.map((family) => ({ ...family, lastSync: undefined }))
    const lines = linesOf({ ...base, families })
    assert.match(lines.find((line) => line.startsWith('IPv4')) ?? '', /^IPv4 +no +- +1 +1$/)
    assert.ok(lines.includes('Passes: none'))
  })
})

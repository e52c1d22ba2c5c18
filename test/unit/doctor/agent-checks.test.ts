import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type AgentStatus, checks } from '../../../src/doctor/index.js'
import { examinedNode } from '../../support/examined-node.js'

const family = { family: 'IPv4', isHealthy: true, lastSync: '2026-01-01T00:00:00Z' }
const fine: AgentStatus = { version: '1', isInForce: true, families: [family], problemCount: 0, problems: [] }

const cases: readonly {
  readonly what: string
  readonly status: AgentStatus
  readonly found: readonly (readonly [status: string, seen: RegExp])[]
}[] = [
  { what: 'in sync', status: fine, found: [['ok', /^version 1 answers on .*last sync: IPv4 2026/]] },
  { what: 'starting', status: { ...fine, isInForce: false }, found: [['warning', /agent starts/]] },
  {
    what: 'late',
    status: {
      ...fine,
      families: [
        { ...family, isHealthy: false },
        { ...family, family: 'IPv6' },
      ],
    },
    found: [['broken', /events of IPv4 wait/]],
  },
  {
    what: 'with problems',
    status: { ...fine, problemCount: 3, problems: [{ problem: 'Programming failed' }] },
    found: [
      ['warning', /^the agent reports: Programming failed$/],
      ['warning', /^the agent reports 2 more problems$/],
    ],
  },
  {
    what: 'of another version',
    status: { ...fine, version: '2' },
    found: [['warning', /version 2, this command 1/]],
  },
]

describe('the check of a running agent', () => {
  for (const { what, status, found } of cases) {
    it(`of one that is ${what}`, async () => {
      const node = examinedNode({})
      const check = checks.find(({ name }) => name === 'agent')
      const verdicts = (await check?.run({ ...node, agent: { ...node.agent, status } })) ?? []
      assert.deepEqual(
        verdicts.map((verdict) => verdict.status),
        found.map(([each]) => each),
      )
      for (const [index, [, seen]] of found.entries()) assert.match(verdicts[index]?.seen ?? '', seen)
    })
  }
})

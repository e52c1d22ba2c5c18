import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { compareSeniority, type Seniority, seniorityReason } from '../../../src/model/index.js'
import { servicePortKey } from '../../../src/model/testing.js'
import { compareStandings } from '../../../src/routing/testing.js'

const cases: readonly {
  readonly name: string
  readonly owner: Seniority
  readonly loser: Seniority
  readonly reason: string
}[] = [
  {
    name: 'the older Service comes first',
    owner: { service: 'b/x', createdSeconds: 1 },
    loser: { service: 'a/x', createdSeconds: 2 },
    reason: 'which is older',
  },
  {
    name: 'a Service of unknown age is younger than any other',
    owner: { service: 'b/x', createdSeconds: 1 },
    loser: { service: 'a/x', createdSeconds: undefined },
    reason: 'which is older',
  },
  {
    name: 'the name decides between Services of one age',
    owner: { service: 'a/x', createdSeconds: 1 },
    loser: { service: 'b/x', createdSeconds: 1 },
    reason: 'which sorts first',
  },
  {
    name: 'a name comes before a longer one that begins with it',
    owner: { service: 'a/x', createdSeconds: undefined },
    loser: { service: 'a/x-1', createdSeconds: undefined },
    reason: 'which sorts first',
  },
]

describe('the order of Services with an equal right', () => {
  for (const { name, owner, loser, reason } of cases) {
    it(name, () => {
      assert.ok(compareSeniority(owner, loser) < 0)
      assert.ok(compareSeniority(loser, owner) > 0)
      assert.equal(seniorityReason(owner, loser), reason)
    })

    it(`${name}, also for claims on a frontend`, () => {
      const [first, second] = [owner, loser].map(({ service, createdSeconds }) => ({
        route: servicePortKey(service, 'http/TCP'),
        service,
        origin: 'allocated' as const,
        createdSeconds,
      }))
      assert.ok(first !== undefined && second !== undefined)
      assert.ok(compareStandings(first, second) < 0)
      assert.ok(compareStandings(second, first) > 0)
    })
  }

  it('is equal for one Service', () => {
    const service = { service: 'a/x', createdSeconds: 1 }
    assert.equal(compareSeniority(service, { ...service }), 0)
  })
})

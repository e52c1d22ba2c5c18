// `viaduct explain` answers for every row of the traffic table as the packets do, in every mode.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { exceptionKey, exceptionsOf } from '../../traffic/explain-exceptions.js'
import { rulesOfModes } from '../../traffic/packet-modes.js'
import { isExplained } from '../../traffic/explain-checks.js'
import { differencesOfExplain } from '../../traffic/table-on-explain.js'
import { trafficTable } from '../../traffic/table/index.js'

for (const [name, mode] of Object.entries(rulesOfModes)) {
  const protocols = name === 'userspace' ? (['TCP', 'UDP'] as const) : (['TCP', 'UDP', 'SCTP'] as const)
  describe(`explain in mode ${name}`, () => {
    const exceptions = exceptionsOf(name)
    const unused = new Set(Object.keys(exceptions))
    for (const group of mode.groups(trafficTable(protocols))) {
      for (const row of group.cases.filter(({ checks }) => checks.some(isExplained))) {
        it(`${group.name}: ${row.name}`, async () => {
          const key = exceptionKey(group, row)
          const reason = exceptions[key]
          unused.delete(key)
          const failures = await differencesOfExplain(mode, group, row)
          if (reason === undefined) assert.equal(failures.length, 0, failures.join('\n'))
          else assert.ok(failures.length > 0, `is no exception any more: ${reason}`)
        })
      }
    }
    it('has no exception for a row that does not exist', () => assert.deepEqual([...unused], []))
  })
}

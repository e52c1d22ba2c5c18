// The traffic table on the packet model. test/kernel/traffic-iptables.test.ts runs the same rows with real packets.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failuresOnModel, isOnModel } from '../../../traffic/table-on-model.js'
import { trafficTable } from '../../../traffic/table/index.js'

for (const group of trafficTable(['TCP', 'UDP', 'SCTP'])) {
  describe(`the packet model: ${group.name}`, () => {
    for (const row of group.cases.filter(isOnModel)) {
      it(row.name, () => {
        const failures = failuresOnModel(group, row)
        assert.equal(failures.length, 0, `(${row.rules.join(', ')}):\n${failures.join('\n')}`)
      })
    }
  })
}

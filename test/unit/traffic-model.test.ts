// The traffic table above the kernel. The same rows meet real packets in test/kernel/traffic-iptables.test.ts.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failuresOnModel, modelChecks } from '../traffic/table-on-model.js'
import { trafficTable } from '../traffic/table/index.js'

/** Two Services that want the same frontend are settled by the ledger, which is not part of the model. */
const needsLedger = 'ADR 7'

for (const group of trafficTable(['TCP', 'UDP', 'SCTP'])) {
  describe(`the packet model: ${group.name}`, () => {
    const rows = group.cases.filter((row) => !row.rules.includes(needsLedger) && modelChecks(row).length > 0)
    for (const row of rows) {
      it(row.name, () => {
        const failures = failuresOnModel(group, row)
        assert.equal(failures.length, 0, `(${row.rules.join(', ')}):\n${failures.join('\n')}`)
      })
    }
  })
}

import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { openModelKernel } from '../../../model/index.js'
import { PacketCounts } from '../../../../src/layers/xtables/packet-counts.js'

const rules = {
  invalidDropped: { chain: 'KUBE-FORWARD', place: 0 },
  localhostAccepted: { chain: 'KUBE-SERVICES', place: -1 },
}

describe('PacketCounts', () => {
  it('grow with the counters of the rules, also after a reset, a removal or a failed read', async () => {
    const filter = openModelKernel().xtables('ipv4', 'filter')
    await filter.apply(
      [rules.invalidDropped.chain, rules.localhostAccepted.chain].map((chain) => ({
        op: 'set-chain',
        chain,
        rules: [{ target: { kind: 'drop' } }, { target: { kind: 'return' } }],
      })),
    )
    const counts = new PacketCounts(filter)
    const steps = [
      { forward: [7, 1], services: [1, 2], expected: [7, 2] },
      { forward: [9, 1], services: [5, 2], expected: [9, 2] },
      { forward: [4, 9], services: [0, 1], expected: [13, 3] },
      { forward: [5, 9], services: [0, 4], errno: constants.errno.ENOMEM, expected: [13, 3] },
      { forward: [5, 9], services: [0, 4], expected: [14, 6] },
    ]
    for (const { forward, services, errno, expected } of steps) {
      filter.kernel.counted.set('KUBE-FORWARD', forward).set('KUBE-SERVICES', services)
      const calls: string[] = []
      filter.plan = {
        callFault: (call) => {
          calls.push(call)
          return errno
        },
      }
      const { invalidDropped, localhostAccepted } = await counts.read(rules)
      assert.deepEqual([invalidDropped, localhostAccepted], expected)
      assert.deepEqual(calls, ['packets'], 'the table is read once')
    }
    filter.plan = {}
    await filter.apply([{ op: 'remove-chain', chain: 'KUBE-FORWARD' }])
    assert.deepEqual(await counts.read(rules), { invalidDropped: 14, localhostAccepted: 6 })
    assert.deepEqual(await counts.read({}), { invalidDropped: 14, localhostAccepted: 6 })
  })
})

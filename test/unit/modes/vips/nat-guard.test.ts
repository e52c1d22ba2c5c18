import assert from 'node:assert/strict'
import { it, mock } from 'node:test'
import { Registry } from 'prom-client'
import { readAddress } from '../../../../src/address.js'
import { openProblems } from '../../../../src/engine/index.js'
import { openMetrics } from '../../../../src/metrics/index.js'
import { NatGuard, natGuardSet } from '../../../../src/modes/vips/index.js'
import { openModelKernel } from '../../../model/index.js'
import { ip, MemoryLog } from '../../../support/pipeline-lab.js'

it('the guard of VIPs gets those that came while no other program translated addresses, when one begins', async () => {
  const kernel = openModelKernel()
  const translating: string[] = []
  const log = new MemoryLog()
  const guard = new NatGuard({
    family: 'ipv4',
    nftables: Object.assign(kernel.nftables, { tablesWithNat: async () => translating }),
    activeTables: async () => [],
    metrics: openMetrics(new Registry()).ipv4,
    problems: openProblems({ log }),
    hints: openProblems({ log }),
  })
  for (const address of ['192.0.2.1', '192.0.2.2']) guard.put(ip(address), true)
  await guard.write({ isComplete: true })
  guard.put(ip('192.0.2.3'), true)
  const added = mock.method(Set.prototype, 'add')
  guard.put(ip('192.0.2.1'), false)
  added.mock.restore()
  assert.equal(added.mock.callCount(), 0, 'no record of an address that is gone')
  assert.equal(guard.isWriteDue, false)
  translating.push('other')
  await guard.read()
  await guard.write({ isComplete: true })
  const { bytes, stride, length } = await kernel.nftables.elements(natGuardSet('ipv4'))
  const vips = Array.from({ length }, (_, index) => readAddress(bytes, index * stride, 'ipv4'))
  assert.deepEqual(vips.toSorted(), [ip('192.0.2.2'), ip('192.0.2.3')])
  assert.equal(guard.isWriteDue, false)
})

// A program removes objects of the table: that is repaired at once, also beside another agent.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NfOp } from '../../src/kernel/index.js'
import { settle } from '../support/manual-clock.js'
import { NftModeLab, nftLines } from '../support/nft-mode-lab.js'
import { service, set, slice, synced } from '../support/objects.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const table = { family: 'ipv4', table: 'kube-proxy' } as const
const services = { ...table, chain: 'services' } as const
const named = 'Another agent is running'

async function wait(lab: NftModeLab, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    await lab.clock.advance(100)
    await settle()
  }
}

/** Rules that another program writes after each repair, until it counts as another agent. */
async function beside(lab: NftModeLab): Promise<NfOp> {
  const foreign: NfOp = { op: 'add-rule', rule: { ...services, expressions: [{ kind: 'counter' }] } }
  for (let second = 0; second < 8; second++) {
    await lab.asOther(foreign)
    await wait(lab, 1000)
  }
  assert.equal(lab.log.find('warn', named).length, 1)
  return foreign
}

describe('a program that removes rules', () => {
  // Before, it counted as another agent after 5 s, and each repair waited up to 5 s.
  it('is no other agent: each removal is repaired within a second', async () => {
    const lab = new NftModeLab()
    await lab.deliver(...web, synced)
    const right = nftLines(lab.namespace)
    for (let second = 0; second < 15; second++) {
      const rules = await lab.kernel.nftables.rules(services)
      const last = rules.at(-1)
      assert.ok(rules.length > 1 && last !== undefined)
      await lab.asOther({ op: 'delete-rule', rule: services, handle: last.handle })
      assert.notDeepEqual(nftLines(lab.namespace), right)
      await wait(lab, 1000)
      assert.deepEqual(nftLines(lab.namespace), right)
    }
    assert.deepEqual(lab.log.find('warn', named), [])
    await lab.stop()
  })

  const flushes: readonly (readonly [name: string, op: NfOp])[] = [
    ['all rules', { op: 'flush-table', table }],
    ['the table', { op: 'delete-table', table }],
  ]
  for (const [name, op] of flushes)
    // Before, it waited up to 5 s for its repair.
    it(`and removes ${name} beside another agent: that is repaired within a second`, async () => {
      const lab = new NftModeLab()
      await lab.deliver(...web, synced)
      const right = nftLines(lab.namespace)
      const foreign = await beside(lab)
      // The content of the other agent waits for its repair.
      await lab.asOther(foreign)
      await wait(lab, 1000)
      const inContest = nftLines(lab.namespace)
      assert.notDeepEqual(inContest, right)
      await lab.asOther(op)
      await wait(lab, 1000)
      assert.deepEqual(nftLines(lab.namespace), right)
      await lab.stop()
    })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { diagnose } from '../../../src/doctor/index.js'
import { KernelError } from '../../../src/errors.js'
import type { MarkUse } from '../../../src/kernel/testing.js'
import { examinedNode } from '../../support/examined-node.js'

const place = { flavour: 'legacy', family: 'ipv4', table: 'mangle', chain: 'INPUT' } as const
const use: MarkUse = { ...place, rule: 0, bits: 0x80004000, isSet: true }

describe('the check of the mark bits', () => {
  it('names rules of packets where policy routing cannot be read', async () => {
    const node = examinedNode({})
    const refusal = new KernelError({ errno: 1, subsystem: 'route', operation: 'dump policy routing rules' })
    const kernel = {
      ...node.kernel,
      findMarkUses: async () => await Promise.resolve([use]),
      policyRules: async () => await Promise.reject(refusal),
    }
    const found = (await diagnose({ ...node, kernel })).filter(({ check }) => check === 'mark-bits')
    assert.deepEqual(
      found.map(({ status }) => status),
      ['warning', 'unknown'],
    )
    assert.equal(found[1]?.seen, refusal.message)
  })

  it('prints bit 31 without a sign', async () => {
    const node = examinedNode({})
    const kernel = {
      ...node.kernel,
      findMarkUses: async () => await Promise.resolve([use]),
      policyRules: async () => await Promise.resolve([]),
    }
    const { config } = node
    const iptables = { ...config.iptables, masqueradeBit: 31 }
    const nftables = { ...config.nftables, masqueradeBit: 31 }
    const findings = await diagnose({ ...node, kernel, config: { ...config, iptables, nftables } })
    const [found] = findings.filter(({ check }) => check === 'mark-bits')
    assert.match(found?.seen ?? '', /^rule 1 of chain INPUT .* sets the mark bits 0x80000000$/u)
  })
})

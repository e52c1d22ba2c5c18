import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { describePolicyRule } from '../../../src/kernel/index.js'
import { type PolicyRule } from '../../../src/kernel/testing.js'

const rule: PolicyRule = {
  family: 'ipv4',
  priority: 100,
  mark: 0x4000,
  markMask: 0x4000,
  isInverted: false,
  action: 'table',
  table: 100,
}

describe('a policy routing rule in the syntax of ip rule', () => {
  const cases: readonly (readonly [Partial<PolicyRule>, string])[] = [
    [{}, '100: fwmark 0x4000/0x4000 lookup 100'],
    [{ table: 254 }, '100: fwmark 0x4000/0x4000 lookup main'],
    [{ mark: 1, markMask: 0xffffffff }, '100: fwmark 0x1 lookup 100'],
    [{ mark: 0 }, '100: fwmark 0x0/0x4000 lookup 100'],
    [{ mark: 0x80000000, markMask: 0xff000000 }, '100: fwmark 0x80000000/0xff000000 lookup 100'],
    [{ isInverted: true }, '100: not fwmark 0x4000/0x4000 lookup 100'],
    [{ action: 'prohibit', table: 0 }, '100: fwmark 0x4000/0x4000 prohibit'],
  ]
  for (const [changed, text] of cases)
    it(text, () => assert.equal(describePolicyRule({ ...rule, ...changed }), text))
})

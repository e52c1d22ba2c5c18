// The order of the operations in a plan: that in which the tools can run.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { reportPlan } from '../../../src/agent/testing.js'
import type { KernelOperation } from '../../../src/inspect/index.js'

const rule: KernelOperation = {
  tool: 'iptables-legacy',
  effect: 'add',
  object: 'rule',
  table: 'nat',
  text: '-A KUBE-SERVICES -m set --match-set A dst -j ACCEPT',
}

describe('the operations of a plan', () => {
  for (const { name, sets, expected } of [
    {
      name: 'make sets before the rules, and destroy them after the rules',
      sets: ['destroy OLD', 'create A hash:ip', 'add A 192.0.2.1'],
      expected: ['create A hash:ip', 'add A 192.0.2.1', rule.text, 'destroy OLD'],
    },
    {
      name: 'destroy a set of another type before it is made again',
      sets: ['destroy A', 'create A hash:ip'],
      expected: ['destroy A', 'create A hash:ip', rule.text],
    },
    {
      name: 'destroy a set for an exchange before the next exchange',
      sets: [
        'create SWAP hash:ip',
        'swap SWAP A',
        'destroy SWAP',
        'create SWAP hash:ip',
        'swap SWAP B',
        'destroy SWAP',
      ],
      expected: [
        'create SWAP hash:ip',
        'swap SWAP A',
        'destroy SWAP',
        'create SWAP hash:ip',
        'swap SWAP B',
        rule.text,
        'destroy SWAP',
      ],
    },
  ]) {
    it(name, () => {
      const operations = [
        rule,
        ...sets.map((text): KernelOperation => ({ tool: 'ipset', effect: 'add', object: text, text })),
      ]
      const report = reportPlan(
        { mode: 'ipvs', operations, refusedSettings: [] },
        { isSummary: false, modulesNotLoaded: [] },
      )
      assert.deepEqual(
        report.operations?.map(({ text }) => text),
        expected,
      )
    })
  }
})

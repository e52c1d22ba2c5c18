import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { modulesInUse, type RunningAgent } from '../../../src/agent/running-agent.js'

const status = { version: '1', isInForce: true, families: [], problemCount: 0, problems: [] }

describe('the modules that a running agent proves', () => {
  const cases = [
    { mode: 'nftables', input: {}, modules: ['nf_tables'] },
    { mode: 'iptables', input: { iptablesFlavour: 'nft' }, modules: ['nf_tables'] },
    // It may use the legacy tables.
    { mode: 'iptables', input: {}, modules: [] },
    { mode: 'ipvs', input: {}, modules: ['ip_set', 'ip_vs'] },
    { mode: 'ipvs', input: { iptablesFlavour: 'nft' }, modules: ['nf_tables', 'ip_set', 'ip_vs'] },
    { mode: 'userspace', input: { iptablesFlavour: 'nft' }, modules: [] },
  ] as const
  for (const { mode, input, modules } of cases)
    it(`in ${mode} mode with ${JSON.stringify(input)} are ${modules.join(', ') || 'none'}`, () => {
      const answer: RunningAgent['answer'] = { status, mode, input }
      assert.deepEqual(modulesInUse({ answer }), modules)
    })

  it('are none without an agent', () => {
    assert.deepEqual(modulesInUse({ answer: undefined }), [])
  })
})

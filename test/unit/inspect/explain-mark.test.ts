// The work of `explain` for many rules that change the packet mark.
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { FirewallChains } from '../../../src/inspect/index.js'
import { markAt } from '../../../src/inspect/testing.js'
import type { FirewallChain, FirewallRule } from '../../../src/kernel/index.js'
import { ip } from '../../support/routes.js'

it('only the rule that decides has its text made, and other work has its turn after each chain', async () => {
  let texts = 0
  let pauses = 0
  const rule = (bit: number): FirewallRule => ({
    get text() {
      texts++
      return `sets ${bit}`
    },
    matches: {},
    isWhole: true,
    verdict: 'continue',
    mark: { mask: bit, value: bit },
  })
  const chain = (hook: 'prerouting' | 'input', bit: number): FirewallChain => ({
    flavour: 'nft',
    family: 'inet',
    table: 'fw',
    chain: hook,
    entrance: { hook, priority: 0 },
    accepts: true,
    rules: async () => await Promise.resolve(Array.from({ length: 1000 }, () => rule(bit))),
  })
  const chains = new FirewallChains([chain('prerouting', 0x100000), chain('input', 0x1000)])
  const packet = {
    source: ip('10.244.1.11'),
    destination: ip('203.0.113.80'),
    port: 80,
    protocol: 'tcp',
    inInterface: 'pod0',
    isFromNode: false,
    mark: 0x1000,
    marks: { mask: 0x107f, masqueradeMark: 0x4000, chains: [] },
    ownChains: new Map<string, boolean>(),
  } as const
  const pause = async (): Promise<void> => {
    pauses++
    await Promise.resolve()
  }
  const answer = await markAt(packet, { read: async () => await Promise.resolve(chains), pause })
  assert.equal(answer.state, 'other')
  assert.match(answer.by ?? '', /^rule 1 of chain prerouting .* \(sets 1048576\)$/u)
  assert.deepEqual([texts, pauses], [1, 2])
})

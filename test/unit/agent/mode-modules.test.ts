import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { modulesOf } from '../../../src/agent/mode-modules.js'
import { resolveConfig } from '../../../src/config/index.js'
import { compatModules, type KernelModules } from '../../../src/kernel/index.js'
import { type ModuleState } from '../../../src/kernel/testing.js'

const config = resolveConfig({ manifests: 'none' })
const nothing = { loadable: [], unknown: [], absent: [], locked: [], canAsk: true }

/** A kernel that has all modules but these. */
function without(states: Readonly<Record<string, ModuleState>>): Pick<KernelModules, 'state' | 'remedy'> {
  const state = (module: string): ModuleState => states[module] ?? 'present'
  return { state, remedy: (module) => (state(module) === 'present' ? 'present' : 'none') }
}

describe('the modules of a mode', () => {
  const cases = [
    { name: 'userspace', flavour: 'nft', states: { nf_tables: 'loadable' }, found: nothing },
    { name: 'nftables', flavour: 'nft', states: {}, found: nothing },
    {
      name: 'nftables',
      flavour: 'nft',
      states: { nft_masq: 'loadable' },
      found: { ...nothing, loadable: ['nft_masq'], canAsk: false },
    },
    // Newer kernels have it in nf_tables.
    { name: 'nftables', flavour: 'nft', states: { nft_counter: 'absent' }, found: nothing },
    {
      name: 'nftables',
      flavour: 'nft',
      states: { nft_counter: 'unknown' },
      found: { ...nothing, canAsk: false },
    },
    {
      name: 'nftables',
      flavour: 'nft',
      states: { nft_numgen: 'absent' },
      found: { ...nothing, absent: ['nft_numgen'] },
    },
    {
      name: 'ipvs',
      flavour: 'nft',
      states: { ip_vs: 'loadable' },
      found: { ...nothing, loadable: ['ip_vs'], canAsk: false },
    },
    {
      name: 'ipvs',
      flavour: 'nft',
      states: { ip_vs_rr: 'unknown' },
      found: { ...nothing, unknown: ['ip_vs_rr'], canAsk: false },
    },
    { name: 'iptables', flavour: 'legacy', states: { nft_compat: 'loadable' }, found: nothing },
    // The search for the IPv6 tables would load nft_compat.
    {
      name: 'iptables',
      flavour: 'legacy',
      states: { ip6_tables: 'absent', nft_compat: 'loadable' },
      found: { ...nothing, loadable: ['nft_compat'], canAsk: false },
    },
  ] as const
  for (const { name, flavour, states, found } of cases) {
    it(`of ${name} (${flavour}) with ${JSON.stringify(states)}`, () => {
      assert.deepEqual(modulesOf(without(states), { config, name, flavour }), found)
    })
  }

  it('are all named where the kernel may load none before the next boot', () => {
    const { locked } = modulesOf(
      { state: () => 'absent', remedy: (module) => (module === 'xt_comment' ? 'present' : 'boot') },
      { config, name: 'iptables', flavour: 'legacy' },
    )
    assert.equal(
      [...locked].toSorted().join(' '),
      'ip6_tables ip6t_REJECT ip6table_filter ip6table_nat ip_tables ipt_REJECT iptable_filter iptable_nat x_tables ' +
        'xt_MASQUERADE xt_addrtype xt_conntrack xt_mark xt_nat xt_recent xt_statistic xt_tcpudp',
    )
  })

  it('that the flavour nft needs are those of the question for it', () => {
    const states = Object.fromEntries(compatModules.map((module) => [module, 'loadable' as const]))
    const { loadable } = modulesOf(without(states), { config, name: 'ipvs', flavour: 'nft' })
    assert.deepEqual([...loadable].toSorted(), [...compatModules].toSorted())
  })
})

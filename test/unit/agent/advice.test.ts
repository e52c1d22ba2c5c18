// The advice where the kernel lacks a part, by the modules that are installed (issue 43 B1, B3). Before, it always said "this kernel has no
// IP_VS: load it with modprobe", also where the module was installed, and where the kernel may load none before the next boot.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { adviceOn } from '../../../src/agent/index.js'
import { ConfigError, KernelError } from '../../../src/errors.js'
import type { ModuleRemedy } from '../../../src/kernel/testing.js'

const withoutIpvs = new KernelError({
  errno: constants.errno.ENOENT,
  subsystem: 'ipvs',
  operation: 'find generic netlink family IPVS',
})

describe('the advice where the kernel lacks IP_VS', () => {
  const rows: readonly { readonly remedy: ModuleRemedy; readonly sentence: string }[] = [
    { remedy: 'none', sentence: 'this kernel has no IP_VS: run a kernel that has it' },
    {
      remedy: 'load',
      sentence:
        'this kernel has not loaded IP_VS: load it with "modprobe ip_vs", and name ip_vs in a file of /etc/modules-load.d',
    },
    {
      remedy: 'boot',
      sentence:
        'this kernel has not loaded IP_VS, and kernel.modules_disabled forbids it until the next boot: name ip_vs in a file of /etc/modules-load.d and reboot, or run a kernel that has it',
    },
    {
      remedy: 'unknown',
      sentence:
        'this kernel has no IP_VS, or has not loaded it: load it with "modprobe ip_vs", or run a kernel that has it',
    },
  ]
  for (const { remedy, sentence } of rows)
    it(`where its module has the remedy ${remedy}`, () => {
      const advice = adviceOn(withoutIpvs, { remedy: () => remedy, isLocked: remedy === 'boot' })
      assert.equal(advice, `${sentence} (ipvs: find generic netlink family IPVS: ENOENT)`)
    })
})

// Before, it named ip_tables alone, also where it was loaded.
describe('the advice where the kernel lacks modules that belong together', () => {
  const withoutTables = new KernelError({
    errno: constants.errno.ENOPROTOOPT,
    subsystem: 'xtables',
    operation: 'inspect the table',
    family: 'ipv4',
  })
  const rows: readonly {
    readonly name: string
    readonly present: readonly string[]
    readonly remedy: ModuleRemedy
    readonly sentence: string
  }[] = [
    {
      name: 'names all that are missing',
      present: [],
      remedy: 'load',
      sentence:
        'this kernel has not loaded legacy x_tables: load it with "modprobe -a x_tables ip_tables iptable_nat iptable_filter", and name x_tables, ip_tables, iptable_nat and iptable_filter in a file of /etc/modules-load.d',
    },
    {
      name: 'names none that is present',
      present: ['x_tables', 'ip_tables'],
      remedy: 'boot',
      sentence:
        'this kernel has not loaded legacy x_tables, and kernel.modules_disabled forbids it until the next boot: name iptable_nat and iptable_filter in a file of /etc/modules-load.d and reboot, or run a kernel that has it',
    },
    {
      name: 'names no command where all are present',
      present: ['x_tables', 'ip_tables', 'iptable_nat', 'iptable_filter'],
      remedy: 'load',
      sentence:
        'this kernel lacks legacy x_tables, although it has x_tables, ip_tables, iptable_nat and iptable_filter: run a kernel that has it',
    },
  ]
  for (const { name, present, remedy, sentence } of rows)
    it(name, () => {
      const advice = adviceOn(withoutTables, {
        remedy: (module) => (present.includes(module) ? 'present' : remedy),
        isLocked: remedy === 'boot',
      })
      assert.equal(advice, `${sentence} (${withoutTables.message})`)
    })
})

describe('the advice of a setting to load a module', () => {
  const error = new ConfigError('ipvs-scheduler', 'load the module ip_vs_wlc')
  for (const isLocked of [false, true])
    it(`${isLocked ? 'says' : 'does not say'} that it takes a reboot`, () => {
      const advice = adviceOn(error, { remedy: () => 'load', isLocked })
      assert.equal(
        advice,
        isLocked
          ? 'ipvs-scheduler: load the module ip_vs_wlc (kernel.modules_disabled is 1: a module can be loaded only at the next boot)'
          : 'ipvs-scheduler: load the module ip_vs_wlc',
      )
    })
})

describe('a chain type that the kernel lacks', () => {
  it('names its module', () => {
    const error = new KernelError({
      errno: constants.errno.ENOENT,
      subsystem: 'nftables',
      operation: 'probe nf_tables for nftables mode',
      family: 'ipv4',
      object: 'chain type nat',
    })
    assert.match(
      adviceOn(error, { remedy: () => 'load', isLocked: false }),
      /^this kernel has not loaded nf_tables with what nftables mode needs \(chain type nat\): load it with "modprobe nft_chain_nat"/u,
    )
  })
})

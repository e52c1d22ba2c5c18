import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { release, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { KernelModules } from '../../../src/kernel/index.js'

const folder = mkdtempSync(join(tmpdir(), 'viaduct-modules-'))
after(() => rmSync(folder, { recursive: true }))

const lists = `lib/modules/${release()}`
const builtIn = 'kernel/net/netfilter/nf_conntrack.ko\nkernel/net/ipv4/netfilter/ip-tables.ko\n'
const installed =
  'kernel/net/netfilter/nf_tables.ko.xz: kernel/net/netfilter/nfnetlink.ko.xz\nkernel/net/netfilter/nft_masq.ko: \n'

const files = {
  'proc/modules': 'ip_vs 184320 0 - Live 0x0000000000000000\n',
  'sys/module/ip_vs/initstate': 'live\n',
}
const full = { ...files, [`${lists}/modules.builtin`]: builtIn, [`${lists}/modules.dep`]: installed }
const disabled = { 'proc/sys/kernel/modules_disabled': '1\n' }
const locked = { ...full, ...disabled }

describe('the state of a module', () => {
  const cases = [
    { what: 'a kernel that loads no modules', tree: {}, module: 'ip_vs', state: 'present' },
    { what: 'a loaded module', tree: full, module: 'ip_vs', state: 'present' },
    { what: 'a built-in module', tree: full, module: 'nf_conntrack', state: 'present' },
    { what: 'a name with a dash', tree: full, module: 'ip_tables', state: 'present' },
    { what: 'an installed module', tree: full, module: 'nft_masq', state: 'loadable' },
    { what: 'an installed and compressed module', tree: full, module: 'nf_tables', state: 'loadable' },
    { what: 'a module that others need only', tree: full, module: 'nfnetlink', state: 'absent' },
    {
      what: 'a module that is installed, and may not be loaded any more',
      tree: locked,
      module: 'nft_masq',
      state: 'absent',
    },
    { what: 'a loaded module where no other may be loaded', tree: locked, module: 'ip_vs', state: 'present' },
    {
      what: 'a built-in module where no other may be loaded',
      tree: locked,
      module: 'nf_conntrack',
      state: 'present',
    },
    {
      what: 'no lists, where no module may be loaded',
      tree: { ...files, ...disabled },
      module: 'nft_masq',
      state: 'present',
    },
    { what: 'no lists', tree: files, module: 'nft_masq', state: 'unknown' },
    { what: 'no lists, and a loaded module', tree: files, module: 'ip_vs', state: 'present' },
  ]
  it('is present for a module that a program uses, where no file says so', () => {
    const root = join(folder, 'used')
    mkdirSync(join(root, 'proc'), { recursive: true })
    writeFileSync(join(root, 'proc/modules'), '')
    const modules = new KernelModules(root, ['nf_tables'])
    assert.deepEqual([modules.state('nf_tables'), modules.state('ip_set')], ['present', 'unknown'])
    assert.equal(modules.canAsk('nf_tables'), true)
  })

  for (const [index, { what, tree, module, state }] of cases.entries()) {
    it(`is ${state} for ${what}`, () => {
      const root = join(folder, String(index))
      for (const [path, text] of Object.entries(tree)) {
        mkdirSync(dirname(join(root, path)), { recursive: true })
        writeFileSync(join(root, path), text)
      }
      assert.equal(new KernelModules(root).state(module), state)
    })
  }
})

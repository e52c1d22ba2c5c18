// The requests of a plan that load no module, by the files of a node.
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { release, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { isWithoutLegacy, KernelModules } from '../../../src/kernel/system/modules.js'
import { CallCounts } from '../../../src/kernel/request-queue.js'
import { KernelTables } from '../../../src/kernel/xtables/kernel-tables.js'
import { openModelKernel } from '../../model/index.js'

const lists = `lib/modules/${release()}`
const withModules = { 'proc/modules': '', [`${lists}/modules.builtin`]: '', [`${lists}/modules.dep`]: '' }
const file = 'kernel/net/netfilter/ipvs/ip_vs.ko.xz: kernel/net/netfilter/nf_conntrack.ko.xz\n'

const rows = [
  {
    node: 'a kernel without modules',
    files: {},
    expected: { canLoad: false, canAsk: true, isAbsent: false },
  },
  {
    node: 'a loaded module',
    files: { ...withModules, 'sys/module/ip_vs/refcnt': '1' },
    expected: { canLoad: true, canAsk: true, isAbsent: false },
  },
  {
    node: 'a module in the kernel image',
    files: { ...withModules, [`${lists}/modules.builtin`]: 'kernel/net/netfilter/ipvs/ip_vs.ko\n' },
    expected: { canLoad: true, canAsk: true, isAbsent: false },
  },
  {
    node: 'a module that a request loads',
    files: { ...withModules, [`${lists}/modules.dep`]: file },
    expected: { canLoad: true, canAsk: false, isAbsent: false },
  },
  {
    node: 'a module that may not be loaded any more',
    files: { ...withModules, [`${lists}/modules.dep`]: file, 'proc/sys/kernel/modules_disabled': '1\n' },
    expected: { canLoad: false, canAsk: true, isAbsent: true },
  },
  {
    node: 'a kernel that was built without the module',
    files: { ...withModules, [`${lists}/modules.dep`]: 'kernel/net/netfilter/ipvs/ip_vs_rr.ko:\n' },
    expected: { canLoad: true, canAsk: true, isAbsent: true },
  },
  {
    node: 'a container without the lists',
    files: { 'proc/modules': '' },
    expected: { canLoad: true, canAsk: false, isAbsent: false },
  },
]

describe('the modules of the kernel', () => {
  let root: string
  beforeEach(async () => (root = await mkdtemp(join(tmpdir(), 'viaduct-modules-'))))
  afterEach(async () => await rm(root, { recursive: true }))

  const write = async (files: Readonly<Record<string, string>>): Promise<KernelModules> => {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), text)
    }
    return new KernelModules(root)
  }

  for (const { node, files, expected } of rows)
    it(node, async () => {
      const modules = await write(files)
      const { canLoad } = modules
      assert.deepEqual(
        { canLoad, canAsk: modules.canAsk('ip_vs'), isAbsent: modules.state('ip_vs') === 'absent' },
        expected,
      )
      assert.equal(modules.notLoaded().includes('ip_vs'), !expected.canAsk)
    })

  const installed = `${file}kernel/net/netfilter/xt_ipvs.ko:\n`
  // Before Linux 5.16, no request names IP_VS itself: the kernel loads it with the match alone (issue 43 B1). The doctor said that ipvs mode
  // can run where nothing loaded it.
  const loaders = [
    {
      kernel: 'from 5.16 on',
      alias: 'alias net-pf-16-proto-16-family-IPVS ip_vs\n',
      list: file,
      with: undefined,
    },
    { kernel: 'before 5.16', alias: 'alias ipt_ipvs xt_ipvs\n', list: installed, with: 'xt_ipvs' },
  ]
  for (const { kernel, alias, list, with: loader } of loaders)
    it(`IP_VS is loaded by ${loader ?? 'its own request'} ${kernel}`, async () => {
      const modules = await write({
        ...withModules,
        [`${lists}/modules.dep`]: list,
        [`${lists}/modules.alias`]: alias,
      })
      assert.deepEqual([modules.state('ip_vs'), modules.loaderOf('ip_vs')], ['loadable', loader])
      assert.equal(modules.loaderOf('ip_set'), undefined)
    })

  it('IP_VS is absent before 5.16 where its match is not installed', async () => {
    const modules = await write({
      ...withModules,
      [`${lists}/modules.dep`]: file,
      [`${lists}/modules.alias`]: 'alias ipt_set xt_set\n',
    })
    assert.deepEqual([modules.state('ip_vs'), modules.remedy('ip_vs')], ['absent', 'load'])
  })

  const remedies = [
    { node: 'a kernel without modules', files: {}, remedy: 'none' },
    { node: 'a module that is not installed', files: withModules, remedy: 'none' },
    {
      node: 'an installed module',
      files: { ...withModules, [`${lists}/modules.dep`]: file },
      remedy: 'load',
    },
    {
      node: 'an installed module that may not be loaded any more',
      files: { ...withModules, [`${lists}/modules.dep`]: file, 'proc/sys/kernel/modules_disabled': '1\n' },
      remedy: 'boot',
    },
    { node: 'a container without the lists', files: { 'proc/modules': '' }, remedy: 'unknown' },
    {
      node: 'a loaded module',
      files: { ...withModules, 'sys/module/ip_vs/refcnt': '1' },
      remedy: 'present',
    },
    {
      node: 'a module in the kernel image',
      files: { ...withModules, [`${lists}/modules.builtin`]: 'kernel/net/netfilter/ipvs/ip_vs.ko\n' },
      remedy: 'present',
    },
  ]
  for (const { node, files, remedy } of remedies)
    it(`the remedy is ${remedy}: ${node}`, async () => {
      assert.equal((await write(files)).remedy('ip_vs'), remedy)
    })

  const legacy = [
    { node: 'a kernel without modules and legacy tables', files: {}, isWithout: true },
    { node: 'no file of ip_tables', files: withModules, isWithout: true },
    { node: 'a list of tables', files: { 'proc/net/ip_tables_names': '' }, isWithout: false },
    {
      node: 'ip_tables that a start loads',
      files: { ...withModules, [`${lists}/modules.dep`]: 'kernel/net/ipv4/netfilter/ip_tables.ko.zst:\n' },
      isWithout: false,
    },
    { node: 'a container without the lists', files: { 'proc/modules': '' }, isWithout: false },
  ]
  for (const { node, files, isWithout } of legacy)
    it(`legacy tables: ${node}`, async () =>
      assert.equal(isWithoutLegacy('ipv4', await write(files)), isWithout))
})

it('a dry run refuses the legacy tables that the kernel lacks, as the kernel does', async () => {
  const { nftables, ipset } = openModelKernel()
  const tables = new KernelTables({
    addon: () => assert.fail('the kernel is asked'),
    calls: new CallCounts(),
    nftables,
    ipset,
    take: () => {},
    isAbsent: () => true,
    setNames: () => Promise.resolve([]),
  })
  const before = await tables.active('ipv4')
  for (const table of ['nat', 'raw'] as const)
    await assert.rejects(tables.open('ipv4', table).check(), { subsystem: 'xtables', code: 'ENOPROTOOPT' })
  // A table of the dry run would be active now.
  assert.deepEqual(await tables.active('ipv4'), before)
})

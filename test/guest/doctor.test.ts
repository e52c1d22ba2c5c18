// viaduct doctor and the modules of the kernel. Runs in the guest, before any module of netfilter is loaded.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { withLockedModules, withModuleLists, withoutModules } from '../support/kernel-modules.js'
import { Namespace } from '../support/namespaces.js'
import { loadedModules, modes } from '../support/plan-lab.js'
import { treeRoot } from '../support/tree.js'

const Findings = Type.Array(Type.Object({ check: Type.String(), status: Type.String(), seen: Type.String() }))

const command = [
  process.execPath,
  join(treeRoot, 'dist/agent.js'),
  'doctor',
  '--output=json',
  '--socket=/no/socket',
  '--hostname-override=node-a',
  `--manifests=${join(treeRoot, 'examples/shop')}`,
]

describe('viaduct doctor on a kernel with modules that are not loaded', { timeout: 300_000 }, () => {
  let node: Namespace
  before(async () => {
    node = await Namespace.create('node')
    // For the wrapper.
    await node.must('modprobe', '-d', '/run/guest/kernel', 'overlay')
  })
  after(async () => await node.close())

  /** The findings of each check, a line each. Expects that no module was loaded. */
  async function diagnose(
    flags: readonly string[],
    wrapper: readonly string[] = withModuleLists,
  ): Promise<ReadonlyMap<string, string>> {
    const modules = await loadedModules(node)
    assert.doesNotMatch(
      modules,
      /^(?:ip_vs|ip_set|nf_tables|x_tables)$/mu,
      'this file comes before they are loaded',
    )
    const { stdout } = await node.run(...wrapper, ...command, ...flags)
    assert.equal(await loadedModules(node), modules)
    const findings = Value.Parse(Findings, JSON.parse(stdout))
    const found = new Map<string, string>()
    for (const { check, status, seen } of findings)
      found.set(check, `${found.get(check) ?? ''}${status}: ${seen}\n`)
    return found
  }

  for (const [mode, flags] of Object.entries(modes))
    it(`loads none for ${mode}`, async () => {
      const found = await diagnose(flags)
      assert.match(found.get('mode') ?? '', /^ok: .*\n$/u)
      assert.match(found.get('leftovers') ?? '', /^ok: .*\n$/u)
      assert.match(
        found.get('kernel-settings') ?? '',
        /^(?:ok: .*|broken: \/proc\/sys\/net\/ipv4\/ip_forward is 0)\n$/u,
      )
    })

  // Issue 43 B3: leftovers were unknown, as nfnetlink was missing, and the advice was to run modprobe.
  it('finds no leftovers, and advises a reboot, where the kernel may load none of them', async () => {
    await withoutModules('*', async () => {
      const found = await diagnose(['--proxy-mode=ipvs'], withLockedModules)
      assert.match(found.get('leftovers') ?? '', /^ok: .*\n$/u)
      const mode = found.get('mode') ?? ''
      assert.match(
        mode,
        /has not loaded modules of the mode, and kernel\.modules_disabled forbids it until the next boot/u,
      )
      const [, named = ''] = /: name (.*?) in a file of \/etc\/modules-load\.d and reboot/u.exec(mode) ?? []
      for (const module of [
        'ip_vs',
        'ip_vs_rr',
        'ip_set',
        'xt_set',
        'ip_set_hash_ip',
        'iptable_nat',
        'xt_nat',
      ])
        assert.ok(named.split(/, | and /u).includes(module), mode)
      assert.doesNotMatch(mode, /modprobe/u)
    })
  })

  it('says that it does not know them, and loads none, where /lib/modules is not visible', async () => {
    const found = await diagnose(['--proxy-mode=ipvs'], [])
    assert.match(found.get('mode') ?? '', /^unknown: .* the modules of ipvs .*mode: ip_vs, /u)
    for (const check of ['leftovers', 'mark-bits', 'nat-order', 'forward', 'iptables-flavour'])
      assert.match(found.get(check) ?? '', /^unknown: .* has nf_tables, which was not asked\n$/u)
    assert.match(found.get('other-proxies') ?? '', /^(?:unknown: .* which was not asked\n){2}$/u)
  })
})

// The plan of a takeover in ipvs mode is what the takeover does. Runs in the guest: it needs IP_VS and the dummy device.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { isLasting, type KernelOperation } from '../../src/inspect/index.js'
import { withLockedModules } from '../support/kernel-modules.js'
import { KubeProxyState } from '../support/kube-proxy-ipvs.js'
import { Namespace } from '../support/namespaces.js'
import type { Finished } from '../support/processes.js'
import { addNodeAddresses, linesOf, loadedModules, operationsOf, stateOf } from '../support/plan-lab.js'
import { listedState, runSections } from '../support/plan-tools.js'
import { treeRoot } from '../support/tree.js'
import { writeRecordedRules } from '../traffic/reference/recorded-rules.js'
import { families } from '../traffic/table/world.js'
import { kubeProxyNode } from '../traffic/takeover-services.js'

/** Only the initial network namespace can write the limits of conntrack. Before its module is loaded, a plan cannot see that. */
function isOfNamespace({ object }: KernelOperation): boolean {
  return !/nf_conntrack_(?:max|buckets)$/u.test(object)
}

describe('a plan with IP_VS', { timeout: 1_800_000 }, () => {
  let node: Namespace

  beforeEach(async () => {
    node = await Namespace.create('node')
    await addNodeAddresses(node)
  })
  afterEach(async () => await node.close())

  it('loads no module, and says what a start does that loads them, and what the tools do', async () => {
    const modules = await loadedModules(node)
    const planned = (await operationsOf('plan', node, 'ipvs legacy')).filter(isOfNamespace)
    assert.equal(await loadedModules(node), modules)
    const started = await operationsOf('start', node, 'ipvs legacy')
    for (const name of ['ipset', 'ipvsadm', 'ip'] as const)
      assert.ok(
        started.some(({ tool }) => tool === name),
        name,
      )
    assert.deepEqual(linesOf(planned), linesOf(started))
    const copy = await Namespace.create('copy')
    try {
      await addNodeAddresses(copy)
      await runSections(copy, planned)
      assert.deepEqual(await listedState(copy), await listedState(node))
    } finally {
      await copy.close()
    }
  })

  it('refuses a scheduler that is not loaded, where no module may be loaded', async () => {
    await node.must('modprobe', '-a', 'ip_vs', 'ip_vs_rr')
    const loaded = (await loadedModules(node)).split('\n')
    const scheduler = ['fo', 'ovf', 'nq', 'sed', 'dh'].find((name) => !loaded.includes(`ip_vs_${name}`))
    assert.ok(scheduler !== undefined)
    const planIn = [...withLockedModules, process.execPath, join(treeRoot, 'dist/agent.js'), 'plan']
    const shop = ['--manifests', join(treeRoot, 'examples/shop'), '--hostname-override=node-a']
    const plan = async (name: string): Promise<Finished> =>
      await node.run(
        ...planIn,
        ...shop,
        '--proxy-mode=ipvs',
        '--mode-fallback=false',
        `--ipvs-scheduler=${name}`,
      )
    assert.equal((await plan('rr')).code, 0)
    const refused = await plan(scheduler)
    assert.match(refused.stderr, new RegExp(`this kernel has no scheduler "${scheduler}"`, 'u'))
    assert.notEqual(refused.code, 0)
  })

  it('from kube-proxy in ipvs mode changes nothing, and is what the start does', async () => {
    await node.ip('link add kube-ipvs0 type dummy')
    for (const family of families) await new KubeProxyState(kubeProxyNode(family)).load(node, 'legacy')
    const before = await stateOf(node)
    const planned = await operationsOf('plan', node, 'ipvs legacy')
    assert.equal(await stateOf(node), before)
    const started = await operationsOf('start', node, 'ipvs legacy')
    assert.ok(started.some(isLasting))
    assert.deepEqual(linesOf(planned), linesOf(started))
  })

  /** The states of a node that need IP_VS, or from which a start in ipvs mode takes over. */
  const states = {
    'kube-proxy in ipvs mode': async () => {
      await node.ip('link add kube-ipvs0 type dummy')
      for (const family of families) await new KubeProxyState(kubeProxyNode(family)).load(node, 'legacy')
    },
    'kube-proxy in iptables mode': async () => await writeRecordedRules(node, 'legacy'),
    'kube-proxy in iptables mode on iptables-nft': async () => await writeRecordedRules(node, 'nft'),
    'an agent in ipvs legacy mode': async () => void (await operationsOf('start', node, 'ipvs legacy')),
  } as const
  const pairs = [
    ['kube-proxy in ipvs mode', 'nftables'],
    ['kube-proxy in ipvs mode', 'iptables legacy'],
    ['kube-proxy in ipvs mode', 'iptables nft'],
    ['kube-proxy in ipvs mode', 'ipvs nft'],
    ['kube-proxy in ipvs mode', 'userspace'],
    ['kube-proxy in iptables mode', 'ipvs legacy'],
    ['kube-proxy in iptables mode on iptables-nft', 'ipvs nft'],
    ['an agent in ipvs legacy mode', 'nftables'],
  ] as const
  for (const [state, mode] of pairs) {
    it(`from ${state} to ${mode} is what the start does`, async () => {
      await states[state]()
      const planned = await operationsOf('plan', node, mode)
      const started = await operationsOf('start', node, mode)
      assert.ok(started.some(isLasting))
      assert.deepEqual(linesOf(planned), linesOf(started))
    })
  }
})

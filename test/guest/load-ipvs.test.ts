// The start in ipvs mode makes the kernel load IP_VS. Runs in the guest, before other files use IP_VS: it takes the module out.
// Issue 43 B1: before Linux 5.16 the agent fell back to iptables mode after each reboot, since no request named IP_VS.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { withoutModules } from '../support/kernel-modules.js'
import { Namespace } from '../support/namespaces.js'
import { loadedModules } from '../support/plan-lab.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from '../traffic/agent-process.js'

const shop = join(treeRoot, 'examples/shop')

/** The names by which a request for IP_VS itself loads it since Linux 5.16. */
const ownAlias = '*family-IPVS*'

describe('IP_VS that is not loaded', { timeout: 300_000 }, () => {
  let node: Namespace
  beforeEach(async () => {
    node = await Namespace.create('node')
    await node.run(
      'sh',
      '-c',
      'modprobe -r xt_ipvs; modprobe -r -a $(lsmod | sed -n "s/^\\(ip_vs[a-z_]*\\) .*/\\1/p")',
    )
    assert.doesNotMatch(await loadedModules(node), /^ip_vs/mu)
  })
  afterEach(async () => await node.close())

  const without = { 'this kernel': 'none', 'a kernel before 5.16': ownAlias }
  for (const [kernel, modules] of Object.entries(without))
    for (const flavour of ['legacy', 'nft'])
      it(`is loaded by a start in the flavour ${flavour}, with its scheduler, on ${kernel}`, async () => {
        await withoutModules(modules, async () => {
          const flags = ['--mode-fallback=false', `--iptables-flavour=${flavour}`, '--ipvs-scheduler=wlc']
          const agent = AgentProcess.start({ node, manifests: shop, flags })
          await agent.synced()
          const loaded = await loadedModules(node)
          assert.match(loaded, /^ip_vs$/mu)
          assert.match(loaded, /^ip_vs_wlc$/mu)
          assert.match(await node.must('cat', '/proc/net/ip_vs'), /^TCP .* wlc/mu)
          assert.equal((await agent.terminate()).code, 0)
        })
      })
})

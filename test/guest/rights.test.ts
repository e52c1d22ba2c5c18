// After --init-only, ipvs mode needs only CAP_NET_ADMIN (F-103).
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { withNetAdminAlone, withReadOnlySettings } from '../support/rights.js'
import { treeRoot } from '../support/tree.js'
import { agentCommand, AgentProcess } from '../traffic/agent-process.js'

const manifests = join(treeRoot, 'examples/shop')
// Only the initial network namespace can set the limit of tracked connections.
const flags = ['--conntrack-max-per-core=0', '--ipvs-strict-arp', '--ipvs-tcp-timeout=16m']

describe('an agent that may not write settings', { timeout: 300_000 }, () => {
  it('serves with the settings of --init-only', async () => {
    const node = await Namespace.create('node-a')
    try {
      await node.must(...agentCommand('--manifests', manifests, ...flags, '--init-only'))
      assert.equal((await node.must('ipvsadm', '-Sn')).trim(), '')
      const before = [...withReadOnlySettings, ...withNetAdminAlone()]
      const agent = AgentProcess.start({ node, manifests, before, flags })
      await agent.synced()
      assert.match(await node.must('ipvsadm', '-Sn'), /^-A -t 10\.96\.0\.10:53 /m)
      const { code, stdout } = await agent.terminate()
      assert.equal(code, 0)
      assert.doesNotMatch(stdout, /"level":"error"|Kernel setting/u)
    } finally {
      await node.close()
    }
  })
})

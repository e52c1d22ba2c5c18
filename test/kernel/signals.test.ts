// Signals to the shipped agent, which is in iptables mode in a namespace of its own and has nothing to do.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

describe('signals', { timeout: 60_000 }, () => {
  let folder: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-signals-'))
    node = await Namespace.create('node')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  async function started(): Promise<Program> {
    const own = ['--manifests', folder, '--proxy-mode', 'iptables', '--hostname-override', 'node-a']
    const agent = node.start(process.execPath, agentFile, ...own)
    await agent.line((line) => line.includes('viaduct starts'))
    return agent
  }

  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    it(`${signal} ends it in order`, async () => {
      const agent = await started()
      agent.signal(signal)
      const { code, stdout } = await agent.ended
      assert.equal(code, 0)
      assert.match(stdout, new RegExp(`"signal":"${signal}".*the kernel stays as it is`))
    })
  }

  it('SIGUSR2 lets the log show everything, and then again what -v says; SIGUSR1 opens no debugger', async () => {
    const agent = await started()
    agent.signal('SIGUSR1')
    for (const v of [4, 0, 4]) {
      const from = agent.lines.length
      agent.signal('SIGUSR2')
      const line = await agent.line((text) => text.includes('Verbosity of the log changed'), from)
      assert.match(line, new RegExp(`"v":${v},`))
    }
    agent.signal('SIGTERM')
    const { code, stderr } = await agent.ended
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
  })
})

// Issue 18, C10: the shipped agent starts with too few open files, and continues when the limit is raised.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { mustRun, type Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

/** A script to load before the agent. It lowers the limit, because Node raises the soft limit to the hard limit at its start. */
const limiter =
  "require('node:child_process').execFileSync('prlimit', ['--pid', String(process.pid), `--nofile=${process.env.SOFT_LIMIT}:`])"

describe('an agent with too few open files', { timeout: 60_000 }, () => {
  let folder: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-short-'))
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'limiter.cjs'), limiter)
    node = await Namespace.create('node')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  async function started(limit: number): Promise<{ readonly agent: Program; readonly isShort: boolean }> {
    const program = [process.execPath, '--require', join(folder, 'limiter.cjs'), agentFile]
    const flags = ['--manifests', join(folder, 'manifests'), '--proxy-mode', 'iptables']
    const agent = node.start(
      'env',
      `SOFT_LIMIT=${limit}`,
      ...program,
      ...flags,
      '--hostname-override',
      'node-a',
    )
    const line = await agent.line((one) => /lacks resources for the start|viaduct starts/u.test(one))
    return { agent, isShort: line.includes('lacks') }
  }

  /** An agent with the largest limit at which a kernel socket cannot be opened. */
  async function startedShort(): Promise<Program> {
    const { agent: whole } = await started(1024)
    const descriptors = readdirSync(`/proc/${whole.pid}/fd`).length
    await whole.kill()
    for (let limit = descriptors; ; limit--) {
      const { agent, isShort } = await started(limit)
      if (isShort) return agent
      await agent.kill()
    }
  }

  it('starts as soon as the limit is raised', async () => {
    const agent = await startedShort()
    await mustRun(['prlimit', '--pid', String(agent.pid), '--nofile=1024:'])
    await agent.line((line) => line.includes('viaduct starts'))
    const lines = agent.lines.filter((line) => /resources for the start/u.test(line))
    assert.equal(lines.length, 2, lines.join('\n'))
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
  })

  it('ends at once on SIGTERM', async () => {
    const agent = await startedShort()
    agent.signal('SIGTERM')
    const { code, stdout } = await agent.ended
    assert.equal(code, 0)
    assert.doesNotMatch(stdout, /viaduct starts/u)
  })
})

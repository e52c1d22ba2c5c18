// Issue 35, B9: the shipped agent outlasts waits that fail for a shortage of memory. In both modes with nf_tables it ended.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiService, apiSlice } from '../support/api-documents.js'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

/** Every second poll() of each thread fails. The first one of the main thread belongs to the start of Node. */
const failing = ['-e', 'trace=poll', '-e', 'inject=poll:error=ENOMEM:when=2+2', '-e', 'signal=none']
const withFailingWaits = ['strace', '-D', '-f', '--seccomp-bpf', '-o', '/dev/null', ...failing]

function isDone(line: string): boolean {
  return ['"Sync done"', '"complete":true', '"IPv4"'].every((word) => line.includes(word))
}

describe('an agent whose waits fail', { timeout: 120_000 }, () => {
  let folder: string
  let node: Namespace

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-waits-'))
    mkdirSync(join(folder, 'manifests'))
    node = await Namespace.create('node')
  })

  afterEach(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  function putEndpoint(address: string): void {
    const objects = [
      { apiVersion: 'v1', kind: 'Service', ...apiService('web', '10.96.0.10') },
      { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...apiSlice('web-1', 'web', [address]) },
    ]
    writeFileSync(
      join(folder, 'manifests/web.json'),
      JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
    )
  }

  for (const flags of [
    ['nftables'],
    ['iptables', '--iptables-flavour=nft'],
    ['iptables', '--iptables-flavour=legacy'],
    ['userspace'],
  ]) {
    it(`follows changes in ${flags.join(' ')}`, async () => {
      putEndpoint('10.1.0.1')
      const own = ['--manifests', join(folder, 'manifests'), '--hostname-override=node-a', '-v=2']
      const program = [process.execPath, agentFile, ...own, '--proxy-mode', ...flags]
      const agent = node.start(...withFailingWaits, ...program)
      await agent.line(isDone)
      // Each wait for events has an end, and begins again.
      for (const address of ['10.1.0.2', '10.1.0.3']) {
        const from = agent.lines.length
        putEndpoint(address)
        await agent.line(isDone, from)
      }
      // A change of an interface reaches the agent through a wait.
      await node.must('ip', 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name', 'v1')
      agent.signal('SIGTERM')
      const { code, stdout, stderr } = await agent.ended
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
      assert.doesNotMatch(stdout, /ENOMEM|cannot be watched/u)
    })
  }
})

// userspace mode in a container without CAP_NET_BIND_SERVICE, and with it.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { askInNamespace } from '../support/page-question.js'
import type { Program } from '../support/processes.js'
import { withRights } from '../support/rights.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

/** `low` has a port below 1024, `high` has none. */
const manifests = [
  { name: 'low', port: 443 },
  { name: 'high', port: 8443 },
]
  .map(
    ({ name, port }) => `
apiVersion: v1
kind: Service
metadata: { name: ${name}, namespace: default }
spec: { clusterIP: 10.96.0.1, ports: [{ port: ${port} }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ port: 6443, protocol: TCP }]
endpoints: [{ addresses: [192.0.2.1], conditions: { ready: true } }]
`,
  )
  .concat('apiVersion: v1\nkind: Node\nmetadata: { name: node-a }\n')
  .join('---\n')

describe('userspace mode', { timeout: 120_000 }, () => {
  let folder: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-userspace-rights-'))
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'manifests', 'all.yaml'), manifests)
    node = await Namespace.create('node')
    await node.ip('address add 192.0.2.1/24 dev lo')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  /** Runs the agent with these capabilities until its first sync is over. */
  async function withAgent(capabilities: readonly string[], look: (agent: Program) => Promise<void>) {
    const agent = node.start(
      ...withRights(capabilities),
      process.execPath,
      agentFile,
      '--proxy-mode=userspace',
      '-v=2',
      '--hostname-override=node-a',
      '--bind-address=192.0.2.1',
      `--manifests=${join(folder, 'manifests')}`,
      `--control-socket=${join(folder, 'socket')}`,
    )
    await agent.line((line) => /Control socket listens/u.test(line))
    await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
    await agent.line((line) => /health.* server listens/iu.test(line))
    try {
      await look(agent)
    } finally {
      await agent.kill()
    }
  }

  function ask(...words: readonly string[]): string {
    const line = [agentFile, ...words, `--socket=${join(folder, 'socket')}`]
    const { status, stdout, stderr } = spawnSync(process.execPath, line, { encoding: 'utf8' })
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
    return stdout
  }

  async function codeOf(page: string): Promise<number> {
    const [code] = await askInNamespace(node, `http://127.0.0.1:10256${page}`)
    return code
  }

  // Before, `status` said "up to date" and IN FORCE yes, and /healthz 200, while the port of the API server was refused.
  it('without CAP_NET_BIND_SERVICE says so, is not in force, and is not healthy', async () => {
    await withAgent(['net_admin'], async (agent) => {
      const lack = agent.lines.find((line) => line.includes('CAP_NET_BIND_SERVICE'))
      assert.match(lack ?? '', /"level":"error".*userspace mode lacks CAP_NET_BIND_SERVICE: /u)
      const status = ask('status')
      assert.match(status, /^Sync: +incomplete: the kernel refuses objects of IPv4/mu)
      assert.match(status, /^IPv4 +no /mu)
      assert.match(status, /CAP_NET_BIND_SERVICE/u)
      assert.doesNotMatch(ask('services', 'default/low', '-o', 'json'), /"since"/u)
      assert.deepEqual([await codeOf('/healthz'), await codeOf('/livez')], [503, 200])
      assert.match(await node.must('ss', '-Hlnt'), /10\.96\.0\.1:8443/u)
    })
  })

  it('with CAP_NET_BIND_SERVICE serves the port, and is healthy', async () => {
    await withAgent(['net_admin', 'net_bind_service'], async (agent) => {
      assert.ok(!agent.lines.some((line) => line.includes('"level":"error"')))
      assert.match(ask('status'), /^Sync: +up to date$/mu)
      assert.deepEqual([await codeOf('/healthz'), await codeOf('/livez')], [200, 200])
      assert.match(await node.must('ss', '-Hlnt'), /10\.96\.0\.1:443 /u)
    })
  })
})

// A start with a blank mode on a node that another mode has served: an upgrade from a version in which blank meant another mode, or a
// mode that was taken out of the configuration.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiService, apiSlice } from '../support/api-documents.js'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'

const inForce = /"IPv4".*"Sync done"/u
const left = /Leftovers of userspace mode: removed/u

describe('a blank mode after userspace mode', { timeout: 60_000 }, () => {
  let manifests: string
  let node: Namespace
  before(async () => {
    manifests = mkdtempSync(join(tmpdir(), 'viaduct-blank-'))
    const documents = [
      { apiVersion: 'v1', kind: 'Service', ...apiService('web', '10.96.0.10') },
      { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...apiSlice('web-1', 'web', ['10.1.0.1']) },
    ]
    writeFileSync(join(manifests, 'web.yaml'), documents.map((each) => JSON.stringify(each)).join('\n---\n'))
    node = await Namespace.create('node')
    await node.ip('link add eth0 type veth peer name eth1', 'address add 192.0.2.7/24 dev eth0')
  })
  after(async () => {
    await node.close()
    rmSync(manifests, { recursive: true })
  })

  /** Runs an agent until everything is in force and the leftovers are removed. Returns its warnings about a changed mode. */
  async function run(marker: RegExp, ...flags: readonly string[]): Promise<readonly string[]> {
    const always = ['--conntrack-max-per-core=0', '--hostname-override=node-a', '-v=2']
    const agentFile = join(treeRoot, 'dist/agent.js')
    const agent = node.start(process.execPath, agentFile, ...always, '--manifests', manifests, ...flags)
    await agent.line((line) => marker.test(line))
    agent.signal('SIGTERM')
    const { code, stdout } = await agent.ended
    assert.equal(code, 0)
    return stdout.split('\n').filter((line) => line.includes('"Mode changes'))
  }

  // Before, nothing said that the meaning of a blank mode moves the node to another mode.
  it('has one warning, with the way to keep the mode', async () => {
    await run(inForce, '--proxy-mode=userspace')
    assert.match(await node.must('ip', 'route', 'show', 'table', 'local'), /10\.96\.0\.10/u)
    const [line = '', ...others] = await run(left)
    assert.match(line, /"level":"warn"/u)
    assert.match(
      line,
      /Mode changes from userspace to iptables, because mode is unset: 1 VIPs .* set mode: userspace"/u,
    )
    assert.deepEqual(others, [])
  })

  it('has none at the next start', async () => {
    assert.deepEqual(await run(inForce), [])
  })

  it('has none where the configuration names the mode', async () => {
    await run(inForce, '--proxy-mode=userspace')
    assert.deepEqual(await run(left, '--proxy-mode=iptables'), [])
  })
})

// viaduct doctor beside a running agent: whose configuration it checks, and what it says about the agent.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Namespace } from '../support/namespaces.js'
import type { Finished } from '../support/processes.js'
import { withNetAdminAlone } from '../support/rights.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const Found = Type.Object({ check: Type.String(), status: Type.String(), seen: Type.String() })
type Found = Static<typeof Found>

const manifest = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.96.0.10, ports: [{ port: 80, protocol: TCP }] }
`

function find(found: readonly Found[], name: string): Found | undefined {
  return found.find(({ check }) => check === name)
}

describe('viaduct doctor beside an agent', { timeout: 120_000 }, () => {
  let folder: string
  let socket: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-doctor-agent-'))
    socket = join(folder, 'viaduct.sock')
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'manifests', 'all.yaml'), manifest)
    node = await Namespace.create('node')
    const flags = ['--proxy-mode=nftables', '--config-sync-period=1m', '--feature-gates=NoSuchGate=true']
    const agent = node.start(
      process.execPath,
      agentFile,
      ...flags,
      `--manifests=${join(folder, 'manifests')}`,
      '--hostname-override=node-a',
      `--control-socket=${socket}`,
      '-v=2',
    )
    await agent.line((line) => /Control socket listens/u.test(line))
    await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
  })
  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  async function doctor(at: string, ...words: readonly string[]): Promise<Finished> {
    return await node.run(process.execPath, agentFile, 'doctor', '--socket', at, ...words)
  }

  async function findings(at: string, ...words: readonly string[]): Promise<readonly Found[]> {
    const { stdout } = await doctor(at, '-o', 'json', ...words)
    return Value.Parse(Type.Array(Found), JSON.parse(stdout))
  }

  it('checks the node for the configuration of the agent, and says so', async () => {
    const found = await findings(socket)
    const [agent, mode, api, configuration] = ['agent', 'mode', 'api-server', 'configuration'].map((name) =>
      find(found, name),
    )
    assert.equal(agent?.status, 'ok')
    assert.match(
      agent?.seen ?? '',
      /^version \S+ \(commit \S+\) answers on .*viaduct\.sock, last sync: IPv4 20/u,
    )
    assert.match(agent?.seen ?? '', /the configuration is that of the agent on .*viaduct\.sock$/u)
    assert.match(mode?.seen ?? '', /^nftables mode can run/u)
    assert.equal(api?.seen, 'manifests are the source')
    assert.match(configuration?.seen ?? '', /NoSuchGate/u)
    const { stdout } = await doctor(socket)
    assert.match(stdout, /^the configuration is that of the agent on .*viaduct\.sock\n/u)
  })

  it('lets flags of the command win', async () => {
    const found = await findings(socket, '--proxy-mode=userspace')
    assert.match(find(found, 'mode')?.seen ?? '', /^userspace mode can run/u)
    assert.match(find(found, 'agent')?.seen ?? '', /, and --proxy-mode of this command$/u)
    assert.equal(find(found, 'api-server')?.seen, 'manifests are the source')
  })

  it('takes the whole configuration from the file of --config', async () => {
    const file = join(folder, 'config.yaml')
    writeFileSync(
      file,
      'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: userspace\n',
    )
    const found = await findings(socket, `--config=${file}`)
    assert.match(find(found, 'mode')?.seen ?? '', /^userspace mode can run/u)
    assert.doesNotMatch(find(found, 'agent')?.seen ?? '', /configuration/u)
    assert.notEqual(find(found, 'api-server')?.seen, 'manifests are the source')
  })

  it('notes that an agent runs which has another socket', async () => {
    const agent = find(await findings(join(folder, 'none'), `--manifests=${folder}`), 'agent')
    assert.equal(agent?.status, 'warning')
    assert.match(agent?.seen ?? '', /^an agent runs \(pid \d+\), and there is no .*none$/u)
  })

  it('warns of a socket on which nothing usable answers', async () => {
    const other = createServer((_request, response) => response.writeHead(404).end('no page'))
    const path = join(folder, 'other.sock')
    await new Promise<void>((resolve) => other.listen(path, resolve))
    try {
      const agent = find(await findings(path, `--manifests=${folder}`), 'agent')
      assert.equal(agent?.status, 'warning')
      assert.match(agent?.seen ?? '', /does not know \/v1\/(?:status|configuration)/u)
    } finally {
      await new Promise((resolve) => other.close(resolve))
    }
  })
})

// Before, the doctor assumed the configured mode: it took the agent's own table for one that a former proxy left, and advised to remove it.
describe(
  'viaduct doctor with CAP_NET_ADMIN alone, beside an agent in its fallback',
  { timeout: 60_000 },
  () => {
    it('judges the node by the mode that runs', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'viaduct-doctor-fallback-'))
      const node = await Namespace.create('node')
      try {
        const socket = join(folder, 'viaduct.sock')
        mkdirSync(join(folder, 'manifests'))
        writeFileSync(join(folder, 'manifests', 'all.yaml'), manifest)
        const source = ['--manifests', join(folder, 'manifests'), '--hostname-override=node-a', '-v=2']
        // This kernel has no IP_VS.
        const flags = ['--proxy-mode=ipvs', '--iptables-flavour=nft', '--control-socket', socket]
        const agent = node.start(process.execPath, agentFile, ...source, ...flags)
        await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
        const doctor = [process.execPath, agentFile, 'doctor', '--socket', socket, '-o', 'json']
        const { stdout } = await node.run(...withNetAdminAlone(), ...doctor)
        const found = Value.Parse(Type.Array(Found), JSON.parse(stdout))
        assert.match(find(found, 'mode')?.seen ?? '', /^whether iptables \(nft\) mode can run is not known/u)
        assert.equal(find(found, 'leftovers')?.status, 'ok')
      } finally {
        await node.close()
        rmSync(folder, { recursive: true })
      }
    })
  },
)

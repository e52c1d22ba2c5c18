// The shipped agent with an API server, in iptables mode on this machine's kernel: it serves Services, follows changes, and keeps its
// rules during an outage of the server. With --master, and with a kubeconfig that has a client certificate.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { apiNode, apiService, apiSlice } from '../support/api-documents.js'
import { makeCertificate } from '../support/certificates.js'
import { Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { afterSyncs } from '../support/syncs.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const serverFile = join(treeRoot, 'out/ts/test/support/fake-api-program.js')
const port = 8001

const folder = mkdtempSync(join(tmpdir(), 'viaduct-api-source-'))
const kubeconfig = join(folder, 'config')
const serverOptions = join(folder, 'server.json')

before(() => {
  const [certificate, person] = [makeCertificate(), makeCertificate('node-a')]
  writeFileSync(serverOptions, JSON.stringify({ certificate, clientAuthorities: [person.cert] }))
  writeFileSync(join(folder, 'ca.crt'), certificate.cert)
  writeFileSync(join(folder, 'person.crt'), person.cert)
  writeFileSync(join(folder, 'person.key'), person.key)
  const cluster = { server: `https://127.0.0.1:${port}`, 'certificate-authority': 'ca.crt' }
  const user = { 'client-certificate': 'person.crt', 'client-key': 'person.key' }
  const document = {
    'current-context': 'here',
    contexts: [{ name: 'here', context: { cluster: 'here', user: 'node' } }],
    clusters: [{ name: 'here', cluster }],
    users: [{ name: 'node', user }],
  }
  writeFileSync(kubeconfig, JSON.stringify(document))
})

after(() => rmSync(folder, { recursive: true }))

const accesses = [
  { name: 'by --master', server: [], agent: ['--master', `http://127.0.0.1:${port}`] },
  { name: 'by --kubeconfig', server: [serverOptions], agent: ['--kubeconfig', kubeconfig] },
]

for (const access of accesses)
  describe(`the agent on an API server, ${access.name}`, { timeout: 60_000 }, () => {
    let node: Namespace
    let server: Program
    let agent: Program

    before(async () => {
      node = await Namespace.create('node')
    })

    after(async () => {
      await node.close()
    })

    async function send(...command: readonly unknown[]): Promise<void> {
      const line = JSON.stringify(command)
      const from = server.lines.length
      server.write(`${line}\n`)
      await server.line((text) => text === line, from)
    }

    /** Starts a server. Its resource versions continue after `former` changes. */
    async function startServer(endpoints: readonly string[], former = 0): Promise<void> {
      server = node.start(process.execPath, serverFile, String(port), ...access.server)
      await send('put', 'Node', apiNode('node-a'))
      await send('put', 'Service', apiService('web', '10.96.0.10'))
      await send('put', 'EndpointSlice', apiSlice('web-1', 'web', endpoints))
      for (let i = 0; i < former; i++) await send('compact')
      await send('listen')
    }

    async function ruleEndpoints(): Promise<readonly string[]> {
      const rules = await node.must('iptables-legacy-save', '-t', 'nat')
      return [...rules.matchAll(/--to-destination (\S+)/g)].map(([, to = '']) => to).toSorted()
    }

    /** Waits until the rules have exactly these endpoints. */
    async function haveEndpoints(...expected: readonly string[]): Promise<void> {
      await afterSyncs(agent, ruleEndpoints, (found) => found.join(' ') === expected.join(' '))
    }

    it('serves the listed Services', async () => {
      await startServer(['10.1.0.1'])
      const own = [
        ...access.agent,
        '--proxy-mode',
        'iptables',
        '--iptables-flavour=legacy',
        '--hostname-override',
        'node-a',
      ]
      agent = node.start(process.execPath, agentFile, ...own, '-v', '2')
      await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
      await haveEndpoints('10.1.0.1:8080')
    })

    it('follows a change', async () => {
      await send('put', 'EndpointSlice', apiSlice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))
      await haveEndpoints('10.1.0.1:8080', '10.1.0.2:8080')
    })

    it('keeps the kernel state during an outage of the server, and then applies the changes', async () => {
      const from = agent.lines.length
      server.signal('SIGKILL')
      await server.ended
      await agent.line((line) => line.includes('API server cannot be watched'), from)
      await haveEndpoints('10.1.0.1:8080', '10.1.0.2:8080')
      await startServer(['10.1.0.3'], 10)
      await haveEndpoints('10.1.0.3:8080')
      await agent.line((line) => line.includes('API server is watched now'), from)
    })

    it('takes over the older state of a server whose etcd was restored', async () => {
      const from = agent.lines.length
      server.signal('SIGKILL')
      await server.ended
      await startServer(['10.1.0.4'])
      await haveEndpoints('10.1.0.4:8080')
      await agent.line((line) => line.includes('all objects are listed again'), from)
    })

    it('removes a deleted Service, and stops', async () => {
      await send('remove', 'Service', 'default/web')
      await haveEndpoints()
      agent.signal('SIGTERM')
      assert.equal((await agent.ended).code, 0)
    })
  })

describe('a kubeconfig that is not valid', { timeout: 60_000 }, () => {
  it('ends the agent with the reason in one sentence', async () => {
    const node = await Namespace.create('node')
    const path = join(folder, 'broken')
    writeFileSync(path, 'kind: Pod')
    const { code, stderr } = await node.run(process.execPath, agentFile, '--kubeconfig', path)
    assert.deepEqual({ code, stderr }, { code: 1, stderr: `viaduct: ${path}: kind: must be Config\n` })
    await node.close()
  })
})

// The shipped agent as in a pod: it uses TLS and the token of a service account, and reaches the API server through a Service that it
// programs itself. It has its own mount namespace, so that the fixed path of the service account exists only there.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiNode, apiService, apiSlice } from '../support/api-documents.js'
import { makeCertificate } from '../support/certificates.js'
import { Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { afterSyncs } from '../support/syncs.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const serverFile = join(treeRoot, 'out/ts/test/support/fake-api-program.js')
const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount'
/** Ports of the server and of its Service. */
const [serverPort, servicePort] = [9443, 8443]
const way = ['OUTPUT', '-p', 'tcp', '-d', '127.0.0.1', '--dport', String(servicePort)]
const firstWay = [...way, '-j', 'DNAT', '--to-destination', `127.0.0.1:${serverPort}`]
const apiBackend = `127.0.0.1:${serverPort}`

const inPod = [
  'mount -t tmpfs tmpfs /var/run',
  `mkdir -p ${serviceAccount}`,
  `mount --bind "$1" ${serviceAccount}`,
  'shift',
  'exec "$@"',
].join(' && ')

describe('the agent in a pod', { timeout: 120_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-in-cluster-'))
  const certificate = makeCertificate()
  let token = 'first'
  let node: Namespace
  let server: Program
  let agent: Program

  before(async () => {
    writeFileSync(join(folder, 'ca.crt'), certificate.cert)
    writeFileSync(join(folder, 'token'), token)
    node = await Namespace.create('node')
    // A connection to its own sender is masqueraded, which does not work with 127.0.0.1.
    await node.ip('address add 192.0.2.1/32 dev lo')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  async function send(...command: readonly unknown[]): Promise<void> {
    const line = JSON.stringify(command)
    const from = server.lines.length
    server.write(`${line}\n`)
    await server.line((text) => text === line, from)
  }

  async function setApiEndpoints(...addresses: readonly string[]): Promise<void> {
    const slice = apiSlice('kubernetes', 'kubernetes', addresses)
    const ports = [{ name: 'https', protocol: 'TCP', port: serverPort }]
    await send('put', 'EndpointSlice', { ...slice, ports })
  }

  /** Starts a server. Its resource versions continue after `former` changes. */
  async function startServer(services: Readonly<Record<string, string>>, former = 0): Promise<void> {
    const options = join(folder, 'server.json')
    writeFileSync(options, JSON.stringify({ certificate, authorization: `Bearer ${token}` }))
    server = node.start(process.execPath, serverFile, String(serverPort), options)
    for (let i = 0; i < former; i++) await send('compact')
    await send('put', 'Node', apiNode('node-a'))
    const ports = [{ name: 'https', protocol: 'TCP', port: servicePort }]
    await send('put', 'Service', apiService('kubernetes', '127.0.0.1', { ports }))
    await setApiEndpoints('127.0.0.1')
    let count = 0
    for (const [name, endpoint] of Object.entries(services)) {
      await send('put', 'Service', apiService(name, `10.96.0.${10 + count++}`))
      await send('put', 'EndpointSlice', apiSlice(name, name, [endpoint]))
    }
    await send('listen')
  }

  async function endpoints(): Promise<readonly string[]> {
    const rules = await node.must('iptables-legacy-save', '-t', 'nat')
    return [...rules.matchAll(/--to-destination (\S+)/g)].map(([, to = '']) => to).toSorted()
  }

  async function haveEndpoints(...expected: readonly string[]): Promise<void> {
    const all = expected.toSorted().join(' ')
    await afterSyncs(agent, endpoints, (found) => found.join(' ') === all)
  }

  it('authenticates, and programs the Service through which it reaches the server', async () => {
    await startServer({ web: '10.1.0.1', gone: '10.1.0.2' })
    await node.must('iptables-legacy', '-t', 'nat', '-A', ...firstWay)
    const pod = ['unshare', '--mount', 'sh', '-c', inPod, 'sh', folder]
    const environment = ['KUBERNETES_SERVICE_HOST=127.0.0.1', `KUBERNETES_SERVICE_PORT=${servicePort}`]
    const flags = [
      '--proxy-mode',
      'iptables',
      '--iptables-flavour=legacy',
      '--hostname-override',
      'node-a',
      '-v',
      '2',
    ]
    agent = node.start(...pod, 'env', ...environment, process.execPath, agentFile, ...flags)
    await haveEndpoints('10.1.0.1:8080', '10.1.0.2:8080', apiBackend, apiBackend)
    await node.must('iptables-legacy', '-t', 'nat', '-D', ...firstWay)
    await haveEndpoints('10.1.0.1:8080', '10.1.0.2:8080', apiBackend)
  })

  it('follows the server over new connections through its own rules', async () => {
    const from = agent.lines.length
    await send('drop')
    await agent.line((line) => line.includes('API server cannot be watched'), from)
    await agent.line((line) => line.includes('API server is watched now'), from)
    await send('put', 'EndpointSlice', apiSlice('web', 'web', ['10.1.0.3']))
    await haveEndpoints('10.1.0.2:8080', '10.1.0.3:8080', apiBackend)
  })

  it('keeps this path when the server leaves its Service and stops, and then applies the changes', async () => {
    const from = agent.lines.length
    await setApiEndpoints()
    await agent.line(
      (line) => line.includes('Service of the API server has no endpoints; the last ones stay in use'),
      from,
    )
    server.signal('SIGKILL')
    await server.ended
    await agent.line((line) => line.includes('API server cannot be watched'), from)
    assert.deepEqual(await endpoints(), ['10.1.0.2:8080', '10.1.0.3:8080', apiBackend])
    await startServer({ web: '10.1.0.4' }, 100)
    await haveEndpoints('10.1.0.4:8080', apiBackend)
    await agent.line(
      (line) => line.includes('Service of the API server uses its current endpoints again'),
      from,
    )
  })

  it('sends the current token of the file when the old one is refused', async () => {
    const from = agent.lines.length
    token = 'second'
    await send('authorize', `Bearer ${token}`)
    await send('drop')
    await agent.line((line) => line.includes('401'), from)
    writeFileSync(join(folder, 'token'), `${token}\n`)
    await agent.line((line) => line.includes('API server is watched now'), from)
    await send('put', 'EndpointSlice', apiSlice('web', 'web', ['10.1.0.5']))
    await haveEndpoints('10.1.0.5:8080', apiBackend)
  })

  it('stops on SIGTERM', async () => {
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
    assert.deepEqual(await endpoints(), ['10.1.0.5:8080', apiBackend])
  })
})

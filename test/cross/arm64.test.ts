// The agent on an emulated arm64 processor (qemu-user), which has routes and sockets, and nothing of netfilter: so in userspace mode. The
// suite compiles the addon and names the command (scripts/suites/cross.mjs).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { runToEnd } from '../support/processes.js'

const command: readonly string[] = JSON.parse(process.env['VIADUCT_CROSS_AGENT'] ?? '[]')

const service = `apiVersion: v1
kind: Service
metadata: { name: web, namespace: shop }
spec:
  clusterIP: 10.96.0.20
  clusterIPs: [10.96.0.20]
  ipFamilies: [IPv4]
  ports: [{ name: http, protocol: TCP, port: 80, targetPort: 8080 }]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web, namespace: shop, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ name: http, protocol: TCP, port: 8080 }]
endpoints: [{ addresses: [192.0.2.1], conditions: { ready: true }, nodeName: node-a }]
`
const server = `require('node:net').createServer((socket) => socket.end('from the endpoint'))
  .listen(8080, '192.0.2.1', () => console.log('listens'))`
const client = `require('node:net').connect(80, '10.96.0.20').pipe(process.stdout)`

describe('the agent on arm64', { timeout: 120_000 }, () => {
  let node: Namespace
  let folder: string

  before(async () => {
    assert.ok(command.length > 0, 'VIADUCT_CROSS_AGENT is set by the cross suite')
    node = await Namespace.create('node')
    await node.ip('address add 192.0.2.1/32 dev lo')
    folder = mkdtempSync(join(tmpdir(), 'viaduct-cross-'))
    writeFileSync(join(folder, 'web.yaml'), service)
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  it('prints its version', async () => {
    const { code, stdout } = await runToEnd([...command, '--version'])
    assert.equal(code, 0)
    assert.match(stdout, /^viaduct \d+\.\d+\.\d+ \(commit \S+\)$/u)
  })

  it('carries a connection to a Service to its endpoint, and ends by SIGTERM', async () => {
    const flags = [
      '--manifests',
      folder,
      '--proxy-mode',
      'userspace',
      '--hostname-override',
      'node-a',
      '-v',
      '2',
    ]
    const endpoint = node.start(process.execPath, '-e', server)
    await endpoint.line((line) => line === 'listens')
    const agent = node.start(...command, ...flags)
    await agent.line((line) => line.includes('"Sync done"') && line.includes('"ipFamily":"IPv4"'))
    assert.equal(await node.must(process.execPath, '-e', client), 'from the endpoint')
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
  })
})

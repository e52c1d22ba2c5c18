// `viaduct connections` and `--counters` in userspace mode: the relay's own connections.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')

/** The node port of `outer` has the number of the port of `web`. */
const manifests = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.96.0.10, ports: [{ port: 30080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: outer, namespace: default }
spec: { type: NodePort, clusterIP: 10.96.0.12, ports: [{ port: 80, nodePort: 30080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: dns, namespace: default }
spec: { clusterIP: 10.96.0.11, ports: [{ port: 53, protocol: UDP }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: web-1, namespace: default, labels: { kubernetes.io/service-name: web } }
addressType: IPv4
ports: [{ port: 8080, protocol: TCP }]
endpoints:
  - { addresses: [192.0.2.2], conditions: { ready: true } }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: dns-1, namespace: default, labels: { kubernetes.io/service-name: dns } }
addressType: IPv4
ports: [{ port: 5353, protocol: UDP }]
endpoints:
  - { addresses: [192.0.2.3], conditions: { ready: true } }
`

/** Accepts connections and keeps them. */
const server = `
require('node:net').createServer(() => {}).listen(8080, '192.0.2.2', () => console.log('listening'))
require('node:dgram').createSocket('udp4').on('message', function (text, { port, address }) {
  this.send(text, port, address)
}).bind(5353, '192.0.2.3')`

/** Opens three connections and a flow, and keeps them. */
const client = `
const connect = () => new Promise((resolve) => {
  const socket = require('node:net').connect(30080, '10.96.0.10', () => resolve(socket))
})
const ask = () => new Promise((resolve) => {
  const socket = require('node:dgram').createSocket('udp4').once('message', resolve)
  socket.send('who', 53, '10.96.0.11')
})
Promise.all([connect(), connect(), connect(), ask()]).then(() => console.log('connected'))`

describe('the connections of the relay', { timeout: 120_000 }, () => {
  let folder: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-relay-connections-'))
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'manifests', 'all.yaml'), manifests)
    node = await Namespace.create('node')
    await node.ip(...[1, 2, 3].map((host) => `address add 192.0.2.${host}/24 dev lo`))
    await node.start(process.execPath, '-e', server).line((line) => line === 'listening')
    const agent = node.start(
      process.execPath,
      agentFile,
      '--proxy-mode=userspace',
      '--udp-timeout=5m',
      '-v=2',
      '--hostname-override=node-a',
      '--bind-address=192.0.2.1',
      `--manifests=${join(folder, 'manifests')}`,
      `--control-socket=${join(folder, 'socket')}`,
    )
    await agent.line((line) => /Control socket listens/u.test(line))
    await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
    await node.start(process.execPath, '-e', client).line((line) => line === 'connected')
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  function ask(...words: readonly string[]): string {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [agentFile, ...words, `--socket=${join(folder, 'socket')}`],
      { encoding: 'utf8' },
    )
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
    return stdout
  }

  it('are listed with their endpoints', () => {
    const [heading, ...rows] = ask('connections').trimEnd().split('\n')
    assert.match(heading ?? '', /^SERVICE PORT +CLIENT +FRONTEND +ENDPOINT +STATE +TIMEOUT$/)
    const web =
      /^default\/web:TCP +\d+\.\d+\.\d+\.\d+:\d+ +10\.96\.0\.10:30080 +192\.0\.2\.2:8080 +ESTABLISHED +-$/u
    const dns = /^default\/dns:UDP +\d+\.\d+\.\d+\.\d+:\d+ +10\.96\.0\.11:53 +192\.0\.2\.3:5353 +- +-$/u
    assert.equal(rows.length, 4, rows.join('\n'))
    assert.equal(rows.filter((row) => web.test(row)).length, 3, rows.join('\n'))
    assert.equal(rows.filter((row) => dns.test(row)).length, 1, rows.join('\n'))
    assert.equal(ask('connections', '--service=default/dns').trimEnd().split('\n').length, 2)
  })

  it('are not those of a Service whose node port has the same number', () => {
    assert.match(ask('connections', 'default/outer'), /^SERVICE PORT .*TIMEOUT\n$/u)
    assert.deepEqual(counts('services', 'default/outer'), [
      ['default/outer', { activeConnections: 0, inactiveConnections: 0 }],
    ])
  })

  function counts(...words: readonly string[]): unknown {
    const { items } = Object(JSON.parse(ask(...words, '--counters', '-o', 'json')))
    return items.map((row: Readonly<Record<string, unknown>>) => [row['service'], row['counters']]).toSorted()
  }

  it('are counted', () => {
    const dns = ['default/dns', { activeConnections: 1, inactiveConnections: 0 }]
    const outer = ['default/outer', { activeConnections: 0, inactiveConnections: 0 }]
    const web = ['default/web', { activeConnections: 3, inactiveConnections: 0 }]
    assert.deepEqual(counts('services'), [dns, outer, web])
    assert.deepEqual(counts('endpoints'), [dns, web])
    assert.deepEqual(counts('routes'), [dns, outer, outer, web])
  })
})

// `viaduct connections`: the connections that the kernel tracks, by the Service of their frontend.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const manifests = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { type: NodePort, clusterIP: 10.96.0.10, ports: [{ name: http, port: 80, nodePort: 30080 }] }
---
apiVersion: v1
kind: Service
metadata: { name: dns, namespace: default }
spec: { clusterIP: 10.96.0.11, ports: [{ port: 53, protocol: UDP }] }
---
apiVersion: v1
kind: Service
metadata: { name: quiet, namespace: default }
spec: { clusterIP: 10.96.0.12, ports: [{ port: 80 }] }
`

/** Arguments of conntrack(8) that insert a flow: client, frontend and endpoint, each an address and a port. */
function insertion(
  protocol: string,
  client: readonly [string, number],
  frontend: readonly [string, number],
  endpoint: readonly [string, number],
): readonly string[] {
  const state = protocol === 'tcp' ? '--state ESTABLISHED' : '-u SEEN_REPLY'
  const original = `-s ${client[0]} -d ${frontend[0]} --sport ${client[1]} --dport ${frontend[1]}`
  const reply = `-r ${endpoint[0]} -q ${client[0]} --reply-port-src ${endpoint[1]} --reply-port-dst ${client[1]}`
  return `-I -p ${protocol} -t 600 ${original} ${reply} ${state}`.split(' ')
}

describe('viaduct connections', { timeout: 120_000 }, () => {
  let folder: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-connections-'))
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'manifests', 'all.yaml'), manifests)
    node = await Namespace.create('node')
    await node.must('ip', 'address', 'add', '192.0.2.1/24', 'dev', 'lo')
    const flows = [
      insertion('tcp', ['10.244.1.9', 40_001], ['10.96.0.10', 80], ['10.244.2.5', 8080]),
      insertion('tcp', ['198.51.100.7', 40_002], ['192.0.2.1', 30_080], ['10.244.2.6', 8080]),
      insertion('udp', ['10.244.1.9', 40_003], ['10.96.0.11', 53], ['10.96.0.11', 53]),
      insertion('tcp', ['10.244.1.9', 40_004], ['198.51.100.8', 80], ['198.51.100.8', 80]),
    ]
    const agent = node.start(
      process.execPath,
      agentFile,
      '--proxy-mode=nftables',
      '--nodeport-addresses=192.0.2.0/24',
      '-v=2',
      '--hostname-override=node-a',
      '--bind-address=192.0.2.1',
      `--manifests=${join(folder, 'manifests')}`,
      `--control-socket=${join(folder, 'socket')}`,
    )
    await agent.line((line) => /Control socket listens/u.test(line))
    for (const flow of flows) await node.must('conntrack', ...flow)
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  function ask(...words: readonly string[]): string {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [agentFile, 'connections', ...words, `--socket=${join(folder, 'socket')}`],
      { encoding: 'utf8' },
    )
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
    return stdout
  }

  it('prints a line for each connection of a Service', () => {
    const lines = ask().split('\n')
    const expected = [
      /^SERVICE PORT +CLIENT +FRONTEND +ENDPOINT +STATE +TIMEOUT$/,
      /^default\/dns:UDP +10\.244\.1\.9:40003 +10\.96\.0\.11:53 +- +- +(?:9|10)m$/,
      /^default\/web:http\/TCP +10\.244\.1\.9:40001 +10\.96\.0\.10:80 +10\.244\.2\.5:8080 +ESTABLISHED +\d+[ms]$/,
      /^default\/web:http\/TCP +198\.51\.100\.7:40002 +192\.0\.2\.1:30080 +10\.244\.2\.6:8080 +ESTABLISHED +\d+[ms]$/,
    ]
    assert.equal(lines.length, expected.length + 1, lines.join('\n'))
    for (const pattern of expected)
      assert.ok(
        lines.some((line) => pattern.test(line)),
        `${pattern} in:\n${lines.join('\n')}`,
      )
  })

  it('prints those of one Service', () => {
    assert.equal(ask('default/web').trimEnd().split('\n').length, 3)
    assert.equal(ask('--service', 'default/web'), ask('default/web'))
  })

  it('takes one Service, by the argument or by --service', () => {
    const words = ['connections', 'default/web', '--service', 'default/dns']
    const { status, stderr } = spawnSync(process.execPath, [agentFile, ...words], { encoding: 'utf8' })
    assert.equal(status, 2)
    assert.equal(stderr, 'viaduct: default/web and --service default/dns are two Services: name one\n')
  })

  it('prints the headings of an empty list', () => {
    assert.match(ask('default/quiet'), /^SERVICE PORT +CLIENT .*TIMEOUT\n$/)
  })

  it('prints JSON', () => {
    const value: unknown = JSON.parse(ask('default/dns', '-o', 'json'))
    const [row] = Object(value).connections
    assert.equal(Object(value).total, 1)
    assert.equal(row.client, '10.244.1.9:40003')
    assert.ok(!('endpoint' in row))
  })
})

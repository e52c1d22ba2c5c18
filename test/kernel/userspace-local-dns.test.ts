// userspace mode beside NodeLocal DNSCache, which adds the cluster IP of the cluster's DNS to an interface and listens there.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const manifests = `
apiVersion: v1
kind: Service
metadata: { name: kube-dns, namespace: kube-system }
spec: { clusterIP: 10.96.0.10, ports: [{ port: 53, protocol: UDP }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: kube-dns, namespace: kube-system, labels: { kubernetes.io/service-name: kube-dns } }
addressType: IPv4
ports: [{ port: 53, protocol: UDP }]
endpoints: [{ addresses: [192.0.2.1], conditions: { ready: true } }]
`

/** Listens as CoreDNS does, with SO_REUSEPORT. */
const cache = `
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try:
    s.bind(('10.96.0.10', 53))
except OSError as error:
    print(error.errno, flush=True)
    sys.exit()
print('bound', flush=True)
sys.stdin.read()
`

const address = '10.96.0.10/32 dev eth0'
const isAdvice = (line: string): boolean =>
  line.includes('"level":"warn"') &&
  line.includes('kube-system/kube-dns: an interface of this node has its cluster IP 10.96.0.10') &&
  line.includes('-localip 169.254.20.10')

describe('a cluster IP that an interface has', { timeout: 60_000 }, () => {
  let folder: string
  let node: Namespace

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-local-dns-'))
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'manifests', 'all.yaml'), manifests)
    node = await Namespace.create('node')
    await node.ip('link add eth0 type veth peer name peer0', 'address add 192.0.2.1/24 dev eth0')
  })

  afterEach(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  async function startAgent(): Promise<Program> {
    const agent = node.start(
      process.execPath,
      join(treeRoot, 'dist/agent.js'),
      '--proxy-mode=userspace',
      '-v=2',
      '--hostname-override=node-a',
      '--bind-address=192.0.2.1',
      `--manifests=${join(folder, 'manifests')}`,
      '--control-socket=',
    )
    await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
    return agent
  }

  // Before, no line said why the cache got EADDRINUSE, nor what to do.
  it('is reported with the remedy when the agent came first, and its end too', async () => {
    const agent = await startAgent()
    await node.ip(`address add ${address}`)
    await agent.line(isAdvice)
    const other = node.start('python3', '-c', cache)
    assert.equal(await other.line(() => true), '98')
    await node.ip(`address del ${address}`)
    await agent.line((line) => line.includes('Service is programmed as specified now'))
  })

  it('is reported with the remedy when the cache came first, which serves', async () => {
    await node.ip(`address add ${address}`)
    const other = node.start('python3', '-c', cache)
    assert.equal(await other.line(() => true), 'bound')
    const agent = await startAgent()
    await agent.line(isAdvice)
    await agent.line((line) => line.includes('EADDRINUSE') && line.includes('kube-system/kube-dns'))
  })
})

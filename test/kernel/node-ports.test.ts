// The shipped agent and the ports of its node: it holds node ports, and reports other programs that have them.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiService } from '../support/api-documents.js'
import { Namespace } from '../support/namespaces.js'
import { takePort } from '../support/port-taker.js'
import type { Program } from '../support/processes.js'
import { ip } from '../support/routes.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const managerFile = join(treeRoot, 'test/support/service-manager.py')

let folder: string
let manifests: string
let node: Namespace

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'viaduct-ports-'))
  manifests = join(folder, 'manifests')
  mkdirSync(manifests)
  node = await Namespace.create('node')
  await node.ip('address add 192.0.2.1/32 dev lo')
})

afterEach(async () => {
  await node.close()
  rmSync(folder, { recursive: true })
})

interface Exposed {
  readonly nodePort?: number
  readonly protocol?: 'TCP' | 'UDP'
  readonly externalIPs?: readonly string[]
}

/** Writes the Service `name`, on the cluster IP with this last number. */
function put(
  name: string,
  last: number,
  { nodePort = 0, protocol = 'TCP', externalIPs = [] }: Exposed,
): void {
  const ports = [{ name: 'http', protocol, port: 80, nodePort }]
  const type = nodePort === 0 ? 'ClusterIP' : 'NodePort'
  const document = apiService(name, `10.96.0.${last}`, { type, ports, externalIPs })
  writeFileSync(fileOf(name), JSON.stringify({ apiVersion: 'v1', kind: 'Service', ...document }))
}

function fileOf(name: string): string {
  return join(manifests, `${name}.json`)
}

function command(...flags: readonly string[]): readonly string[] {
  const source = ['--manifests', manifests, '--hostname-override', 'node-a', '-v', '2']
  const mode = ['--proxy-mode', 'iptables', '--iptables-flavour', 'legacy', '--iptables-sync-period', '1s']
  return [process.execPath, agentFile, ...source, ...mode, ...flags]
}

async function take(port: number, protocol: 'tcp' | 'udp' = 'tcp'): Promise<Program | undefined> {
  return await takePort({ family: 'ipv4', protocol, address: undefined, port }, node)
}

/** Whether a program can bind the port. */
async function isFree(port: number, protocol: 'tcp' | 'udp' = 'tcp'): Promise<boolean> {
  const taker = await take(port, protocol)
  await taker?.kill()
  return taker !== undefined
}

/** Protocol, state, queue and address of each listening socket, except those of the agent's pages. */
async function listening(): Promise<readonly string[]> {
  const lines = (await node.must('ss', '-Hlntu')).trim().split('\n')
  const sockets = lines.map((line) => line.trim().split(/\s+/).slice(0, 5).join(' '))
  return sockets.filter((socket) => !/:(?:10249|10256)$/u.test(socket)).toSorted()
}

/** Resolves when the agent has done everything that was requested before. The port is taken by another program. */
async function passedMarker(agent: Program, last: number): Promise<void> {
  await take(30000 + last)
  put(`marker-${last}`, last, { nodePort: 30000 + last })
  await agent.line((line) => line.includes(`in use by another program: default/marker-${last}:`))
}

describe('node ports of the agent', { timeout: 120_000 }, () => {
  it('are held until the Service goes; a taken one is reported and held later', async () => {
    const other = await take(30081)
    put('web', 10, { nodePort: 30080, externalIPs: ['192.0.2.1', '198.51.100.1'] })
    put('dns', 11, { nodePort: 30053, protocol: 'UDP' })
    put('taken', 12, { nodePort: 30081 })
    const agent = node.start(...command('--hold-node-ports'))
    const line = await agent.line((text) => text.includes('Service port is in use'))
    assert.match(
      line,
      /"msg":"Service port is in use by another program: default\/taken:http\/TCP: tcp \*:30081 belongs to python3, process \d+, with the socket tcp \*:30081"/,
    )
    await agent.line((text) => text.includes('"Event"') && text.includes('ServicePortInUse'))
    assert.deepEqual(await listening(), [
      'tcp LISTEN 0 0 0.0.0.0:30080',
      'tcp LISTEN 0 0 192.0.2.1:80',
      'tcp LISTEN 0 128 0.0.0.0:30081',
      'udp UNCONN 0 0 0.0.0.0:30053',
    ])
    assert.deepEqual([await isFree(30080), await isFree(30053, 'udp')], [false, false])
    await other?.kill()
    await agent.line((text) => text.includes('Service port is no longer in use by another program'))
    assert.equal(await isFree(30081), false)
    rmSync(fileOf('web'))
    await passedMarker(agent, 90)
    assert.deepEqual([await isFree(30080), await isFree(80)], [true, true])
    assert.equal(await isFree(30081), false)
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
    assert.equal(await isFree(30081), true)
  })

  it('are not held without the setting; another program is reported all the same', async () => {
    const other = await takePort(
      { family: 'ipv6', protocol: 'udp', address: undefined, port: 30053, isDualStack: true },
      node,
    )
    const elsewhere = await takePort(
      { family: 'ipv4', protocol: 'tcp', address: ip('127.0.0.1'), port: 30081 },
      node,
    )
    put('dns', 11, { nodePort: 30053, protocol: 'UDP' })
    put('web', 12, { nodePort: 30080 })
    put('local', 13, { nodePort: 30081 })
    const agent = node.start(...command('--iptables-localhost-nodeports=false'))
    await agent.line((text) => text.includes('in use by another program: default/dns:http/UDP: udp *:30053'))
    assert.equal(await isFree(30080), true)
    await other?.kill()
    await agent.line((text) => text.includes('Service port is no longer in use by another program'))
    assert.equal(agent.lines.filter((text) => text.includes('in use by another program: ')).length, 1)
    await elsewhere?.kill()
  })

  it('stay held while the agent restarts under a service manager', async () => {
    put('web', 10, { nodePort: 30080 })
    put('dns', 11, { nodePort: 30053, protocol: 'UDP' })
    const manager = node.start(
      'python3',
      managerFile,
      join(folder, 'notify'),
      ...command('--hold-node-ports'),
    )
    await manager.line((line) => line === 'READY=1')
    manager.write('kill\n')
    await manager.line((line) => line === 'ended')
    assert.deepEqual([await isFree(30080), await isFree(30053, 'udp')], [false, false])

    // While no agent runs, a Service goes.
    rmSync(fileOf('dns'))
    const second = manager.lines.length
    manager.write('start\n')
    await manager.line((line) => line === 'READY=1', second)
    assert.deepEqual([await isFree(30080), await isFree(30053, 'udp')], [false, true])

    manager.write('kill\n')
    await manager.line((line) => line === 'ended', second)
    const third = manager.lines.length
    manager.write('start --hold-node-ports=false\n')
    await manager.line((line) => line === 'READY=1', third)
    await manager.line((line) => line.startsWith('FDSTOREREMOVE=1 viaduct-ports-'), third)
    assert.equal(await isFree(30080), true)
  })
})

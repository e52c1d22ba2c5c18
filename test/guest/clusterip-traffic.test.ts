// The manifests of examples/shop on a real kernel: requests to ClusterIPs are answered. Runs in the guest: it needs IP_VS.
import assert from 'node:assert/strict'
import { cp, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type RequestCounts, Trace, traced } from '../support/system-call-trace.js'
import { eventually } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess, agentCommand } from '../traffic/agent-process.js'
import { interfaceNames, localAddresses, virtualServers } from '../traffic/node-state.js'
import { buildShopLab, type ShopLab, tcp } from '../traffic/shop-lab.js'
import { sessionsPort, shopAddresses, shopPorts, shopTable } from '../traffic/shop-services.js'

const foreignServer = '-A -t 203.0.113.5:80 -s wlc'
const reviews = `
apiVersion: v1
kind: Service
metadata: { name: reviews, namespace: shop }
spec: { clusterIP: 10.96.0.60, clusterIPs: [10.96.0.60], ports: [{ name: http, port: 80 }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: reviews-a, namespace: shop, labels: { kubernetes.io/service-name: reviews } }
addressType: IPv4
ports: [{ name: http, protocol: TCP, port: 9090 }]
endpoints: [{ addresses: [10.244.3.11] }, { addresses: [10.244.3.12] }]
`
const reviewsTable = [
  '-A -t 10.96.0.60:80 -s rr',
  '-a -t 10.96.0.60:80 -r 10.244.3.11:9090 -m -w 1',
  '-a -t 10.96.0.60:80 -r 10.244.3.12:9090 -m -w 1',
]

let lab: ShopLab
let folder: string
let agent: AgentProcess
let trace: Trace

/** The shop's virtual servers, the foreign one, and `more`, sorted. */
function tableWith(...more: readonly string[]): readonly string[] {
  return [...shopTable, foreignServer, ...more].toSorted((a, b) => (a < b ? -1 : 1))
}

async function expectTable(expected: readonly string[]): Promise<void> {
  const matches = (table: readonly string[]): boolean => table.join('\n') === expected.join('\n')
  const table = await eventually(() => virtualServers(lab.node), matches).catch(() =>
    virtualServers(lab.node),
  )
  assert.deepEqual(table, expected)
}

/** Expects answers of exactly its backends from every port of the shop. */
async function expectShopTraffic(): Promise<void> {
  for (const { name, target, backends } of shopPorts) {
    assert.deepEqual(await lab.client.backends(target, 2 * backends.length), backends, name)
  }
}

async function startAgent(traceName: string): Promise<void> {
  const file = join(folder, traceName)
  trace = new Trace(file)
  agent = AgentProcess.start({
    node: lab.node,
    manifests: join(folder, 'shop'),
    before: traced(file),
    // A draining real server is removed after its connections end: graceful-termination.test.ts.
    flags: ['--ipvs-graceful-period', '0', '--control-socket', join(folder, 'socket')],
  })
  await agent.synced()
}

/** Replaces a manifest like an editor: renames a new file over the old one. */
async function edit(name: string, change: (text: string) => string): Promise<void> {
  const path = join(folder, 'shop', name)
  const text = await readFile(path, 'utf8')
  assert.notEqual(change(text), text, 'the edit changes something')
  await writeFile(join(folder, 'edited'), change(text))
  await rename(join(folder, 'edited'), path)
}

async function ask(...words: readonly string[]): Promise<string> {
  const agentFile = join(treeRoot, 'dist/agent.js')
  return await lab.node.must(process.execPath, agentFile, ...words, '--socket', join(folder, 'socket'))
}

/** The figure of each row of `words --counters`, as `IPv4 http 10.96.0.20:80 4`. */
async function connectionCounts(name: string, ...words: readonly string[]): Promise<readonly string[]> {
  const { items } = Object(JSON.parse(await ask(...words, '--counters', '-o', 'json')))
  return items.map((row: Readonly<Record<string, unknown>>) => {
    const { connections = 0, packetsIn, bytesOut } = Object(row['counters'])
    const isPlausible = connections === 0 || (packetsIn > connections && bytesOut > connections)
    assert.ok(isPlausible, JSON.stringify(row))
    return `${String(row['family'])} ${String(row['port'])} ${String(row[name])} ${connections}`
  })
}

/** Waits for a row: the kernel adds up the counters of its CPUs every two seconds, those of each object at a time of its own. */
async function expectCount(name: string, list: string, row: string): Promise<void> {
  await eventually(
    () => connectionCounts(name, list, 'shop/web'),
    (rows) => rows.includes(row),
  )
}

async function expectWrites(expected: RequestCounts): Promise<void> {
  assert.deepEqual(await trace.takeWrites(), expected)
}

describe('ClusterIP traffic through the agent', { timeout: 600_000 }, () => {
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'viaduct-traffic-'))
    await cp(join(treeRoot, 'examples/shop'), join(folder, 'shop'), { recursive: true })
    lab = await buildShopLab()
    await lab.node.must('ipvsadm', '-A', '-t', '203.0.113.5:80', '-s', 'wlc')
    await lab.node.must('ip', 'route', 'add', 'local', '203.0.113.6', 'dev', 'lo')
    await lab.node.must('ip', 'link', 'add', 'foreign0', 'type', 'dummy')
  })
  after(async () => {
    await lab.close()
    await rm(folder, { recursive: true })
  })

  it('programs every ClusterIP port', async () => {
    await startAgent('first.trace')
    await expectTable(tableWith())
    assert.deepEqual(await localAddresses(lab.node), [...shopAddresses, '203.0.113.6'].toSorted())
    assert.ok((await interfaceNames(lab.node)).includes('kube-ipvs0'))
    const { NEW_SERVICE, DEL_SERVICE, NEW_DEST, RTM_NEWROUTE } = await trace.takeWrites()
    // One virtual server is added and removed as a test whether the kernel has the scheduler.
    assert.deepEqual([NEW_SERVICE, DEL_SERVICE, NEW_DEST, RTM_NEWROUTE], [12, 1, 22, shopAddresses.length])
  })

  it('a client reaches every usable backend and no other', expectShopTraffic)

  it('prints the statistics and the connections of IPVS', async () => {
    await expectCount('clusterIP', 'services', 'IPv4 http 10.96.0.20:80 4')
    await expectCount('clusterIP', 'services', 'IPv6 http [fd00:10:96::20]:80 4')
    await expectCount('endpoint', 'endpoints', 'IPv4 http 10.244.1.11:8080 2')
    await expectCount('frontend', 'routes', 'IPv4 http tcp 10.96.0.20:80 4')
    const rows = (await ask('connections', '--service', 'shop/web')).split('\n')
    const row =
      /^shop\/web:http\/TCP +[\d.]+:\d+ +10\.96\.0\.20:80 +10\.244\.1\.1[12]:8080 +[A-Z_]+ +\d+[sm]/u
    assert.equal(rows.filter((line) => row.test(line)).length, 4, rows.join('\n'))
  })

  it('has the cause and the stages of its passes in the history', async () => {
    const { items } = Object(JSON.parse(await ask('history', '-o', 'json')))
    const [first] = items
    const { waitingMs, compileMs, planMs, kernelMs } = first.stages
    assert.ok(Math.min(waitingMs, compileMs, planMs, kernelMs) > 0, JSON.stringify(first))
    assert.ok(Math.abs(compileMs + planMs + kernelMs - first.durationMs) < 0.001, JSON.stringify(first))
    assert.ok(first.objects.first.includes('Service shop/web'), JSON.stringify(first))
    assert.ok(first.firstOperations.length > 0)
    assert.match(await ask('history'), /^ {2}for .*Service shop\/web.*\n {2}ipset create-set /mu)
  })

  it('a client stays with its backend under session affinity', async () => {
    const [backend, ...others] = await lab.client.backends(sessionsPort.target, 6)
    assert.deepEqual(others, [])
    assert.ok(sessionsPort.backends.includes(backend ?? ''))
  })

  it('a bundle lists the virtual servers, the ipsets, and the routes of the VIPs', async () => {
    const bundle = `${process.execPath} ${join(treeRoot, 'dist/agent.js')} bundle -f - --socket=/nowhere 2>/dev/null`
    const listed = await lab.node.must('sh', '-c', `${bundle} | tar -xzOf - --wildcards '*/kernel/*.txt'`)
    for (const line of tableWith()) assert.ok(listed.includes(`${line}\n`), `${line} is not in ${listed}`)
    assert.match(listed, /^add KUBE-CLUSTER-IP 10\.96\.0\.20,tcp:80$/mu)
    assert.match(listed, /^.*\blocal 10\.96\.0\.20\b.*$/mu)
  })

  it('refuses a port of a VIP that no Service has', async () => {
    assert.deepEqual(await lab.client.probe(tcp('10.96.0.20', 81)), { kind: 'refused' })
  })

  it('adds only the endpoint that became ready', async () => {
    await edit('web.yaml', (text) =>
      text.replace('{ ready: false, serving: false', '{ ready: true, serving: true'),
    )
    await expectTable(
      tableWith(
        '-a -t 10.96.0.20:443 -r 10.244.1.13:8443 -m -w 1',
        '-a -t 10.96.0.20:80 -r 10.244.1.13:8080 -m -w 1',
      ),
    )
    await expectWrites({ NEW_DEST: 2 })
    const web = await lab.client.backends(tcp('10.96.0.20', 80), 6)
    assert.deepEqual(web, ['10.244.1.11 8080', '10.244.1.12 8080', '10.244.1.13 8080'])
  })

  it('removes only the endpoint that is no longer ready', async () => {
    const original = await readFile(join(treeRoot, 'examples/shop/web.yaml'), 'utf8')
    await edit('web.yaml', () => original)
    await expectTable(tableWith())
    await expectWrites({ DEL_DEST: 2 })
  })

  it('adds the Service of a new file', async () => {
    await writeFile(join(folder, 'reviews.yaml'), reviews)
    await rename(join(folder, 'reviews.yaml'), join(folder, 'shop/reviews.yaml'))
    await expectTable(tableWith(...reviewsTable))
    await expectWrites({ NEW_SERVICE: 1, NEW_DEST: 2, RTM_NEWROUTE: 1 })
    assert.deepEqual(await lab.client.backends(tcp('10.96.0.60', 80), 4), [
      '10.244.3.11 9090',
      '10.244.3.12 9090',
    ])
  })

  it('removes the Service of a removed file', async () => {
    await rm(join(folder, 'shop/reviews.yaml'))
    await expectTable(tableWith())
    // The address is removed after its last virtual server, so the table does not show its removal.
    await eventually(
      () => localAddresses(lab.node),
      (addresses) => !addresses.includes('10.96.0.60'),
    )
    await expectWrites({ DEL_SERVICE: 1, RTM_DELROUTE: 1 })
  })

  it('executes no other program', async () => {
    assert.deepEqual(await trace.executed(), [process.execPath])
  })

  it('stops on SIGTERM without effect on traffic', async (context) => {
    const { code, tookMs } = await agent.terminate()
    assert.equal(code, 0)
    context.diagnostic(`ended ${Math.round(tookMs)} ms after SIGTERM`)
    await expectWrites({})
    await expectTable(tableWith())
    await expectShopTraffic()
  })

  it('writes nothing at a second start', async () => {
    await startAgent('second.trace')
    await expectWrites({})
    await expectTable(tableWith())
    assert.equal((await agent.terminate()).code, 0)
    await expectWrites({})
  })

  it('--cleanup removes all own objects and no others', async () => {
    const { code, stderr } = await lab.node.run(...agentCommand('--cleanup'))
    assert.equal(code, 0, stderr)
    assert.deepEqual(await virtualServers(lab.node), [foreignServer])
    assert.deepEqual(await localAddresses(lab.node), ['203.0.113.6'])
    assert.deepEqual(await interfaceNames(lab.node), ['eth0', 'foreign0', 'lo', 'pods0'])
  })
})

// Addresses of Services that another machine has, in userspace mode, with real packets (issue 35, E2): the machine stays reachable.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { AgentClient, askingAt } from '../../src/commands/client.js'
import { connect, Namespace } from '../support/namespaces.js'
import { node as nodeOf, port, service, slice } from '../support/objects.js'
import { eventually, ProbeClient, serve } from '../support/traffic.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { manifestText } from '../traffic/table/manifest.js'
import { nodeObject } from '../traffic/table/slot.js'

const [gateway, worker, free] = ['192.0.2.254', '192.0.2.12', '203.0.113.9']
const [servedPort, otherPort] = [8080, 22]
const held = 'it belongs to Node worker, and this mode makes no such address local'

describe('external IPs that are other machines, in userspace mode', { timeout: 60_000 }, () => {
  let node: Namespace
  let other: Namespace
  let folder: string
  let agent: AgentProcess
  let client: ProbeClient
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'viaduct-foreign-'))
    ;[node, other] = [await Namespace.create('node-a'), await Namespace.create('other')]
    await connect(
      { namespace: node, interfaceName: 'eth0', addresses: ['192.0.2.1/24'] },
      { namespace: other, interfaceName: 'eth0', addresses: [`${gateway}/24`, `${worker}/24`] },
    )
    await node.ip(`route add default via ${gateway}`)
    await serve(other, [
      { protocol: 'tcp', address: gateway, port: otherPort },
      { protocol: 'tcp', address: worker, port: otherPort },
      { protocol: 'tcp', address: worker, port: servedPort },
    ])
    client = new ProbeClient(node)
    const externalIPs = [gateway, worker, free]
    const objects = [
      nodeObject,
      nodeOf('worker', { ips: [worker] }),
      service('web', '10.96.0.1', { ports: [port(80)], externalIPs }),
      slice('web-1', 'web', [worker], { ports: [{ name: '', protocol: 'TCP', port: servedPort }] }),
    ]
    await writeFile(join(folder, 'web.json'), manifestText(objects))
    const flags = ['--iptables-sync-period=1s', '--control-socket', `${folder}.sock`]
    agent = AgentProcess.start({ node, manifests: folder, mode: 'userspace', flags })
    await agent.line(/"Control socket listens"/u, 0)
    await agent.synced()
  })
  after(async () => {
    await Promise.all([node.close(), other.close()])
    await rm(folder, { recursive: true })
  })

  /** The addresses of Viaduct's routes, sorted. */
  async function local(): Promise<string> {
    const text = await node.must('ip', 'route', 'show', 'table', 'local', 'proto', '173')
    const addresses = text.split('\n').map((line) => line.split(' ')[1] ?? '')
    return addresses.toSorted().join(' ')
  }

  async function from(address: string, number: number): Promise<string> {
    const answer = await client.probe({ protocol: 'tcp', address, port: number }, 5000)
    return answer.kind === 'answer' ? answer.from : answer.kind
  }

  it('the other machines stay reachable, and the other address is served', async () => {
    assert.equal(await local(), `10.96.0.1 ${free}`)
    assert.equal(await from(gateway, otherPort), `${gateway} ${otherPort}`)
    assert.equal(await from(worker, otherPort), `${worker} ${otherPort}`)
    assert.equal(await from(free, 80), `${worker} ${servedPort}`)
  })

  it('explain says who has the address', async () => {
    const ask = askingAt(`${folder}.sock`)
    const explain = async (number: number) =>
      await ask('explain', { client: 'node', destination: `${worker}:${number}` })
    const named = await explain(80)
    assert.deepEqual([named.verdict, named.service, named.endpoints], ['untouched', undefined, []])
    assert.equal(
      named.steps[0]?.text,
      `default/web names this as an external IP, and does not get it: ${held}`,
    )
    const unnamed = await explain(otherPort)
    assert.equal(unnamed.verdict, 'untouched')
    const text = `${worker} is an external IP of default/web, which has the ports 80/tcp, and is not served there: the address belongs to Node worker`
    assert.equal(unnamed.steps[0]?.text, text)
  })

  it('routes and services show the frontend as left out', async () => {
    const asked = new AgentClient(`${folder}.sock`)
    const lines = async (name: string): Promise<string> =>
      (await asked.readList(name, { service: 'default/web' })).toString()
    const routes = await lines('routes')
    const row = routes.split('\n').find((line) => line.includes(`"tcp ${worker}:80"`)) ?? routes
    assert.match(row, /"verdict":"conflict"/u)
    assert.match(row, /belongs to Node worker, and this mode makes no such address local/u)
    assert.match(row, /"backends":\[\]/u)
    const left = [gateway, worker].map((address) => `"tcp ${address}:80"`).join()
    assert.ok((await lines('services')).includes(`"conflicts":[${left}]`), await lines('services'))
  })

  it('follows the routing table', async () => {
    await node.ip('route delete default')
    const given = `10.96.0.1 ${gateway} ${free}`
    assert.equal(await eventually(local, (text) => text === given, 10_000), given)
    assert.equal(await from(gateway, otherPort), 'refused')
    await node.ip(`route add default via ${gateway} dev eth0`)
    const taken = `10.96.0.1 ${free}`
    assert.equal(await eventually(local, (text) => text === taken, 10_000), taken)
    assert.equal(await from(gateway, otherPort), `${gateway} ${otherPort}`)
  })

  it('answers no ARP request for them', async () => {
    // No machine has the address now.
    await other.ip(`address delete ${worker}/24 dev eth0`)
    const { kind } = await new ProbeClient(other).probe({ protocol: 'tcp', address: worker, port: 80 }, 5000)
    assert.ok(kind !== 'answer' && kind !== 'refused', kind)
    const neighbour = await other.must('ip', 'neighbour', 'show', worker)
    assert.ok(!neighbour.includes('lladdr'), neighbour)
  })
})

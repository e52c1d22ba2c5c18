// The counters of IPVS: whose they are, and that reading them delays no write. Runs in the guest: it needs IP_VS.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { IpAddress } from '../../src/address.js'
import type { IpvsOp } from '../../src/kernel/index.js'
import type { VirtualServer } from '../../src/kernel/testing.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { Namespace } from '../support/namespaces.js'
import { eventually, ProbeClient, serve } from '../support/traffic.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from '../traffic/agent-process.js'

/** Service `web` owns the address and port that `zebra` asks for too. */
const manifests = `
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec: { clusterIP: 10.96.0.10, ports: [{ port: 80 }] }
---
apiVersion: v1
kind: Service
metadata: { name: zebra, namespace: default }
spec: { clusterIP: 10.96.0.13, externalIPs: [10.96.0.10], ports: [{ port: 80 }] }
${['web', 'zebra'].map(slice).join('')}`

function slice(name: string): string {
  return `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: ${name}-1, namespace: default, labels: { kubernetes.io/service-name: ${name} } }
addressType: IPv4
ports: [{ port: 8080, protocol: TCP }]
endpoints: [{ addresses: [192.0.2.2], conditions: { ready: true }, nodeName: node-a }]
`
}

interface Row {
  readonly service: string
  readonly frontend: string
  readonly counters: Readonly<Record<string, number>>
}

describe('the counters of ipvs mode', { timeout: 300_000 }, () => {
  let folder: string
  let node: Namespace

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'viaduct-ipvs-counters-'))
    mkdirSync(join(folder, 'manifests'))
    writeFileSync(join(folder, 'manifests', 'all.yaml'), manifests)
    node = await Namespace.create('node-a')
    await node.ip('address add 192.0.2.1/24 dev lo', 'address add 192.0.2.2/24 dev lo')
    await serve(node, [{ protocol: 'tcp', address: '192.0.2.2', port: 8080 }])
    const flags = ['--bind-address=192.0.2.1', '--control-socket', join(folder, 'socket')]
    const agent = AgentProcess.start({ node, manifests: join(folder, 'manifests'), flags })
    await agent.synced()
  })

  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  async function rows(...words: readonly string[]): Promise<readonly Row[]> {
    const options = ['--counters', '-o', 'json', `--socket=${join(folder, 'socket')}`]
    const printed = await node.must(process.execPath, join(treeRoot, 'dist/agent.js'), ...words, ...options)
    return Object(JSON.parse(printed)).items
  }

  it('are not shown for an address that another Service owns', async () => {
    await new ProbeClient(node).backends({ protocol: 'tcp', address: '10.96.0.10', port: 80 }, 4)
    // The kernel adds up the counters of its CPUs every two seconds.
    const [web] = await eventually(
      () => rows('routes', 'default/web'),
      (found) => found[0]?.counters['connections'] === 4,
    )
    assert.equal(web?.frontend, 'tcp 10.96.0.10:80')
    const [own, lost] = await rows('routes', 'default/zebra')
    assert.deepEqual([own?.frontend, own?.counters['connections']], ['tcp 10.96.0.13:80', 0])
    assert.deepEqual([lost?.frontend, lost?.counters], ['tcp 10.96.0.10:80', {}])
    const services = await rows('services')
    const counts = services.map(({ service, counters }) => [service, counters['connections']])
    assert.deepEqual(Object.fromEntries(counts), { 'default/web': 4, 'default/zebra': 0 })
  })
})

/** `count` virtual servers in 198.18.0.0/16, without real servers. */
function virtualServers(count: number): readonly VirtualServer[] {
  return Array.from({ length: count }, (_, index): VirtualServer => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the address is canonical
    const address = `198.18.${index >> 8}.${index & 255}` as IpAddress
    const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
    return { key: { family: 'ipv4', protocol: 'tcp', address, port: 80 }, settings }
  })
}

describe('a dump of IPVS with counters', { timeout: 120_000 }, () => {
  it('delays no write', async () => {
    const kernel = openRealKernel()
    const { ipvs } = kernel
    const [last, ...others] = virtualServers(400)
    const adds = others.map((server): IpvsOp => ({ op: 'add-virtual-server', server }))
    assert.deepEqual(await ipvs.apply(adds), { applied: adds.length, failures: [] })
    try {
      const ended: string[] = []
      const dumps = Array.from({ length: 8 }, async () => {
        await ipvs.dump('ipv4', { counters: true })
        ended.push('dump')
      })
      assert.ok(last !== undefined)
      await ipvs.apply([{ op: 'add-virtual-server', server: last }])
      ended.push('write')
      await Promise.all(dumps)
      assert.notEqual(ended.at(-1), 'write', ended.join(' '))
    } finally {
      const removals = virtualServers(400).map(({ key }): IpvsOp => ({
        op: 'remove-virtual-server',
        server: key,
      }))
      await ipvs.apply(removals)
      await kernel.close()
    }
  })
})

// Addresses of Services that belong to other machines or pods never become local, in both modes that make VIPs local (issue 35, E2).
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ConfigInput } from '../../src/config/index.js'
import { RouteCursor } from '../../src/kernel/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { openModelKernel } from '../model/index.js'
import { apiNode, apiService } from '../support/api-documents.js'
import { KubernetesLab } from '../support/kubernetes-lab.js'
import { node, port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab } from '../support/pipeline-lab.js'

const here = set(node('here', { ips: ['192.0.2.1'], podCIDRs: ['10.244.1.0/24'] }))
const worker = set(node('worker', { ips: ['192.0.2.12'], podCIDRs: ['10.244.2.0/24'] }))
const vip = '203.0.113.5'

function web(...externalIPs: readonly string[]): readonly ObjectEvent[] {
  return [set(service('web', '10.96.0.1', { externalIPs })), set(slice('web-1', 'web', ['10.1.0.1']))]
}

/** The external addresses that are local by a route of Viaduct. */
async function localVips({ kernel }: PipelineLab): Promise<readonly string[]> {
  const routes = new RouteCursor(await kernel.routes.dumpLocalRoutes('ipv4'))
  const all = Array.from({ length: routes.length }, (_, index) => routes.route(index))
  return all
    .flatMap(({ protocol, address }) => (protocol === 173 && address !== ip('10.96.0.1') ? [address] : []))
    .toSorted()
}

function mustNotBeLocal(address: string, holder: string): string {
  return `AddressNotServed Service default/web: this mode does not make ${address} local, as it belongs to ${holder}`
}

function notes({ events }: PipelineLab): readonly string[] {
  return events.map(({ reason, note }) => `${reason} ${note}`)
}

for (const mode of ['ipvs', 'userspace'] as const) {
  const open = (config: ConfigInput = {}, kernel = openModelKernel()): PipelineLab =>
    new PipelineLab({ kernel, config: { ...config, mode } })

  describe(`${mode} mode`, () => {
    const cases = [
      { address: '192.0.2.12', holder: 'Node worker' },
      { address: '10.244.1.7', holder: 'the pod network 10.244.1.0/24' },
      { address: '10.244.2.7', holder: 'the pod network 10.244.2.0/24' },
      { address: '10.244.9.7', holder: 'the pod network 10.244.0.0/16' },
      { address: '192.0.2.254', holder: "a next hop or a host route of this node's routing tables" },
      { address: '192.0.2.100', holder: 'the API server' },
    ] as const
    for (const { address, holder } of cases)
      it(`does not make ${address} local, which belongs to ${holder}, and says so`, async () => {
        const kernel = openModelKernel()
        kernel.network.nextHops = [ip('192.0.2.254')]
        const lab = open({ clusterCIDR: ['10.244.0.0/16'] }, kernel)
        const connected: ObjectEvent = { type: 'connected', address: '192.0.2.100', port: 6443 }
        await lab.deliver(connected, here, worker, ...web(address, vip), synced)
        assert.deepEqual(await localVips(lab), [vip])
        assert.deepEqual(notes(lab), [mustNotBeLocal(address, holder)])
        const [view] = lab.synchronizer.views
        const [named] = view?.services.servicePortsOf('default/web') ?? []
        assert.ok(view !== undefined && named !== undefined)
        const holderOf = view.packetRules()?.foreignHolder
        assert.deepEqual([holderOf?.(named, ip(address)), holderOf?.(named, ip(vip))], [holder, undefined])
        await lab.stop()
      })

    it('takes an address away when a Node gets it, and gives it back when the Node goes', async () => {
      const lab = open()
      await lab.deliver(here, ...web('192.0.2.12'), synced)
      assert.deepEqual(await localVips(lab), ['192.0.2.12'])
      await lab.deliver(worker)
      assert.deepEqual(await localVips(lab), [])
      await lab.deliver(remove('Node', 'worker'))
      assert.deepEqual(await localVips(lab), ['192.0.2.12'])
      assert.equal(lab.log.find('info', 'Service is programmed as specified now').length, 1)
      await lab.stop()
    })

    it('takes an address away when the network of pods of this node gets it', async () => {
      const lab = open()
      await lab.deliver(set(node('here', { ips: ['192.0.2.1'] })), ...web('10.244.1.7'), synced)
      assert.deepEqual(await localVips(lab), ['10.244.1.7'])
      await lab.deliver(here)
      assert.deepEqual(await localVips(lab), [])
      await lab.stop()
    })

    it('takes an address away within a sync period when a route names it, and gives it back', async () => {
      const kernel = openModelKernel()
      const lab = open({}, kernel)
      await lab.deliver(here, ...web('192.0.2.254'), synced)
      assert.deepEqual(await localVips(lab), ['192.0.2.254'])
      kernel.network.nextHops = [ip('192.0.2.254')]
      await lab.clock.advance(31_000)
      assert.deepEqual(await localVips(lab), [])
      kernel.network.nextHops = []
      await lab.clock.advance(31_000)
      assert.deepEqual(await localVips(lab), ['192.0.2.254'])
      await lab.stop()
    })

    it('touches no UDP flow to the address of another machine', async () => {
      const kernel = openModelKernel()
      const flow = {
        protocol: 'udp',
        source: ip('10.244.1.9'),
        sourcePort: 40_000,
        destinationPort: 53,
      } as const
      const toWorker = {
        ...flow,
        destination: ip('192.0.2.12'),
        replySource: ip('192.0.2.12'),
        replySourcePort: 53,
      }
      kernel.conntrack.flows = [toWorker]
      const lab = open({}, kernel)
      const ports = [port(53, { protocol: 'UDP' })]
      const dns = set(service('dns', '10.96.0.1', { ports, externalIPs: ['192.0.2.12'] }))
      const endpoints = set(
        slice('dns-1', 'dns', ['10.1.0.1'], { ports: [{ name: '', protocol: 'UDP', port: 5353 }] }),
      )
      await lab.deliver(here, worker, dns, endpoints, synced)
      assert.deepEqual(kernel.conntrack.flows, [toWorker])
      await lab.stop()
    })

    it('a load balancer may take its addresses from clusterCIDR', async () => {
      const lab = open({ clusterCIDR: ['10.244.0.0/16'] })
      const loadBalancerIngress = [{ ip: '10.244.9.7', ipMode: 'VIP' }] as const
      const balanced = service('web', '10.96.0.1', { type: 'LoadBalancer', loadBalancerIngress })
      await lab.deliver(here, set(balanced), set(slice('web-1', 'web', ['10.1.0.1'])), synced)
      assert.deepEqual(await localVips(lab), ['10.244.9.7'])
      await lab.stop()
    })

    it("makes another Node's address local while the account may not read Nodes, and not any more when it may", async () => {
      const lab = open()
      const cluster = new KubernetesLab({ isOwnNodeOnly: true })
      const received: ObjectEvent[] = []
      cluster.deliver = (events) => received.push(...events)
      cluster.nodes = 'all'
      const { store } = cluster.server
      store.put('Service', apiService('web', '10.96.0.1', { externalIPs: ['192.0.2.12'] }))
      const status = { addresses: [{ type: 'InternalIP', address: '192.0.2.12' }] }
      store.put('Node', { ...apiNode('worker'), status })
      await cluster.start()
      await lab.deliver(here, ...received.splice(0))
      assert.deepEqual(await localVips(lab), ['192.0.2.12'])
      assert.deepEqual(notes(lab), [])
      cluster.server.options = {}
      await cluster.fire(300_000)
      await cluster.untilEvent('+Node /worker')
      await lab.deliver(...received.splice(0))
      assert.deepEqual(await localVips(lab), [])
      assert.deepEqual(notes(lab), [mustNotBeLocal('192.0.2.12', 'Node worker')])
      await cluster.close()
      await lab.stop()
    })
  })
}

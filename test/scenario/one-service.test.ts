import { describe, it } from 'node:test'
import assert from 'node:assert/strict'
import { endpoint, node, port, remove, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, snapshot } from '../support/pipeline-lab.js'

const web = service('web', '10.96.0.1')

async function labWithWeb(...endpoints: readonly string[]): Promise<PipelineLab> {
  const lab = new PipelineLab()
  await lab.deliver(set(web), set(slice('web-1', 'web', endpoints)), synced)
  lab.takeOps()
  return lab
}

describe('one Service', () => {
  it('gets a virtual server with real servers, then its VIP is bound', async () => {
    const lab = new PipelineLab()
    await lab.deliver(set(web), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2'])))
    await lab.clock.advance(31_000)
    assert.deepEqual(lab.takeOps(), [], 'nothing before every object was listed')
    assert.equal(await lab.kernel.links.find('kube-ipvs0'), undefined)
    await lab.deliver(synced)
    assert.deepEqual(lab.takeOps(), [
      'add-virtual-server tcp 10.96.0.1:80',
      'add-real-server tcp 10.96.0.1:80 10.1.0.1:8080',
      'add-real-server tcp 10.96.0.1:80 10.1.0.2:8080',
      'add-route 10.96.0.1',
    ])
    assert.deepEqual(await snapshot(lab.kernel), [
      'route 10.96.0.1 dev lo',
      'tcp 10.96.0.1:80 rr 0 0 10.1.0.1:8080 masquerade 1 10.1.0.2:8080 masquerade 1',
    ])
    assert.equal((await lab.kernel.links.find('kube-ipvs0'))?.isUp, false)
    await lab.stop()
  })

  it('costs exactly three operations when one endpoint is replaced', async () => {
    const lab = await labWithWeb('10.1.0.1', '10.1.0.2')
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.3'])))
    assert.deepEqual(lab.takeOps(), [
      'add-real-server tcp 10.96.0.1:80 10.1.0.3:8080',
      'set-real-server tcp 10.96.0.1:80 10.1.0.2:8080',
    ])
    await lab.clock.advance(30_000)
    assert.deepEqual(lab.takeOps(), ['remove-real-server tcp 10.96.0.1:80 10.1.0.2:8080'])
    await lab.stop()
  })

  it('costs nothing when an object is delivered again', async () => {
    const lab = await labWithWeb('10.1.0.1')
    await lab.deliver(set({ ...web }), set(slice('web-1', 'web', ['10.1.0.1'])))
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })

  it('keeps its virtual server without endpoints', async () => {
    const lab = await labWithWeb('10.1.0.1')
    await lab.deliver(remove('EndpointSlice', 'web-1'))
    await lab.clock.advance(30_000)
    assert.deepEqual(await snapshot(lab.kernel), ['route 10.96.0.1 dev lo', 'tcp 10.96.0.1:80 rr 0 0'])
    await lab.stop()
  })

  it('has its virtual server removed, then its VIP unbound, after its deletion', async () => {
    const lab = await labWithWeb('10.1.0.1')
    const order: string[] = []
    lab.kernel.ipvs.batches.plan = { fault: (op) => void order.push(op.op) }
    lab.kernel.routes.batches.plan = { fault: (op) => void order.push(op.op) }
    await lab.deliver(remove('Service', 'web'))
    assert.deepEqual(order, ['remove-virtual-server', 'remove-route'])
    assert.deepEqual(await snapshot(lab.kernel), [])
    await lab.deliver(set(web))
    assert.equal((await snapshot(lab.kernel)).length, 2, 'comes back with the endpoints of its slices')
    await lab.stop()
  })

  it('keeps its VIP until its last port is removed', async () => {
    const lab = await labWithWeb('10.1.0.1')
    await lab.deliver(set({ ...web, ports: [port(80), port(53, { name: 'dns', protocol: 'UDP' })] }))
    assert.deepEqual(lab.takeOps(), ['add-virtual-server udp 10.96.0.1:53'])
    await lab.deliver(set({ ...web, ports: [port(53, { name: 'dns', protocol: 'UDP' })] }))
    assert.deepEqual(lab.takeOps(), ['remove-virtual-server tcp 10.96.0.1:80'])
    await lab.stop()
  })

  it('changes session affinity without a new virtual server', async () => {
    const lab = await labWithWeb('10.1.0.1')
    await lab.deliver(set({ ...web, sessionAffinity: 'ClientIP' }))
    assert.deepEqual(lab.takeOps(), ['set-virtual-server tcp 10.96.0.1:80'])
    assert.match((await snapshot(lab.kernel)).join(), /rr 1 10800/)
    await lab.stop()
  })

  it('is programmed in both families', async () => {
    const lab = new PipelineLab()
    const clusterIPs = ['10.96.0.1', 'fd00::1']
    const v6 = slice('web-6', 'web', ['fd00:1::1'])
    await lab.deliver(
      set(service('web', '10.96.0.1', { clusterIPs, ipFamilies: ['IPv4', 'IPv6'] })),
      set(slice('web-4', 'web', ['10.1.0.1'])),
      set(v6),
      synced,
    )
    assert.deepEqual(await snapshot(lab.kernel), [
      'route 10.96.0.1 dev lo',
      'route fd00::1 dev lo',
      'tcp 10.96.0.1:80 rr 0 0 10.1.0.1:8080 masquerade 1',
      'tcp fd00::1:80 rr 0 0 fd00:1::1:8080 masquerade 1',
    ])
    await lab.stop()
  })

  it('follows changes of the zone of the node', async () => {
    const lab = new PipelineLab()
    const hinted = [endpoint('10.1.0.1', { zoneHints: ['a'] }), endpoint('10.1.0.2', { zoneHints: ['b'] })]
    await lab.deliver(set(node('here', { zone: 'a' })), set(web), set(slice('web-1', 'web', hinted)), synced)
    lab.takeOps()
    await lab.deliver(set(node('here', { zone: 'b' })))
    assert.deepEqual(lab.takeOps(), [
      'add-real-server tcp 10.96.0.1:80 10.1.0.2:8080',
      'set-real-server tcp 10.96.0.1:80 10.1.0.1:8080',
    ])
    await lab.stop()
  })

  it('reports an invalid cluster IP once, and is programmed after its correction', async () => {
    const lab = await labWithWeb('10.1.0.1')
    await lab.deliver(set(service('bad', 'banana')))
    await lab.deliver(set(service('bad', 'banana', { labels: { 'topology.kubernetes.io/zone': '' } })))
    assert.equal(
      lab.log.find('error', 'Service default/bad: clusterIP "banana" is not an IP address').length,
      1,
    )
    await lab.deliver(set(service('bad', '10.96.0.2')))
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    assert.deepEqual(lab.takeOps(), ['add-virtual-server tcp 10.96.0.2:80', 'add-route 10.96.0.2'])
    await lab.stop()
  })
})

describe('an invalid object', () => {
  const otherProxy = { labels: { 'service.kubernetes.io/service-proxy-name': 'x' } }
  const headless = { labels: { 'service.kubernetes.io/headless': '' } }
  const cases = [
    ['a Service is deleted', set(service('bad', 'banana')), remove('Service', 'bad')],
    ['a Service is relabelled', set(service('bad', 'banana')), set(service('bad', 'banana', otherProxy))],
    ['a slice is deleted', set(slice('bad', 'web', ['banana'])), remove('EndpointSlice', 'bad')],
    [
      'a slice is relabelled',
      set(slice('bad', 'web', ['banana'])),
      set(slice('bad', 'web', ['banana'], headless)),
    ],
  ] as const
  for (const [name, bad, end] of cases) {
    it(`is forgotten without a log line when it is no longer relevant: ${name}`, async () => {
      const lab = await labWithWeb('10.1.0.1')
      await lab.deliver(bad)
      assert.match(await lab.registry.metrics(), /^viaduct_objects_failed 1$/mu)
      await lab.deliver(end)
      assert.match(await lab.registry.metrics(), /^viaduct_objects_failed 0$/mu)
      assert.deepEqual(lab.log.find('info', 'Network programming recovered'), [])
      await lab.stop()
    })
  }
})

it('counts the events of Services and EndpointSlices', async () => {
  const lab = new PipelineLab()
  await lab.deliver(set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1'])), synced)
  await lab.deliver(remove('EndpointSlice', 'web-1'))
  const text = await lab.registry.metrics()
  assert.match(text, /^kubeproxy_sync_proxy_rules_service_changes_total 1$/mu)
  assert.match(text, /^kubeproxy_sync_proxy_rules_endpoint_changes_total 2$/mu)
  await lab.stop()
})

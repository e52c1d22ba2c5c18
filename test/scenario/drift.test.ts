import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { IpvsOp } from '../../src/kernel/index.js'
import { openModelKernel, type ModelKernel } from '../model/index.js'
import { node, remove, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, ip, snapshot } from '../support/pipeline-lab.js'

const objects = [
  set(service('web', '10.96.0.1')),
  set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2'])),
  synced,
]
const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 80 } as const
const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
const plain = { weight: 1, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 } as const
const first = { address: ip('10.1.0.1'), port: 8080 }
const stranger = { address: ip('10.9.9.9'), port: 1 }
const route = { address: ip('10.96.0.1'), interfaceIndex: 1, protocol: 173 }

async function startedLab(options: ConstructorParameters<typeof PipelineLab>[0] = {}): Promise<PipelineLab> {
  const lab = new PipelineLab(options)
  await lab.deliver(...objects)
  lab.takeOps()
  return lab
}

const cases: readonly {
  readonly name: string
  readonly kind: string
  readonly by: readonly IpvsOp[]
  readonly repair: readonly string[]
}[] = [
  {
    name: 'a virtual server is removed',
    kind: 'virtual-server-missing',
    by: [{ op: 'remove-virtual-server', server: key }],
    repair: [
      'add-virtual-server tcp 10.96.0.1:80',
      'add-real-server tcp 10.96.0.1:80 10.1.0.1:8080',
      'add-real-server tcp 10.96.0.1:80 10.1.0.2:8080',
    ],
  },
  {
    name: 'its scheduler is changed',
    kind: 'virtual-server-changed',
    by: [{ op: 'set-virtual-server', server: { key, settings: { ...settings, scheduler: 'lc' } } }],
    repair: ['set-virtual-server tcp 10.96.0.1:80'],
  },
  {
    name: 'a real server is removed',
    kind: 'real-server-missing',
    by: [{ op: 'remove-real-server', server: key, real: first }],
    repair: ['add-real-server tcp 10.96.0.1:80 10.1.0.1:8080'],
  },
  {
    name: 'a real server is drained',
    kind: 'real-server-changed',
    by: [{ op: 'set-real-server', server: key, real: { key: first, settings: { ...plain, weight: 0 } } }],
    repair: ['set-real-server tcp 10.96.0.1:80 10.1.0.1:8080'],
  },
  {
    name: 'a foreign real server is added',
    kind: 'real-server-unexpected',
    by: [{ op: 'add-real-server', server: key, real: { key: stranger, settings: plain } }],
    // It is drained first, because it may have connections.
    repair: ['set-real-server tcp 10.96.0.1:80 10.9.9.9:1', 'remove-real-server tcp 10.96.0.1:80 10.9.9.9:1'],
  },
  {
    name: 'a virtual server is added on a VIP',
    kind: 'virtual-server-unexpected',
    by: [{ op: 'add-virtual-server', server: { key: { ...key, port: 443 }, settings } }],
    repair: ['remove-virtual-server tcp 10.96.0.1:443'],
  },
]

describe('foreign changes', () => {
  for (const { name, kind, by, repair } of cases) {
    it(`${name}: found within a period, counted, repaired with the necessary operations only`, async () => {
      const lab = await startedLab()
      const before = await snapshot(lab.kernel)
      await lab.kernel.ipvs.apply(by)
      lab.takeOps()
      await lab.clock.advance(30_000)
      assert.deepEqual(lab.takeOps(), repair)
      assert.deepEqual(await snapshot(lab.kernel), before)
      const [line] = lab.log.find('info', 'Kernel state differs')
      assert.deepEqual(line?.fields['drift'], { [kind]: 1 })
      await lab.clock.advance(60_000)
      assert.equal(lab.log.find('info', 'Kernel state differs').length, 1)
      await lab.stop()
    })
  }

  it('a VIP route is removed', async () => {
    const lab = await startedLab()
    await lab.kernel.routes.apply([{ op: 'remove-route', route }])
    lab.takeOps()
    await lab.clock.advance(30_000)
    assert.deepEqual(lab.takeOps(), ['add-route 10.96.0.1'])
    assert.deepEqual(lab.log.find('info', 'Kernel state differs')[0]?.fields['drift'], {
      'binding-missing': 1,
    })
    await lab.stop()
  })

  it('the dummy device is deleted: it is restored at once, with its addresses', async () => {
    for (const vipBinding of ['routes', 'addresses'] as const) {
      const lab = await startedLab({ vipBinding })
      const before = await snapshot(lab.kernel)
      await lab.kernel.links.remove((await lab.kernel.links.find('kube-ipvs0'))?.index ?? -1)
      await lab.clock.advance(0)
      assert.notEqual(await lab.kernel.links.find('kube-ipvs0'), undefined)
      assert.deepEqual(await snapshot(lab.kernel), before)
      await lab.stop()
    }
  })

  it('lo goes down and up: its routes are restored at once', async () => {
    const lab = await startedLab()
    const before = await snapshot(lab.kernel)
    await lab.kernel.routes.apply([{ op: 'remove-route', route }])
    await lab.clock.advance(0)
    assert.notDeepEqual(await snapshot(lab.kernel), before)
    await lab.kernel.links.setUp(1)
    await lab.clock.advance(0)
    assert.deepEqual(await snapshot(lab.kernel), before)
    await lab.stop()
  })

  it('foreign objects stay: other virtual servers, marks, excluded networks, other routes', async () => {
    const kernel = openModelKernel()
    const foreign: readonly IpvsOp[] = [
      { op: 'add-virtual-server', server: { key: { ...key, address: ip('192.0.2.1') }, settings } },
      { op: 'add-virtual-server', server: { key: { family: 'ipv4', mark: 7 }, settings } },
      { op: 'add-virtual-server', server: { key: { ...key, address: ip('10.50.0.1') }, settings } },
    ]
    await kernel.ipvs.apply(foreign)
    await kernel.routes.apply([
      { op: 'add-route', route: { address: ip('192.0.2.1'), interfaceIndex: 1, protocol: 3 } },
    ])
    // Virtual servers in an excluded network stay even if a route of Viaduct binds the address.
    await kernel.routes.apply([{ op: 'add-route', route: { ...route, address: ip('10.50.0.1') } }])
    const lab = await startedLab({ kernel, excludeCidrs: ['10.50.0.0/16'] })
    await lab.clock.advance(30_000)
    assert.equal((await kernel.ipvs.dump('ipv4')).virtualServers.byteLength / 64, 4)
    assert.equal(lab.takeOps().filter((op) => op.includes('192.0.2.1')).length, 0)
    await lab.stop()
  })
})

describe('VIPs', () => {
  it('that another program made local count as bound and are never unbound', async () => {
    const kernel = openModelKernel()
    const index = (await kernel.links.addDummy('eth9')).index
    await kernel.routes.apply([
      { op: 'add-address', address: { address: ip('10.96.0.1'), prefixLength: 24, interfaceIndex: index } },
    ])
    const lab = await startedLab({ kernel })
    assert.ok((await snapshot(kernel)).every((line) => !line.startsWith('route')))
    await lab.deliver(remove('Service', 'web'))
    assert.deepEqual(lab.takeOps(), ['remove-virtual-server tcp 10.96.0.1:80'])
    await lab.stop()
  })

  it('get a route when the foreign address is removed', async () => {
    const lab = await startedLab()
    const index = (await lab.kernel.links.addDummy('eth9')).index
    const address = { address: ip('10.96.0.2'), prefixLength: 24, interfaceIndex: index }
    await lab.kernel.routes.apply([{ op: 'add-address', address }])
    await lab.deliver(set(service('shop', '10.96.0.2')))
    await lab.clock.advance(0)
    lab.takeOps()
    await lab.kernel.routes.apply([{ op: 'remove-address', address }])
    await lab.clock.advance(0)
    assert.deepEqual(lab.takeOps(), ['remove-address 10.96.0.2', 'add-route 10.96.0.2'])
    await lab.stop()
  })

  it('have the node address as preferred source, and follow it', async () => {
    const lab = await startedLab()
    const index = (await lab.kernel.links.addDummy('eth9')).index
    for (const text of ['192.0.2.10', '192.0.2.11']) {
      const address = { address: ip(text), prefixLength: 24, interfaceIndex: index }
      await lab.kernel.routes.apply([{ op: 'add-address', address }])
      await lab.deliver(set(node('here', { ips: [text] })))
      await lab.clock.advance(0)
      assert.ok((await snapshot(lab.kernel)).includes(`route 10.96.0.1 dev lo src ${text}`))
    }
    await lab.deliver(set(node('here', { ips: ['203.0.113.1'] })))
    await lab.clock.advance(60_000)
    assert.ok((await snapshot(lab.kernel)).includes('route 10.96.0.1 dev lo'))
    assert.equal(lab.log.find('warn', '203.0.113.1 is on no interface').length, 1)
    await lab.stop()
  })

  it('change the kind of binding without an unbound moment', async () => {
    const kernel = openModelKernel()
    for (const [from, to, ops] of [
      ['routes', 'addresses', ['add-address 10.96.0.1', 'remove-route 10.96.0.1']],
      ['addresses', 'routes', ['replace-route 10.96.0.1', 'remove-address 10.96.0.1']],
    ] as const) {
      await (await startedLab({ kernel, vipBinding: from })).stop()
      const lab = new PipelineLab({ kernel, vipBinding: to })
      lab.takeOps()
      await lab.deliver(...objects)
      assert.deepEqual(lab.takeOps(), ops)
      await lab.stop()
    }
  })

  it('are bound by routes on a kernel without dummy devices, with one line about it', async () => {
    const lab = await startedLab({ kernel: openModelKernel({ hasDummyModule: false }) })
    await lab.clock.advance(90_000)
    assert.ok((await snapshot(lab.kernel)).includes('route 10.96.0.1 dev lo'))
    assert.equal(lab.log.find('warn', 'no dummy devices').length, 1)
    await lab.stop()
  })
})

describe('two Services with one frontend', () => {
  const orders = [
    ['a', 'b'],
    ['b', 'a'],
  ] as const
  for (const [one, other] of orders) {
    it(`the one that sorts first has the frontend, even if ${one} is created first`, async () => {
      const lab = new PipelineLab()
      for (const name of [one, other]) {
        await lab.deliver(
          set(service(name, '10.96.0.1')),
          set(slice(name, name, [`10.1.0.${name === 'a' ? 1 : 2}`])),
          synced,
        )
      }
      assert.match((await snapshot(lab.kernel)).join(), /10\.1\.0\.1:8080/)
      const lines = lab.log.find('warn', 'already belongs to default/a:/TCP')
      assert.equal(lines.length, 1)
      assert.equal(lines[0]?.fields.service, 'default/b:/TCP')
      await lab.deliver(set(slice('b', 'b', ['10.1.0.3'])))
      assert.equal(lab.log.find('warn', 'already belongs').length, 1, 'reported once')
      assert.deepEqual(lab.events, [
        {
          type: 'Warning',
          reason: 'FrontendConflict',
          action: 'Sync',
          regarding: { apiVersion: 'v1', kind: 'Service', namespace: 'default', name: 'b' },
          note: 'Service port default/b:/TCP: tcp 10.96.0.1:80 already belongs to default/a:/TCP, which sorts first',
        },
      ])
      assert.match(await lab.registry.metrics(), /^viaduct_frontend_conflicts\{ip_family="IPv4"\} 1$/mu)
      await lab.deliver(remove('Service', 'a'))
      assert.match(await lab.registry.metrics(), /^viaduct_frontend_conflicts\{ip_family="IPv4"\} 0$/mu)
      const recovery = lab.log.find('info', 'Service is programmed as specified now')
      assert.equal(recovery[0]?.fields.service, 'default/b:/TCP')
      assert.match((await snapshot(lab.kernel)).join(), /10\.1\.0\.3:8080/)
      await lab.stop()
    })
  }
})

it('the removal of a Service that lost its frontend logs nothing', async () => {
  const lab = new PipelineLab()
  await lab.deliver(set(service('a', '10.96.0.1')), set(service('b', '10.96.0.1')), synced)
  await lab.deliver(remove('Service', 'b'))
  assert.match(await lab.registry.metrics(), /^viaduct_objects_failed 0$/mu)
  assert.deepEqual(lab.log.find('info', 'Network programming recovered'), [])
  await lab.stop()
})

describe('a restart', () => {
  it('removes a Service that was deleted while no agent ran', async () => {
    const kernel: ModelKernel = openModelKernel()
    await (await startedLab({ kernel })).stop()
    const lab = new PipelineLab({ kernel })
    await lab.deliver(synced)
    assert.deepEqual(lab.takeOps().toSorted(), [
      'remove-route 10.96.0.1',
      'remove-virtual-server tcp 10.96.0.1:80',
    ])
    await lab.stop()
  })

  it('writes nothing after a stop', async () => {
    const lab = await startedLab()
    await lab.stop()
    await lab.deliver(set(service('shop', '10.96.0.2')))
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.takeOps(), [])
  })
})

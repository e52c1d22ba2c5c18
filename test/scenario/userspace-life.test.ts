// userspace mode over time: first sync, changes, restarts, faults.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { RouteCursor } from '../../src/kernel/index.js'
import type { ConfigInput } from '../../src/config/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { type ModelKernel, openModelKernel } from '../model/index.js'
import { node, port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab } from '../support/pipeline-lab.js'
import { anyHistory, finalObjects } from '../support/worlds.js'

const listed: ObjectEvent = { type: 'listed' }
const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]
const here = set(node('here', { ips: ['192.0.2.1'] }))

function open(kernel?: ModelKernel, config: ConfigInput = {}): PipelineLab {
  return new PipelineLab({
    ...(kernel === undefined ? {} : { kernel }),
    config: { ...config, mode: 'userspace' },
  })
}

async function started(...events: readonly ObjectEvent[]): Promise<PipelineLab> {
  const lab = open()
  await lab.deliver(...events, synced)
  return lab
}

/** `tcp 10.96.0.1:80 cluster cluster -> 10.1.0.1:8080 10.1.0.2:8080`, sorted. */
function listeners({ kernel }: PipelineLab): readonly string[] {
  const { relay } = kernel
  return [...relay.listeners.values()]
    .map(({ protocol, address, port: number, near, far, service: id }) => {
      const served = relay.services.get(id)
      const endpoints = (far === 'local' ? served?.localEndpoints : served?.clusterEndpoints) ?? []
      const texts = endpoints.map((endpoint) => `${endpoint.address}:${endpoint.port}`)
      return `${protocol} ${address}:${number} ${near} ${far} -> ${texts.join(' ')}`
    })
    .toSorted()
}

/** Addresses of VIP routes, sorted; with the metric where it is not that of the mode. */
async function vipRoutes({ kernel }: PipelineLab): Promise<readonly string[]> {
  const found: string[] = []
  for (const family of ['ipv4', 'ipv6'] as const) {
    const routes = new RouteCursor(await kernel.routes.dumpLocalRoutes(family))
    for (let i = 0; i < routes.length; i++) {
      const { address, protocol, metric } = routes.route(i)
      if (protocol === 173) found.push(metric === 0x56494144 ? address : `${address} metric ${metric}`)
    }
  }
  return found.toSorted()
}

function relayOps({ kernel }: PipelineLab): readonly string[] {
  return kernel.relay.batches.take().map(({ op }) => op)
}

const nodePort = [
  set(service('np', '10.96.0.3', { type: 'NodePort', ports: [port(80, { nodePort: 30080 })] })),
  set(slice('np-1', 'np', ['10.3.0.1'])),
]
const second = { address: ip('192.0.2.5'), prefixLength: 24, interfaceIndex: 1 }

/** `127.0.0.1:30080` of the listeners of the node port. */
function onNode(lab: PipelineLab): readonly string[] {
  return listeners(lab)
    .map((line) => line.split(' ')[1] ?? '')
    .filter((place) => place.endsWith(':30080'))
}

describe('userspace mode', () => {
  it('listens on each VIP with endpoints, and makes every VIP local', async () => {
    const lab = await started(here, ...web, set(service('empty', '10.96.0.9')))
    assert.deepEqual(listeners(lab), ['tcp 10.96.0.1:80 cluster cluster -> 10.1.0.1:8080 10.1.0.2:8080'])
    assert.deepEqual(await vipRoutes(lab), ['10.96.0.1', '10.96.0.9'])
    assert.deepEqual(lab.crashes, [])
    await lab.stop()
  })

  it('makes a VIP local before it listens there, and listens no more before the VIP goes', async () => {
    const lab = open()
    const steps: string[] = []
    lab.kernel.routes.batches.plan = { fault: ({ op }) => void steps.push(op) }
    lab.kernel.relay.batches.plan = { fault: ({ op }) => void steps.push(op) }
    await lab.deliver(...web, synced)
    await lab.deliver(remove('Service', 'web'))
    assert.deepEqual(steps, [
      'set-service',
      'add-route',
      'set-listener',
      'remove-listener',
      'remove-service',
      'remove-route',
    ])
    await lab.stop()
  })

  it('opens the listeners of the API server and of the cluster DNS before the others', async () => {
    const lab = open()
    const opened: string[] = []
    lab.kernel.relay.batches.plan = {
      fault: (op) => void (op.op === 'set-listener' && opened.push(op.listener.address)),
    }
    const api = [
      set(service('kubernetes', '10.96.0.100')),
      set(slice('kubernetes-1', 'kubernetes', ['192.0.2.9'])),
    ]
    await lab.deliver(...web, ...shop, ...api, synced)
    assert.deepEqual(opened, ['10.96.0.100', '10.96.0.1', '10.96.0.2'])
    await lab.stop()
  })

  it('sends one operation for a change of endpoints, and none for a change of nothing', async () => {
    const lab = await started(...web, ...shop)
    relayOps(lab)
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1'])))
    assert.deepEqual(relayOps(lab), ['set-service'])
    await lab.deliver(...web.slice(0, 1))
    await lab.clock.advance(65_000)
    assert.deepEqual(relayOps(lab), [])
    await lab.stop()
  })

  it('opens and closes the listener with the first and the last endpoint, and keeps the VIP', async () => {
    const lab = await started(...web)
    await lab.deliver(set(slice('web-1', 'web', [])))
    assert.deepEqual([listeners(lab), lab.kernel.relay.services.size], [[], 0])
    assert.deepEqual(await vipRoutes(lab), ['10.96.0.1'])
    await lab.deliver(...web)
    assert.equal(listeners(lab).length, 1)
    await lab.stop()
  })

  it('adopts the routes of a former run, and removes those that went meanwhile only when all objects are known', async () => {
    const former = await started(...web, ...shop)
    await former.stop()
    const kernel = openModelKernel()
    for (const route of (await dumped(former)).values())
      await kernel.routes.apply([{ op: 'add-route', route }])
    kernel.routes.batches.take()
    const lab = open(kernel)
    await lab.deliver(...web, listed)
    assert.deepEqual(await vipRoutes(lab), ['10.96.0.1', '10.96.0.2'])
    await lab.deliver(synced)
    assert.deepEqual(await vipRoutes(lab), ['10.96.0.1'])
    assert.deepEqual(lab.takeOps(), ['remove-route 10.96.0.2'])
    await lab.stop()
  })

  it('leaves routes of other programs alone, also those with the protocol of Viaduct', async () => {
    const kernel = openModelKernel()
    const foreign = { interfaceIndex: 1, protocol: 173 }
    for (const route of [
      { ...foreign, address: ip('10.96.0.7') },
      { ...foreign, address: ip('10.96.0.8'), metric: 7 },
      { ...foreign, address: ip('10.96.0.1'), protocol: 99 },
    ])
      await kernel.routes.apply([{ op: 'add-route', route }])
    const lab = open(kernel)
    await lab.deliver(...web, synced)
    assert.deepEqual(await vipRoutes(lab), ['10.96.0.7 metric undefined', '10.96.0.8 metric 7'])
    assert.equal(listeners(lab).length, 1)
    await lab.stop()
  })

  it('repairs a route that another program removed', async () => {
    const lab = await started(...web)
    const [route] = await dumped(lab)
    assert.ok(route)
    await lab.kernel.routes.apply([{ op: 'remove-route', route }])
    await lab.clock.advance(35_000)
    assert.deepEqual(await vipRoutes(lab), ['10.96.0.1'])
    assert.equal(lab.log.find('info', 'Kernel state differs').length, 1)
    await lab.stop()
  })

  it('opens the node port on each address that the networks contain, and follows the addresses', async () => {
    const lab = open(undefined, { nodePortAddresses: ['127.0.0.0/8', '192.0.2.0/24'] })
    await lab.deliver(...nodePort, synced)
    assert.deepEqual(onNode(lab), ['127.0.0.1:30080'])
    await lab.kernel.routes.apply([{ op: 'add-address', address: second }])
    await lab.clock.advance(0)
    assert.deepEqual(onNode(lab), ['127.0.0.1:30080', '192.0.2.5:30080'])
    await lab.kernel.routes.apply([{ op: 'remove-address', address: second }])
    await lab.clock.advance(0)
    assert.deepEqual(onNode(lab), ['127.0.0.1:30080'])
    await lab.stop()
  })

  it('opens one listener for a node port on all addresses, and changes none with the addresses', async () => {
    const lab = await started(...nodePort)
    assert.deepEqual(onNode(lab), ['0.0.0.0:30080'])
    assert.deepEqual(lab.kernel.relay.settings?.nodePortAddresses, ['127.0.0.1', '::1'])
    relayOps(lab)
    await lab.kernel.routes.apply([{ op: 'add-address', address: second }])
    await lab.clock.advance(0)
    assert.deepEqual(lab.kernel.relay.settings?.nodePortAddresses, ['127.0.0.1', '192.0.2.5', '::1'])
    assert.deepEqual([onNode(lab), relayOps(lab)], [['0.0.0.0:30080'], []])
    await lab.stop()
  })

  it('reports a listener that cannot open, serves the others, and tries again', async () => {
    const lab = open()
    const { EADDRINUSE } = constants.errno
    let isTaken = true
    lab.kernel.relay.batches.plan = {
      fault: (op) =>
        isTaken && op.op === 'set-listener' && op.listener.address === '10.96.0.1' ? EADDRINUSE : undefined,
    }
    await lab.deliver(...web, ...shop, synced)
    assert.equal(listeners(lab).length, 1)
    await lab.clock.advance(10_000)
    assert.deepEqual(
      lab.log
        .find('error', 'Network programming failed')
        .map(({ fields }) => [fields.service, fields['code']]),
      [['default/web', 'EADDRINUSE']],
    )
    isTaken = false
    await lab.clock.advance(30_000)
    assert.equal(listeners(lab).length, 2)
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    await lab.stop()
  })

  it('tries again what a relay that fails as a whole did not take', async () => {
    const lab = open()
    let isBroken = true
    lab.kernel.relay.batches.plan = { callFault: () => (isBroken ? constants.errno.ENOMEM : undefined) }
    await lab.deliver(...web, synced)
    assert.deepEqual(listeners(lab), [])
    isBroken = false
    await lab.clock.advance(1000)
    assert.equal(listeners(lab).length, 1)
    await lab.stop()
  })

  it('forgets a listener that failed when its Service goes while the relay fails as a whole', async () => {
    const lab = open()
    const { EADDRINUSE, ENOMEM } = constants.errno
    let isBroken = false
    lab.kernel.relay.batches.plan = {
      fault: ({ op }) => (op === 'set-listener' ? EADDRINUSE : undefined),
      callFault: () => (isBroken ? ENOMEM : undefined),
    }
    await lab.deliver(...web, synced)
    isBroken = true
    await lab.deliver(remove('Service', 'web'))
    isBroken = false
    await lab.clock.advance(10_000)
    assert.deepEqual([listeners(lab), lab.kernel.relay.services.size], [[], 0])
    const { passes } = lab.synchronizer
    await lab.clock.advance(20_000)
    assert.equal(lab.synchronizer.passes.length, passes.length)
    await lab.stop()
  })

  it('forgets a VIP that the kernel refused when its Service goes, also before all objects are known', async () => {
    const lab = open()
    lab.kernel.routes.batches.plan = {
      fault: ({ op }) => (op === 'add-route' ? constants.errno.EINVAL : undefined),
    }
    await lab.deliver(...web, listed)
    await lab.deliver(remove('Service', 'web'))
    const { passes } = lab.synchronizer
    await lab.clock.advance(20_000)
    assert.ok(lab.synchronizer.passes.length <= passes.length + 1)
    await lab.stop()
  })

  it('says that it does not serve SCTP, with an Event, and serves the other ports', async () => {
    const mixed = service('mixed', '10.96.0.4', {
      ports: [port(80, { name: 'a' }), port(81, { name: 'b', protocol: 'SCTP' })],
    })
    const ports = [
      { name: 'a', protocol: 'TCP', port: 8080 },
      { name: 'b', protocol: 'SCTP', port: 8081 },
    ] as const
    const lab = await started(set(mixed), set(slice('mixed-1', 'mixed', ['10.4.0.1'], { ports })))
    assert.equal(listeners(lab).length, 1)
    assert.deepEqual(
      lab.events.map(({ reason, regarding }) => [reason, regarding.name]),
      [['ProtocolNotServed', 'mixed']],
    )
    await lab.stop()
  })

  it('gives a frontend to one of two Services, and to the other when that one goes', async () => {
    const both = ['a', 'b'].flatMap((name, i) => [
      set(service(name, `10.96.1.${i}`, { externalIPs: ['198.51.100.9'] })),
      set(slice(`${name}-1`, name, [`10.5.0.${i + 1}`])),
    ])
    const lab = await started(...both)
    const external = (): readonly string[] => listeners(lab).filter((line) => line.includes('198.51.100.9'))
    assert.deepEqual(external(), ['tcp 198.51.100.9:80 cluster cluster -> 10.5.0.1:8080'])
    assert.equal(lab.log.find('warn', 'already belongs to').length, 1)
    await lab.deliver(remove('Service', 'a'))
    assert.deepEqual(external(), ['tcp 198.51.100.9:80 cluster cluster -> 10.5.0.2:8080'])
    assert.ok((await vipRoutes(lab)).includes('198.51.100.9'))
    await lab.stop()
  })
})

async function dumped({ kernel }: PipelineLab) {
  const cursor = new RouteCursor(await kernel.routes.dumpLocalRoutes('ipv4'))
  return Array.from({ length: cursor.length }, (_, i) => cursor.route(i)).filter(
    ({ protocol }) => protocol === 173,
  )
}

/** The state of relay and routes, without ids of services. */
async function snapshotOf(lab: PipelineLab): Promise<readonly string[]> {
  return [`${lab.kernel.relay.services.size} services`, ...listeners(lab), ...(await vipRoutes(lab))]
}

it('userspace mode: incremental equals full, for any history', async () => {
  await fc.assert(
    fc.asyncProperty(anyHistory, async (history) => {
      const stepwise = await started()
      for (const events of history) await stepwise.deliver(...events)
      const full = await started(...finalObjects(history))
      assert.deepEqual(await snapshotOf(stepwise), await snapshotOf(full))
      await Promise.all([stepwise.stop(), full.stop()])
    }),
    { numRuns: 100 },
  )
})

describe('a relay or a kernel that refuses for a while', () => {
  const { ENOBUFS, EADDRINUSE, ENOMEM } = constants.errno

  it('is asked once a second, also while a listener waits for its port', async () => {
    const lab = open()
    const { batches } = lab.kernel.relay
    batches.plan = { fault: ({ op }) => (op === 'set-listener' ? EADDRINUSE : undefined) }
    await lab.deliver(here, ...web, synced)
    let calls = 0
    batches.plan = {
      callFault: (call) => {
        if (call !== 'apply') return undefined
        assert.ok(++calls < 100, 'pass follows pass')
        return ENOMEM
      },
    }
    await lab.clock.advance(6000)
    assert.ok(calls >= 5 && calls <= 7, `${calls} calls in 6 s`)
    await lab.stop()
  })

  it('gets settings again after it refused others', async () => {
    const lab = await started(here, ...web)
    const { relay, routes } = lab.kernel
    const near = relay.settings?.nearNetworks
    const address = { address: ip('192.0.2.5'), prefixLength: 24, interfaceIndex: 1 }
    relay.batches.plan = { callFault: (call) => (call === 'configure' ? ENOMEM : undefined) }
    await routes.apply([{ op: 'add-address', address }])
    await lab.clock.advance(100)
    await routes.apply([{ op: 'remove-address', address }])
    relay.batches.plan = {}
    await lab.clock.advance(3000)
    const ofOtherFamily = { address: ip('2001:db8::5'), prefixLength: 64, interfaceIndex: 1 }
    await routes.apply([{ op: 'add-address', address: ofOtherFamily }])
    await lab.clock.advance(3000)
    const now = relay.settings?.nearNetworks ?? []
    for (const network of near ?? []) assert.ok(now.some((each) => each.address === network.address))
    await lab.stop()
  })

  it('is one problem until its addresses can be read again', async () => {
    const lab = await started(here, ...web)
    const { length } = lab.log.lines
    lab.kernel.routes.batches.plan = {
      callFault: (call) => (/address/i.test(call) ? ENOBUFS : undefined),
    }
    const address = { address: ip('192.0.2.5'), prefixLength: 24, interfaceIndex: 1 }
    await lab.kernel.routes.apply([{ op: 'add-address', address }])
    await lab.clock.advance(4000)
    const lines = lab.log.lines.slice(length).filter(({ level }) => level !== 'debug')
    assert.deepEqual(
      lines.map(({ level }) => level),
      ['error'],
      JSON.stringify(lines),
    )
    await lab.stop()
  })
})

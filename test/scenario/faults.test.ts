import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { IpvsOp, RouteOp } from '../../src/kernel/index.js'
import { remove, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, ip, snapshot } from '../support/pipeline-lab.js'

const { EACCES, EEXIST, EINVAL, ENOBUFS, ENOMEM } = constants.errno
const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.1.0.3']))]
const whole = [
  'route 10.96.0.1 dev lo',
  'route 10.96.0.2 dev lo',
  'tcp 10.96.0.1:80 rr 0 0 10.1.0.1:8080 masquerade 1 10.1.0.2:8080 masquerade 1',
  'tcp 10.96.0.2:80 rr 0 0 10.1.0.3:8080 masquerade 1',
]

function refuseSecondReal(op: IpvsOp): number | undefined {
  return op.op === 'add-real-server' && isAbout(op, '10.1.0.2') ? EINVAL : undefined
}

function denyExistence(op: IpvsOp): number | undefined {
  return op.op === 'add-virtual-server' ? EEXIST : undefined
}

function isAbout(op: IpvsOp | RouteOp, address: string): boolean {
  return JSON.stringify(op).includes(`"${address}"`)
}

describe('a refusal of the kernel', () => {
  it('of a virtual server is logged once, does not affect other Services, and is retried with back-off', async () => {
    const lab = new PipelineLab()
    lab.kernel.ipvs.batches.plan = {
      fault: (op) => (op.op === 'add-virtual-server' && isAbout(op, '10.96.0.1') ? ENOMEM : undefined),
    }
    await lab.deliver(...web, ...shop, synced)
    assert.deepEqual(await snapshot(lab.kernel), [whole[1], whole[3]], 'no VIP without its virtual server')
    const reports = lab.log.find(
      'error',
      'Service default/web: ipvs: add-virtual-server tcp 10.96.0.1:80: ENOMEM',
    )
    assert.equal(reports.length, 1)
    assert.equal(
      reports[0]?.message.includes('more'),
      false,
      'its real servers fail in consequence, and are not reported',
    )
    lab.takeOps()
    await lab.clock.advance(999)
    assert.deepEqual(lab.takeOps(), [])
    await lab.clock.advance(1)
    assert.equal(lab.takeOps()[0], 'add-virtual-server tcp 10.96.0.1:80')
    await lab.clock.advance(1999)
    assert.deepEqual(lab.takeOps(), [], 'the second delay is twice the first')
    lab.kernel.ipvs.batches.plan = {}
    await lab.clock.advance(1)
    assert.deepEqual(await snapshot(lab.kernel), whole)
    assert.equal(lab.log.find('error', 'default/web').length, 1)
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    await lab.stop()
  })

  it('of a real server does not affect the rest of its Service', async () => {
    const lab = new PipelineLab()
    lab.kernel.ipvs.batches.plan = { fault: refuseSecondReal }
    await lab.deliver(...web, synced)
    assert.equal((await snapshot(lab.kernel))[1], 'tcp 10.96.0.1:80 rr 0 0 10.1.0.1:8080 masquerade 1')
    assert.equal(lab.log.find('error', '10.96.0.1:80 -> 10.1.0.2:8080: EINVAL').length, 1)
    const failed = await lab.registry.getSingleMetricAsString('viaduct_objects_failed')
    assert.match(failed, /viaduct_objects_failed 1/)
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1'])))
    assert.match(
      await lab.registry.getSingleMetricAsString('viaduct_objects_failed'),
      /viaduct_objects_failed 0/,
    )
    await lab.stop()
  })

  it('of a VIP is logged with its Service and retried; the virtual server stays', async () => {
    const lab = new PipelineLab()
    lab.kernel.routes.batches.plan = { fault: (op) => (op.op === 'add-route' ? EACCES : undefined) }
    await lab.deliver(...web, synced)
    assert.equal(lab.log.find('error', 'Service default/web: route: add-route 10.96.0.1').length, 1)
    lab.kernel.routes.batches.plan = {}
    await lab.clock.advance(1000)
    assert.deepEqual(await snapshot(lab.kernel), [whole[0], whole[2]])
    await lab.stop()
  })

  it('is not retried after its Service is removed', async () => {
    const lab = new PipelineLab()
    lab.kernel.ipvs.batches.plan = { fault: (op) => (op.op === 'add-virtual-server' ? ENOMEM : undefined) }
    await lab.deliver(...web, synced)
    await lab.deliver(remove('Service', 'web'))
    lab.takeOps()
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.takeOps(), [])
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 0)
    await lab.stop()
  })

  for (const fault of [EINVAL, 'lost'] as const) {
    it(`of a removal (${fault}) keeps the VIP bound, by which the next run finds the leftovers`, async () => {
      const lab = new PipelineLab()
      await lab.deliver(...web, synced)
      const before = await snapshot(lab.kernel)
      lab.kernel.ipvs.batches.plan = {
        fault: ({ op }) => (op === 'remove-virtual-server' ? fault : undefined),
      }
      await lab.deliver(remove('Service', 'web'))
      assert.deepEqual(await snapshot(lab.kernel), before)
      await lab.stop()
      lab.kernel.ipvs.batches.plan = {}
      const next = new PipelineLab({ kernel: lab.kernel })
      await next.deliver(synced)
      assert.deepEqual(await snapshot(lab.kernel), [])
      await next.stop()
    })
  }

  it('of a whole batch leads to a read of the kernel', async () => {
    const lab = new PipelineLab()
    let left = 1
    lab.kernel.ipvs.batches.plan = {
      callFault: (call) => (call === 'apply' && left-- > 0 ? ENOBUFS : undefined),
    }
    await lab.deliver(...web, ...shop, synced)
    await lab.clock.advance(0)
    assert.deepEqual(await snapshot(lab.kernel), whole)
    await lab.stop()
  })

  for (const after of [0, 1, 3]) {
    it(`with lost answers from operation ${after} of a batch leads to a read before the next write`, async () => {
      const lab = new PipelineLab()
      await lab.deliver(...web, ...shop, set(slice('shop-1', 'shop', ['10.1.0.9'])), synced)
      lab.takeOps()
      let sent = 0
      let reads = 0
      // Some operations are applied and others are not.
      lab.kernel.ipvs.batches.plan = {
        fault: () => {
          if (sent++ < after || reads > 0) return undefined
          return sent % 2 === 0 ? 'unknown' : 'lost'
        },
        callFault: (call) => {
          if (call !== 'apply') reads++
          // No write may follow before the kernel was read.
          else if (sent > after) assert.ok(reads > 0)
          return undefined
        },
      }
      const moved = set(slice('web-1', 'web', ['10.1.0.2', '10.1.0.4', '10.1.0.5']))
      lab.intake.deliver([moved, ...shop])
      await lab.clock.advance(0)
      assert.ok(reads > 0)
      lab.kernel.ipvs.batches.plan = {}
      await lab.clock.advance(5000)
      assert.deepEqual(await snapshot(lab.kernel), [
        ...whole.slice(0, 2),
        'tcp 10.96.0.1:80 rr 0 0 10.1.0.2:8080 masquerade 1 10.1.0.4:8080 masquerade 1 10.1.0.5:8080 masquerade 1',
        ...whole.slice(3),
      ])
      assert.deepEqual(lab.log.find('error', 'default/'), [], 'what was settled by reading is no failure')
      await lab.stop()
    })
  }

  it('of a whole batch after a refusal: the Service is not reported as recovered before it works', async () => {
    const lab = new PipelineLab()
    lab.kernel.ipvs.batches.plan = { fault: (op) => (op.op === 'add-virtual-server' ? EINVAL : undefined) }
    await lab.deliver(...web, synced)
    lab.kernel.ipvs.batches.plan = { callFault: (call) => (call === 'apply' ? ENOBUFS : undefined) }
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.log.find('info', 'Network programming recovered'), [])
    lab.takeOps()
    lab.kernel.ipvs.batches.plan = {}
    await lab.clock.advance(60_000)
    assert.deepEqual(await snapshot(lab.kernel), [whole[0], whole[2]])
    assert.equal(
      lab.log.find('info', 'Network programming recovered').length,
      2,
      'the kernel, and the Service',
    )
    await lab.stop()
  })

  it('of every batch of routes, while virtual servers work, is reported once', async () => {
    const lab = new PipelineLab()
    await lab.deliver(synced)
    lab.kernel.routes.batches.plan = { callFault: (call) => (call === 'apply' ? ENOBUFS : undefined) }
    await lab.deliver(...web)
    await lab.deliver(...shop)
    await lab.clock.advance(60_000)
    assert.equal(lab.log.find('error', '').length, 1)
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 0)
    lab.kernel.routes.batches.plan = {}
    await lab.clock.advance(60_000)
    assert.deepEqual(await snapshot(lab.kernel), whole)
    await lab.stop()
  })

  it('of the first read prevents all writes', async () => {
    const lab = new PipelineLab()
    lab.kernel.ipvs.batches.plan = { callFault: (call) => (call === 'dump' ? ENOMEM : undefined) }
    await lab.deliver(...web, ...shop, synced)
    await lab.clock.advance(900)
    assert.deepEqual(lab.takeOps(), [])
    lab.kernel.ipvs.batches.plan = {}
    await lab.clock.advance(10_000)
    assert.deepEqual(await snapshot(lab.kernel), whole)
    await lab.stop()
  })
})

describe('the health of the data plane', () => {
  it('is bad after a change, or the first sync, has waited for two periods, until it is in the kernel', async () => {
    const lab = new PipelineLab()
    const health = (): readonly boolean[] => lab.synchronizer.health.map(({ isHealthy }) => isHealthy)
    const refuse = (): void => {
      lab.kernel.ipvs.batches.plan = { callFault: (call) => (call === 'dump' ? ENOMEM : undefined) }
    }
    refuse()
    await lab.deliver(...web, synced)
    await lab.clock.advance(59_999)
    assert.deepEqual(health(), [true, true])
    await lab.clock.advance(1)
    assert.deepEqual(health(), [false, false])
    lab.kernel.ipvs.batches.plan = {}
    await lab.clock.advance(30_000)
    assert.deepEqual(health(), [true, true])
    refuse()
    await lab.clock.advance(60_000)
    assert.deepEqual(health(), [true, true], 'a repair has failed for less than two periods')
    await lab.clock.advance(60_000)
    assert.deepEqual(health(), [false, false], 'repairs have failed for two periods')
    await lab.stop()
  })

  it('is reported once while the kernel cannot be read, at the start and later', async () => {
    const lab = new PipelineLab()
    const refuse = (): void => {
      lab.kernel.ipvs.batches.plan = { callFault: (call) => (call === 'dump' ? ENOMEM : undefined) }
    }
    refuse()
    await lab.deliver(...web, synced)
    await lab.clock.advance(20_000)
    assert.equal(lab.log.find('error', 'IPv4 state of the kernel').length, 1)
    lab.kernel.ipvs.batches.plan = {}
    await lab.clock.advance(30_000)
    refuse()
    await lab.clock.advance(60_000)
    assert.equal(lab.log.find('error', 'IPv4 state of the kernel').length, 2)
    await lab.stop()
  })

  it('has no time of a last sync while the first read is retried, though changes come in between', async () => {
    const lab = new PipelineLab()
    const startMs = lab.clock.unixMs()
    lab.kernel.ipvs.batches.plan = { callFault: (call) => (call === 'dump' ? ENOMEM : undefined) }
    await lab.deliver(...web, synced)
    for (let change = 1; change <= 20; change++) {
      await lab.clock.advance(350)
      await lab.deliver(set(slice('web-1', 'web', [`10.1.0.${change}`])))
    }
    assert.deepEqual(
      lab.synchronizer.health.map(({ lastUpdatedMs }) => lastUpdatedMs),
      [startMs, startMs],
    )
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })
})

describe('metrics of a failed sync', () => {
  const calls = ['dump', 'apply'] as const
  for (const call of calls) {
    it(`(${call}) have no time stamp, and then the time until the sync succeeds`, async () => {
      const lab = new PipelineLab()
      lab.kernel.ipvs.batches.plan = { callFault: (called) => (called === call ? ENOBUFS : undefined) }
      await lab.deliver(...web, synced)
      await lab.clock.advance(5000)
      const last = /^kubeproxy_sync_proxy_rules_last_timestamp_seconds\{ip_family="IPv4"\}/mu
      const delay = /^viaduct_event_to_kernel_seconds_(sum|count)\{ip_family="IPv4"\} (.*)$/gmu
      const failed = await lab.registry.metrics()
      assert.doesNotMatch(failed, last)
      assert.deepEqual([...failed.matchAll(delay)], [])
      lab.kernel.ipvs.batches.plan = {}
      await lab.clock.advance(60_000)
      const text = await lab.registry.metrics()
      assert.match(text, last)
      const [sum, count] = [...text.matchAll(delay)].map(([, , value]) => Number(value))
      assert.ok(sum !== undefined && sum >= 5, `${sum} s`)
      assert.equal(count, 1)
      await lab.stop()
    })
  }
})

describe('answers that contradict the acknowledged state, or are lost', () => {
  for (const fault of ['unknown', 'lost'] as const) {
    it(`${fault} in the middle of a batch: a reconcile follows at once`, async () => {
      const lab = new PipelineLab()
      let left = 3
      lab.kernel.ipvs.batches.plan = { fault: () => (left-- > 0 ? undefined : left > -3 ? fault : undefined) }
      await lab.deliver(...web, ...shop, synced)
      await lab.clock.advance(0)
      assert.deepEqual(await snapshot(lab.kernel), whole)
      assert.equal(lab.log.find('error', '').length, 0, 'the kernel refused nothing')
      await lab.stop()
    })
  }

  it('the removal of an absent object succeeds', async () => {
    const lab = new PipelineLab()
    await lab.deliver(...web, synced)
    const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 80 } as const
    const real = { address: ip('10.1.0.2'), port: 8080 }
    await lab.kernel.ipvs.apply([{ op: 'remove-real-server', server: key, real }])
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1'])))
    await lab.kernel.ipvs.apply([{ op: 'remove-virtual-server', server: key }])
    await lab.kernel.routes.apply([
      { op: 'remove-route', route: { address: ip('10.96.0.1'), interfaceIndex: 1, protocol: 173 } },
    ])
    await lab.deliver(remove('Service', 'web'))
    assert.deepEqual(lab.log.find('error', ''), [])
    lab.takeOps()
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })

  it('EEXIST: the foreign virtual server is taken over and corrected', async () => {
    const lab = new PipelineLab()
    await lab.deliver(...web, synced)
    const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.2'), port: 80 } as const
    const settings = { scheduler: 'lc', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
    await lab.kernel.ipvs.apply([{ op: 'add-virtual-server', server: { key, settings } }])
    await lab.deliver(...shop)
    await lab.clock.advance(0)
    assert.deepEqual(await snapshot(lab.kernel), whole)
    await lab.stop()
  })

  it('a repeated wrong or lost answer is reported once and counted, and its end is reported', async () => {
    for (const fault of ['lost', EEXIST] as const) {
      for (const part of ['ipvs', 'routes'] as const) {
        const lab = new PipelineLab()
        const op = part === 'ipvs' ? 'add-virtual-server' : 'add-route'
        lab.kernel[part].batches.plan = {
          fault: (tried: IpvsOp | RouteOp) => (tried.op === op ? fault : undefined),
        }
        await lab.deliver(...web, synced)
        await lab.clock.advance(600_000)
        const lines = lab.log.find(
          'error',
          `Service default/web: ${part === 'ipvs' ? part : 'route'}: ${op} `,
        )
        assert.equal(lines.length, 1)
        const failed = await lab.registry.getSingleMetricAsString('viaduct_objects_failed')
        assert.match(failed, /viaduct_objects_failed 1/)
        const errors = await lab.registry.getSingleMetricAsString('viaduct_kernel_errors_total')
        assert.match(errors, new RegExp(`operation="${op}",code="E`))
        assert.equal(lab.log.find('info', 'Network programming recovered').length, 0)
        lab.kernel[part].batches.plan = {}
        await lab.clock.advance(60_000)
        assert.deepEqual(await snapshot(lab.kernel), [whole[0], whole[2]])
        assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
        await lab.stop()
      }
    }
  })

  it('repeated wrong answers are retried with back-off', async () => {
    const lab = new PipelineLab()
    await lab.deliver(...web, synced)
    lab.takeOps()
    lab.kernel.ipvs.batches.plan = { fault: denyExistence }
    await lab.deliver(...shop)
    await lab.clock.advance(10_000)
    const attempts = lab.takeOps().filter((op) => op.startsWith('add-virtual-server')).length
    assert.ok(attempts > 1 && attempts < 8, `${attempts} attempts in 10 s`)
    await lab.stop()
  })
})

describe("another program's lock", () => {
  it('delays the removal of leftovers of iptables mode and a stop, but no change', async () => {
    const lab = new PipelineLab()
    const { kernel } = lab
    kernel.xtNamespace.table('ipv4', 'nat').addChain('KUBE-SVC-A')
    const lock = new EventEmitter()
    const free = once(lock, 'free')
    const nat = kernel.xtables('ipv4', 'nat')
    const apply = nat.apply.bind(nat)
    nat.apply = async (ops, options) => {
      if (options?.prune !== undefined) await free
      return await apply(ops, options)
    }
    await lab.deliver(...web, synced)
    await lab.deliver(...shop)
    assert.deepEqual(await snapshot(kernel), whole)
    const stopped = lab.stop()
    lock.emit('free')
    await stopped
    const left = (await nat.chains()).map(({ chain }) => chain)
    assert.ok(!left.includes('KUBE-SVC-A'), left.join())
  })
})

import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { openModelKernel, type ModelKernel } from '../model/index.js'
import type { ObjectEvent, ServicePortSpec } from '../../src/source/index.js'
import { endpoint, port, remove, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, ip, snapshot } from '../support/pipeline-lab.js'

const { EACCES, ENOMEM } = constants.errno
const webWith = (ready: readonly string[]): ObjectEvent => set(slice('web-1', 'web', ready))
const both = webWith(['10.1.0.1', '10.1.0.2'])
const one = webWith(['10.1.0.1'])
const real = 'tcp 10.96.0.1:80 10.1.0.2:8080'
const settle = 'net/ipv4/vs/expire_quiescent_template'

interface Traffic {
  activeConnections: number
  inactiveConnections: number
  inPackets: number
  outPackets: number
  inBytes: number
  outBytes: number
}

/** A lab with a Service with two endpoints, and the kernel's counters for each of them. */
async function startedLab(
  options: ConstructorParameters<typeof PipelineLab>[0] = {},
  rest: Parameters<typeof service>[2] = {},
): Promise<{ readonly lab: PipelineLab; readonly traffic: Traffic }> {
  const lab = new PipelineLab(options)
  const counted = { inPackets: 10, outPackets: 10, inBytes: 600, outBytes: 600 }
  const traffic = { activeConnections: 1, inactiveConnections: 0, ...counted }
  lab.kernel.ipvs.traffic = () => traffic
  await lab.deliver(set(service('web', '10.96.0.1', rest)), both, synced)
  lab.takeOps()
  return { lab, traffic }
}

describe('a real server whose endpoint is removed', () => {
  it('gets no new connections, and is removed after the last one has ended', async () => {
    const { lab, traffic } = await startedLab()
    await lab.deliver(one)
    assert.deepEqual(lab.takeOps(), [`set-real-server ${real}`])
    const [, line] = await snapshot(lab.kernel)
    assert.equal(line, 'tcp 10.96.0.1:80 rr 0 0 10.1.0.1:8080 masquerade 1 10.1.0.2:8080 masquerade 0')
    await lab.clock.advance(600_000)
    assert.deepEqual(lab.takeOps(), [], 'as long as a client is connected')
    Object.assign(traffic, { activeConnections: 0, inactiveConnections: 1 })
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.takeOps(), [], 'a connection that closes may still carry an answer')
    traffic.inactiveConnections = 0
    await lab.clock.advance(10_000)
    assert.deepEqual(lab.takeOps(), [`remove-real-server ${real}`])
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })

  it('causes no pass before its first look', async () => {
    const { lab } = await startedLab()
    let passes = 0
    const pipeline = lab.pipelines.get('ipv4')
    assert.ok(pipeline !== undefined)
    const runOnce = pipeline.runOnce.bind(pipeline)
    pipeline.runOnce = async () => {
      passes++
      return await runOnce()
    }
    await lab.deliver(one)
    assert.equal(passes, 1)
    await lab.clock.advance(999)
    assert.equal(passes, 1)
    await lab.clock.advance(1)
    assert.equal(passes, 2)
    await lab.stop()
  })

  it('gets its weight back with its endpoint, and is neither removed nor added', async () => {
    const { lab } = await startedLab()
    const before = await snapshot(lab.kernel)
    await lab.deliver(one)
    await lab.clock.advance(20_000)
    await lab.deliver(both)
    assert.deepEqual(lab.takeOps(), [`set-real-server ${real}`, `set-real-server ${real}`])
    assert.deepEqual(await snapshot(lab.kernel), before)
    await lab.stop()
  })

  it('is removed with its virtual server', async () => {
    const { lab } = await startedLab()
    await lab.deliver(one)
    lab.takeOps()
    await lab.deliver(remove('Service', 'web'))
    assert.deepEqual(lab.takeOps(), ['remove-virtual-server tcp 10.96.0.1:80', 'remove-route 10.96.0.1'])
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })

  it('is not added again after another program removed it while it drained', async () => {
    const { lab } = await startedLab()
    await lab.deliver(one)
    const key = { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.1'), port: 80 } as const
    await lab.kernel.ipvs.apply([
      { op: 'remove-real-server', server: key, real: { address: ip('10.1.0.2'), port: 8080 } },
    ])
    lab.takeOps()
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.takeOps(), [])
    assert.equal(lab.log.find('info', 'Kernel state differs').length, 1)
    await lab.stop()
  })

  const protocols = [
    ['UDP', 'remove-real-server'],
    ['SCTP', 'set-real-server'],
  ] as const
  for (const [protocol, op] of protocols) {
    it(`by ${protocol}: ${op}`, async () => {
      const spec: ServicePortSpec = port(80, { protocol })
      const { lab } = await startedLab({}, { ports: [spec] })
      const ports = [{ name: '', protocol, port: 8080 }]
      await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2'], { ports })))
      lab.takeOps()
      await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1'], { ports })))
      assert.deepEqual(lab.takeOps(), [`${op} ${protocol.toLowerCase()} 10.96.0.1:80 10.1.0.2:8080`])
      await lab.stop()
    })
  }

  it('keeps its UDP flows at weight 0 as long as its endpoint serves (F-071)', async () => {
    const { lab, traffic } = await startedLab({}, { ports: [port(80, { protocol: 'UDP' })] })
    const ports = [{ name: '', protocol: 'UDP' as const, port: 8080 }]
    const deliver = async (...states: readonly Parameters<typeof endpoint>[1][]): Promise<void> => {
      const second = states.map((state) => endpoint('10.1.0.2', state))
      await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', ...second], { ports })))
    }
    await deliver({})
    lab.takeOps()
    await deliver({ ready: false, serving: true, terminating: true })
    assert.deepEqual(lab.takeOps(), [`set-real-server udp 10.96.0.1:80 10.1.0.2:8080`])
    for (let minute = 0; minute < 5; minute++) {
      traffic.inPackets += 100
      await lab.clock.advance(60_000)
    }
    assert.deepEqual(lab.takeOps(), [], 'there need not be answers')
    await deliver({ ready: false, serving: false, terminating: true })
    assert.deepEqual(lab.takeOps(), [`remove-real-server udp 10.96.0.1:80 10.1.0.2:8080`])
    await lab.stop()
  })

  it('keeps its UDP flows while its endpoint is unready and no other serves', async () => {
    const { lab, traffic } = await startedLab({}, { ports: [port(80, { protocol: 'UDP' })] })
    const ports = [{ name: '', protocol: 'UDP' as const, port: 8080 }]
    const unready = { ready: false, serving: false }
    const deliver = async (...endpoints: Parameters<typeof slice>[2]): Promise<void> =>
      await lab.deliver(set(slice('web-1', 'web', endpoints, { ports })))
    const server = 'udp 10.96.0.1:80'
    await deliver('10.1.0.1', '10.1.0.2')
    lab.takeOps()
    await deliver(endpoint('10.1.0.1', unready), endpoint('10.1.0.2', unready))
    const held = [`set-real-server ${server} 10.1.0.1:8080`, `set-real-server ${server} 10.1.0.2:8080`]
    assert.deepEqual(lab.takeOps(), held)
    traffic.inPackets += 100
    await lab.clock.advance(600_000)
    assert.deepEqual(lab.takeOps(), [])
    await deliver('10.1.0.1', endpoint('10.1.0.2', unready))
    assert.deepEqual(lab.takeOps(), [held[0], `remove-real-server ${server} 10.1.0.2:8080`])
    await deliver(endpoint('10.1.0.1', unready))
    await deliver()
    assert.deepEqual(lab.takeOps(), [held[0], `remove-real-server ${server} 10.1.0.1:8080`])
    await lab.stop()
  })

  it('keeps its connections under any scheduler while no other real server takes new ones', async () => {
    for (const scheduler of ['sh', 'dh'] as const) {
      const { lab } = await startedLab({ scheduler })
      const unready = { ready: false, serving: false }
      const second = endpoint('10.1.0.2', unready)
      const first = `tcp 10.96.0.1:80 10.1.0.1:8080`
      await lab.deliver(set(slice('web-1', 'web', [endpoint('10.1.0.1', unready), second])))
      assert.deepEqual(lab.takeOps(), [`set-real-server ${first}`, `set-real-server ${real}`])
      await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', second])))
      assert.deepEqual(lab.takeOps(), [`set-real-server ${first}`, `remove-real-server ${real}`])
      await lab.stop()
    }
  })

  const schedulers = [
    ['sh', undefined, 'remove-real-server'],
    ['sh', ['sh-fallback'], 'set-real-server'],
    ['dh', undefined, 'remove-real-server'],
    ['mh', undefined, 'set-real-server'],
  ] as const
  for (const [scheduler, schedulerFlags, op] of schedulers) {
    it(`with the scheduler ${scheduler}, ${schedulerFlags?.join('') ?? 'no flag'}: ${op}`, async () => {
      const { lab } = await startedLab({ scheduler, config: { ipvs: { schedulerFlags } } })
      await lab.deliver(one)
      assert.deepEqual(lab.takeOps(), [`${op} ${real}`])
      await lab.stop()
    })
  }

  const affinity = [
    ['1', 'set-real-server'],
    ['0', 'remove-real-server'],
  ] as const
  for (const [value, op] of affinity) {
    it(`under session affinity, with ${settle} = ${value}: ${op}`, async () => {
      const kernel = openModelKernel({ sysctls: { [settle]: value } })
      kernel.sysctl.fault = () => EACCES
      const { lab } = await startedLab({ kernel }, { sessionAffinity: 'ClientIP' })
      await lab.deliver(one)
      assert.deepEqual(lab.takeOps(), [`${op} ${real}`])
      await lab.stop()
    })
  }
})

describe('a real server drains', () => {
  it('by default until its connections end', async () => {
    const { lab, traffic } = await startedLab()
    await lab.deliver(one)
    lab.takeOps()
    for (let hour = 0; hour < 5; hour++) {
      traffic.inPackets += 10
      traffic.outPackets += 10
      await lab.clock.advance(3_600_000)
    }
    assert.deepEqual(lab.takeOps(), [])
    traffic.activeConnections = 0
    await lab.clock.advance(15_000)
    assert.deepEqual(lab.takeOps(), [`remove-real-server ${real}`])
    await lab.stop()
  })

  it('at most for the graceful period', async () => {
    const { lab } = await startedLab({ config: { ipvs: { gracefulPeriodMs: 120_000 } } })
    await lab.deliver(one)
    lab.takeOps()
    await lab.clock.advance(119_000)
    assert.deepEqual(lab.takeOps(), [])
    await lab.clock.advance(15_000)
    assert.deepEqual(lab.takeOps(), [`remove-real-server ${real}`])
    const [line] = lab.log.find('info', 'Real server is removed with its connections')
    assert.equal(line?.fields['object'], 'tcp 10.96.0.1:80 -> 10.1.0.2 8080')
    assert.equal(line.fields['reason'], 'grace period over')
    await lab.stop()
  })

  it('not at all with a period of 0', async () => {
    const { lab } = await startedLab({ config: { ipvs: { gracefulPeriodMs: 0 } } })
    await lab.deliver(one)
    assert.deepEqual(lab.takeOps(), [`remove-real-server ${real}`])
    await lab.stop()
  })

  it('at most half a minute after its clients stopped getting answers, if its endpoint is removed', async () => {
    const { lab, traffic } = await startedLab()
    await lab.deliver(one)
    await lab.clock.advance(60_000)
    lab.takeOps()
    traffic.inPackets += 5
    await lab.clock.advance(25_000)
    assert.deepEqual(lab.takeOps(), [])
    await lab.clock.advance(25_000)
    assert.deepEqual(lab.takeOps(), [`remove-real-server ${real}`])
    assert.equal(lab.log.find('info', 'removed with its connections')[0]?.fields['reason'], 'no answers')
    await lab.stop()
  })

  const there = [
    ['is not ready', { ready: false, serving: false }],
    ['terminates', { ready: false, serving: false, terminating: true }],
  ] as const
  for (const [name, state] of there) {
    it(`without a limit while its endpoint ${name}, even if its clients get no answers`, async () => {
      const { lab, traffic } = await startedLab()
      await lab.deliver(set(slice('web-1', 'web', ['10.1.0.1', endpoint('10.1.0.2', state)])))
      assert.deepEqual(lab.takeOps(), [`set-real-server ${real}`])
      await lab.clock.advance(60_000)
      traffic.inPackets += 100
      await lab.clock.advance(600_000)
      assert.deepEqual(lab.takeOps(), [])
      // Another slice still has the endpoint.
      await lab.deliver(one, set(slice('web-2', 'web', [endpoint('10.1.0.2', state)])))
      await lab.clock.advance(600_000)
      assert.deepEqual(lab.takeOps(), [])
      await lab.deliver(remove('EndpointSlice', 'web-2'))
      await lab.clock.advance(15_000)
      assert.deepEqual(lab.takeOps(), [`remove-real-server ${real}`])
      await lab.stop()
    })
  }

  // Clients send requests of `requestBytes` again and again. `answers`: packets and bytes that IPVS counts from the backend.
  const unreachable = [
    ['errors by IPv4', '10.96.0.1', 56, 84, 'removed'],
    ['errors that quote a part of a long request, by IPv4', '10.96.0.1', 1500, 576, 'removed'],
    ['errors by IPv6', 'fd00::96:1', 76, 124, 'removed'],
    ['errors that quote a part of a long request, by IPv6', 'fd00::96:1', 1500, 1280, 'removed'],
    ['acknowledgements', '10.96.0.1', 56, 52, 'kept'],
    ['answers', '10.96.0.1', 56, 85, 'kept'],
    ['short answers to long requests', '10.96.0.1', 1500, 577, 'kept'],
    ['answers by IPv6', 'fd00::96:1', 56, 84, 'kept'],
    // Half of the packets acknowledge an answer: a request of 108 bytes, and 52 bytes.
    ['answers of the size of errors', '10.96.0.1', 80, 108, 'kept', 4],
  ] as const
  for (const [name, clusterIP, requestBytes, answerBytes, outcome, requests = 2] of unreachable) {
    it(`${outcome === 'kept' ? 'without a limit' : 'if no client gets an answer'}: ${name}`, async () => {
      const lab = new PipelineLab()
      const addresses = clusterIP.includes(':') ? ['fd00::1', 'fd00::2'] : ['10.1.0.1', '10.1.0.2']
      const traffic = { activeConnections: 2, inPackets: 10, outPackets: 10, inBytes: 600, outBytes: 900 }
      lab.kernel.ipvs.traffic = () => traffic
      await lab.deliver(set(service('web', clusterIP)), webWith(addresses), synced)
      await lab.deliver(webWith(addresses.slice(0, 1)))
      lab.takeOps()
      for (let second = 0; second < 60; second++) {
        // The errors of some packets come later.
        const errors = second % 15 === 14 ? 0 : 2
        traffic.inPackets += requests
        traffic.inBytes += requests * requestBytes
        traffic.outPackets += errors
        traffic.outBytes += errors * answerBytes
        await lab.clock.advance(1000)
      }
      assert.equal(lab.takeOps().length, outcome === 'kept' ? 0 : 1)
      await lab.stop()
    })
  }

  it('without a limit while it answers, or while no client sends', async () => {
    const { lab, traffic } = await startedLab()
    await lab.deliver(one)
    lab.takeOps()
    for (let minute = 0; minute < 10; minute++) {
      traffic.inPackets += 100
      traffic.outPackets += 1
      await lab.clock.advance(20_000)
    }
    traffic.inPackets += 2
    await lab.clock.advance(600_000)
    assert.deepEqual(lab.takeOps(), [])
    await lab.stop()
  })
})

/** Counts the reads, except those of the check for drift, which reads without counters. */
function countReads(kernel: ModelKernel): { count: number } {
  const reads = { count: 0 }
  const { ipvs } = kernel
  const read = ipvs.read.bind(ipvs)
  ipvs.read = async (keys, options) => {
    if (options?.counters === true) reads.count++
    return await read(keys, options)
  }
  return reads
}

describe('the removal of many real servers at once', () => {
  it('is spread over time, because removed real servers slow down additions in the kernel', async () => {
    const { lab, traffic } = await startedLab()
    traffic.activeConnections = 0
    const many = Array.from({ length: 500 }, (_, i) => `10.2.${i >> 8}.${i & 255}`)
    await lab.deliver(set(slice('web-1', 'web', many)))
    await lab.clock.advance(5000)
    await lab.deliver(one)
    await lab.clock.advance(5000)
    const removed = (): number => lab.takeOps().filter((op) => op.startsWith('remove-real-server')).length
    const first = removed()
    assert.ok(first >= 100 && first <= 300, `${first}`)
    await lab.clock.advance(150_000)
    assert.equal(removed(), 0)
    await lab.clock.advance(240_000)
    assert.equal(first + removed(), 502)
    await lab.stop()
  })
})

describe('reads of connection counters', () => {
  it('happen only while a real server drains, and become rarer', async () => {
    const { lab } = await startedLab()
    const reads = countReads(lab.kernel)
    await lab.clock.advance(100_000)
    assert.equal(reads.count, 0)
    await lab.deliver(one)
    await lab.clock.advance(100_000)
    assert.ok(reads.count >= 10 && reads.count <= 14, `${reads.count} reads in 100 s`)
    await lab.deliver(both)
    reads.count = 0
    await lab.clock.advance(100_000)
    assert.equal(reads.count, 0)
    await lab.stop()
  })

  it('that fail are reported once and repeated', async () => {
    const { lab, traffic } = await startedLab()
    traffic.activeConnections = 0
    lab.kernel.ipvs.batches.plan = { callFault: (call) => (call === 'read' ? ENOMEM : undefined) }
    await lab.deliver(one)
    lab.takeOps()
    await lab.clock.advance(60_000)
    assert.deepEqual(lab.takeOps(), [])
    assert.equal(lab.log.find('error', 'IPv4 connections of draining real servers: ').length, 1)
    lab.kernel.ipvs.batches.plan = {}
    await lab.clock.advance(15_000)
    assert.deepEqual(lab.takeOps(), [`remove-real-server ${real}`])
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    await lab.stop()
  })

  it('do not count as syncs', async () => {
    const { lab } = await startedLab()
    await lab.deliver(one)
    const count = async (): Promise<string | undefined> =>
      /^kubeproxy_sync_proxy_rules_duration_seconds_count\{ip_family="IPv4"\} .*$/mu.exec(
        await lab.registry.metrics(),
      )?.[0]
    const before = await count()
    await lab.clock.advance(20_000)
    assert.equal(await count(), before)
    await lab.stop()
  })
})

describe('a restart', () => {
  it('first restores the weight of a drained real server whose endpoint is back', async () => {
    const { lab } = await startedLab()
    await lab.deliver(one)
    await lab.stop()
    const next = new PipelineLab({ kernel: lab.kernel })
    next.takeOps()
    const others = ['kubernetes', 'a', 'b'].map((name, i) => set(service(name, `10.96.1.${i + 1}`)))
    await next.deliver(...others, set(service('web', '10.96.0.1')), both, synced)
    assert.equal(next.takeOps()[0], `set-real-server ${real}`)
    await next.stop()
  })

  it('continues to drain a real server without an endpoint, and cuts no connection before all objects are known', async () => {
    const { lab, traffic } = await startedLab()
    await lab.deliver(one)
    await lab.stop()
    const next = new PipelineLab({ kernel: lab.kernel })
    next.takeOps()
    await next.deliver(set(service('web', '10.96.0.1')), { type: 'listed' })
    await next.clock.advance(20_000)
    await next.deliver(one, synced)
    await next.clock.advance(20_000)
    assert.deepEqual(next.takeOps(), [])
    traffic.activeConnections = 0
    await next.clock.advance(10_000)
    assert.deepEqual(next.takeOps(), [`remove-real-server ${real}`])
    await next.stop()
  })

  it('drains real servers that are no longer desired', async () => {
    const { lab } = await startedLab()
    await lab.stop()
    const next = new PipelineLab({ kernel: lab.kernel })
    next.takeOps()
    await next.deliver(set(service('web', '10.96.0.1')), one, synced)
    assert.deepEqual(next.takeOps(), [`set-real-server ${real}`])
    await next.stop()
  })
})

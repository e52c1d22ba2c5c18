// Limits of shares: frontends that move between service ports, refused writes, and endpoints that go.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ObjectEvent } from '../../src/source/index.js'
import { endpointsOf, NftModeLab } from '../support/nft-mode-lab.js'
import { endpoint, port, remove, service, set, slice, synced } from '../support/objects.js'

/** 400 ports: the first one is `z`, the last one `a`. */
const names = ['z', ...Array.from({ length: 398 }, (_, i) => `p${i}`), 'a']

/** The port numbers of `z` and `a`, and the first one of the others. */
function wide(first: number, last: number, others = 1000): ObjectEvent {
  const numbers = names.map((_, i) => others + i).with(0, first)
  const ports = names.map((name, i) => port(numbers.with(numbers.length - 1, last)[i] ?? 0, { name }))
  return set(service('wide', '10.96.0.1', { ports }))
}

function wideSlice(endpoints: number, from = 1): ObjectEvent {
  const ports = names.map((name, i) => ({ name, protocol: 'TCP' as const, port: 8000 + i }))
  const addresses = Array.from({ length: endpoints }, (_, i) => `10.1.0.${i + from}`)
  return set(slice('wide-1', 'wide', addresses, { ports }))
}

async function openLab(endpoints: number): Promise<NftModeLab> {
  const lab = new NftModeLab()
  await lab.deliver(wide(80, 81), wideSlice(endpoints), synced)
  await lab.clock.advance(10_000)
  return lab
}

/** The numbers of endpoints of these frontends after each run from now on. */
function countEndpoints(lab: NftModeLab, frontends: readonly string[]): readonly (readonly number[])[] {
  const seen: (readonly number[])[] = []
  lab.synchronizer.onRunEnd(() => {
    seen.push(frontends.map((frontend) => endpointsOf(lab, `${frontend} `).length))
  })
  return seen
}

function warnings(lab: NftModeLab): readonly string[] {
  const lines = lab.log.lines.filter(({ level }) => level === 'warn' || level === 'error')
  return lines.map(({ message }) => message)
}

describe('a frontend that moves from a service port to another one', () => {
  // z gave :80 up in the first share, and a took it in the third one. Issue 37.
  it('is served all the time when two ports of a Service with many changed ports swap their numbers', async () => {
    const lab = await openLab(29)
    const seen = countEndpoints(lab, ['10.96.0.1 . tcp . 80', '10.96.0.1 . tcp . 81'])
    await lab.deliver(wide(81, 80, 2000))
    await lab.clock.advance(300)
    assert.deepEqual(seen, [
      [29, 29],
      [29, 29],
      [29, 29],
    ])
    assert.deepEqual(warnings(lab), [])
    await lab.stop()
  })

  // The new Service had a conflict with one that did not exist any more. Issue 37.
  it('has its new owner at once, without a conflict, when a Service follows another one at its cluster IP', async () => {
    const lab = await openLab(29)
    const seen = countEndpoints(lab, ['10.96.0.1 . tcp . 1300'])
    const next = service('zoo', '10.96.0.1', { ports: [port(1300)] })
    await lab.deliver(remove('Service', 'wide'), set(next), set(slice('zoo-1', 'zoo', ['10.3.0.1'])))
    await lab.clock.advance(300)
    assert.deepEqual(seen, [[1], [1], [1]])
    assert.deepEqual([warnings(lab), lab.events], [[], []])
    await lab.stop()
  })
})

describe('the size of a share', () => {
  it('counts endpoints that go', async () => {
    const counts: (readonly number[])[] = []
    for (const endpoints of [98, 0]) {
      const lab = await openLab(99)
      const before = lab.synchronizer.passes.length
      await lab.deliver(wideSlice(endpoints))
      await lab.clock.advance(3000)
      counts.push(lab.synchronizer.passes.slice(before).map(({ changed }) => changed.count))
      await lab.stop()
    }
    const tenShares = [...Array<number>(9).fill(41), 31]
    assert.deepEqual(counts, [tenShares, tenShares])
  })
})

describe('a kernel that refuses a share', () => {
  // Each of the next shares followed at once, and sent the former ones again.
  it('gets the next try when that is due, with everything that waits', async () => {
    const lab = await openLab(99)
    const before = lab.writes
    lab.kernel.nftables.plan = { transactionFault: () => 12 }
    await lab.deliver(wideSlice(99, 2))
    await lab.clock.advance(900)
    assert.equal(lab.writes, before + 1)
    lab.kernel.nftables.plan = {}
    const passes = lab.synchronizer.passes.length
    await lab.clock.advance(3000)
    const [next, ...others] = lab.synchronizer.passes.slice(passes)
    assert.deepEqual([next?.changed.count, next?.isComplete, others.length], [359, true, 0])
    await lab.stop()
  })
})

describe('the health check of a Service with many ports', () => {
  // It counted the endpoints of ports that the kernel did not have yet.
  it('says that endpoints are here when all ports of the Service are written, and at once that they are gone', async () => {
    const exposed = service('wide', '10.96.0.1', {
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 32_000,
      loadBalancerIngress: [{ ip: '198.51.100.1', ipMode: 'VIP' }],
      ports: names.map((name, i) => port(1000 + i, { name, nodePort: 30_000 + i })),
    })
    const at = (nodeName: string, from = 0): ObjectEvent => {
      const ports = names.map((name, i) => ({ name, protocol: 'TCP' as const, port: 8000 + i }))
      const endpoints = Array.from({ length: 29 }, (_, i) => endpoint(`10.1.0.${i + 1 + from}`, { nodeName }))
      return set(slice('wide-1', 'wide', endpoints, { ports }))
    }
    const lab = new NftModeLab()
    await lab.deliver(set(exposed), at('there'), synced)
    await lab.clock.advance(10_000)
    const seen: (number | undefined)[] = []
    lab.synchronizer.onRunEnd(() => seen.push(lab.healthChecks.checks.get('default/wide')?.localEndpoints))
    await lab.deliver(at('here'))
    await lab.clock.advance(1000)
    assert.deepEqual(seen.splice(0), [0, 0, 0, 29])
    await lab.deliver(at('there'))
    await lab.clock.advance(1000)
    assert.deepEqual(seen.splice(0), [0, 0, 0, 0])
    // A Service that changes before each last share has dirty ports at each moment.
    let changes = 0
    lab.synchronizer.onRunEnd(() => {
      if (changes++ < 8) lab.intake.deliver([at('here', changes % 2)])
    })
    await lab.deliver(at('here'))
    await lab.clock.advance(1000)
    assert.ok(seen.indexOf(29) > 0 && seen.indexOf(29) < 8, String(seen))
    await lab.stop()
  })
})

function manyAddresses(net: number): readonly string[] {
  return Array.from({ length: 250 }, (_, i) => `198.18.${net}.${i}`)
}

describe('the work of a share', () => {
  it('counts frontends, so that Services with many of them are divided', async () => {
    const lab = new NftModeLab()
    const many = Array.from({ length: 40 }, (_, i) => `many${i}`)
    const all = (from: number): ObjectEvent[] =>
      many.map((name, i) => set(service(name, `10.96.1.${i}`, { externalIPs: manyAddresses(from + i) })))
    const slices = many.map((name, i) => set(slice(`${name}-1`, name, [`10.1.0.${i}`])))
    await lab.deliver(...all(0), ...slices, synced)
    await lab.clock.advance(10_000)
    const passes = lab.synchronizer.passes.length
    await lab.deliver(...all(100))
    await lab.clock.advance(1000)
    const counts = lab.synchronizer.passes.slice(passes).map(({ changed }) => changed.count)
    assert.equal(
      counts.reduce((a, b) => a + b, 0),
      40,
    )
    assert.ok(counts.length > 1, String(counts))
    await lab.stop()
  })
})

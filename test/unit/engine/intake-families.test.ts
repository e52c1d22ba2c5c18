// One intake for both families: whose objects an event concerns, and which runs it needs.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { IpFamily } from '../../../src/address.js'
import type { FamilyIntake } from '../../../src/engine/testing.js'
import type { EndpointSlice, ObjectEvent, Service } from '../../../src/source/index.js'
import { IntakeLab } from '../../support/intake-lab.js'
import { ManualClock } from '../../support/manual-clock.js'
import { endpoint, port, remove, service, set, slice, synced } from '../../support/objects.js'

const families = ['ipv4', 'ipv6'] as const
const nameOf = { ipv4: 'IPv4', ipv6: 'IPv6' } as const
const addressOf = { ipv4: '10.1.0.', ipv6: 'fd01::' }

/** A Service of these families. Without a family it is headless. */
function serviceIn(name: string, own: readonly IpFamily[], last = 1, number = 80): Service {
  const clusterIPs = own.map((family) => (family === 'ipv4' ? `10.96.0.${last}` : `fd00::${last}`))
  const ipFamilies = own.map((family) => nameOf[family])
  return service(name, clusterIPs[0] ?? 'None', { clusterIPs, ipFamilies, ports: [port(number)] })
}

const anyService = fc
  .record({
    name: fc.constantFrom('a', 'b', 'c'),
    own: fc.constantFrom<readonly IpFamily[]>([], ['ipv4'], ['ipv6'], ['ipv4', 'ipv6'], ['ipv6', 'ipv4']),
    last: fc.integer({ min: 1, max: 3 }),
    number: fc.constantFrom(80, 81),
  })
  .map(({ name, own, last, number }) => set(serviceIn(name, own, last, number)))

const anySlice = fc
  .record({
    name: fc.constantFrom('s1', 's2', 's3', 's4'),
    serviceName: fc.constantFrom('a', 'b', 'c', undefined),
    family: fc.constantFrom(...families),
    isNamed: fc.boolean(),
    last: fc.uniqueArray(fc.integer({ min: 1, max: 4 }), { maxLength: 3 }),
  })
  .map(({ name, serviceName, family, isNamed, last }) => {
    // A slice of host names has no family.
    const addressType = isNamed || last.length % 2 === 0 ? nameOf[family] : 'FQDN'
    const endpoints = last.map((number) => endpoint(`${addressOf[family]}${number}`))
    return set(slice(name, serviceName, endpoints, { addressType }))
  })

const anyEvent: fc.Arbitrary<ObjectEvent> = fc.oneof(
  { arbitrary: anyService, weight: 4 },
  { arbitrary: anySlice, weight: 5 },
  { arbitrary: fc.constantFrom('a', 'b', 'c').map((name) => remove('Service', name)), weight: 1 },
  {
    arbitrary: fc.constantFrom('s1', 's2', 's3', 's4').map((name) => remove('EndpointSlice', name)),
    weight: 1,
  },
)

/** A delivery, or the runs of families that need one. */
const anyStep = fc.oneof(
  { arbitrary: fc.array(anyEvent, { minLength: 1, maxLength: 4 }), weight: 3 },
  { arbitrary: fc.constantFrom<readonly IpFamily[]>(['ipv4'], ['ipv6'], ['ipv4', 'ipv6']), weight: 2 },
)

/** The simple model: it keeps the objects by name, and computes the service ports from all of them each time. */
class World {
  readonly #services = new Map<string, Service>()
  readonly #slices = new Map<string, EndpointSlice>()

  apply(event: ObjectEvent): void {
    if (event.type === 'delete') {
      const objects = event.kind === 'Service' ? this.#services : this.#slices
      objects.delete(event.key.name)
    } else if (event.type === 'set' && event.object.kind === 'Service')
      this.#services.set(event.object.name, event.object)
    else if (event.type === 'set' && event.object.kind === 'EndpointSlice')
      this.#slices.set(event.object.name, event.object)
  }

  /** A line for each service port. */
  linesOf(family: IpFamily): readonly string[] {
    const lines = [...this.#services.values()].flatMap(({ name, clusterIPs, ipFamilies, ports }) => {
      const clusterIP = clusterIPs[ipFamilies.indexOf(nameOf[family])]
      const endpoints = [...this.#slices.values()]
        .filter((one) => one.serviceName === name && one.addressType === nameOf[family])
        .flatMap((one) => one.endpoints.map(({ address }) => address))
      const backends = [...new Set(endpoints)].toSorted().join()
      return clusterIP === undefined
        ? []
        : ports.map((one) => `default/${name} ${clusterIP}:${one.port} to ${backends}`)
    })
    return lines.toSorted()
  }
}

/** The last state of each service port that a run of the family took. */
class Runs {
  readonly #intake: FamilyIntake
  readonly #seen = new Map<string, string>()

  constructor(intake: FamilyIntake) {
    this.#intake = intake
  }

  async run(): Promise<void> {
    this.#intake.beginRun()
    const { dirty } = await this.#intake.takeDirty()
    for (const key of dirty) {
      const found = this.#intake.tracker.withEndpoints(key)
      if (found === undefined) this.#seen.delete(key)
      else {
        const { service: name, clusterIP, port: number } = found.port
        const backends = found.endpoints.map(({ address }) => address).join()
        this.#seen.set(key, `${name} ${clusterIP}:${number} to ${backends}`)
      }
    }
    this.#intake.backlog.settle()
  }

  get lines(): readonly string[] {
    return [...this.#seen.values()].toSorted()
  }
}

describe('both families', () => {
  it('see every change in a run that was requested, whenever the runs are', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyEvent, { maxLength: 5 }),
        fc.array(anyStep, { maxLength: 20 }),
        async (early, steps) => {
          const lab = new IntakeLab({ families })
          const world = new World()
          const runs = new Map(lab.families.map((own) => [own.family, new Runs(own)]))
          const deliver = (events: readonly ObjectEvent[]): void => {
            for (const event of events) world.apply(event)
            lab.deliver(...events)
          }
          /** A run is made only for a family that needs it. */
          const run = async (family: IpFamily): Promise<void> => {
            if (lab.requested.delete(family)) await runs.get(family)?.run()
          }
          deliver(early)
          lab.open()
          lab.deliver(synced)
          for (const step of steps) {
            if (isRun(step)) await Promise.all(step.map(run))
            else deliver(step)
          }
          await Promise.all(families.map(run))
          assert.equal(lab.requested.size, 0)
          for (const family of families)
            assert.deepEqual(runs.get(family)?.lines, world.linesOf(family), family)
        },
      ),
      { numRuns: 500 },
    )
  })

  it('apply a change that waits once, in the first run of either', async () => {
    const lab = new IntakeLab({ families }).open()
    const [ipv4, ipv6] = lab.families
    const both = serviceIn('web', families)
    lab.deliver(set(both), synced)
    await ipv6?.takeDirty()
    lab.requested.clear()
    // Only IPv4 has a service port that waits for a run.
    let reads = 0
    for (let last = 2; last < 50; last++) {
      const { ports, ...rest } = serviceIn('web', families, last)
      const counted = {
        ...rest,
        get ports() {
          reads++
          return ports
        },
      }
      lab.deliver(set(counted))
    }
    assert.deepEqual([reads, [...lab.requested]], [0, ['ipv4', 'ipv6']])
    assert.deepEqual([(await ipv6?.takeDirty())?.dirty.size, reads], [1, 2], 'each family read the newest')
    assert.deepEqual([(await ipv4?.takeDirty())?.dirty.size, reads], [1, 2])
  })

  it('do not wait for each other: a run of one family shows what the other has not taken', async () => {
    const lab = new IntakeLab({ families }).open()
    const [, ipv6] = lab.families
    lab.deliver(set(serviceIn('old', ['ipv4'])), synced)
    await ipv6?.takeDirty()
    lab.requested.clear()
    lab.deliver(set(serviceIn('old', ['ipv6'])))
    assert.ok(lab.requested.has('ipv6'))
    const dirty = await ipv6?.takeDirty()
    assert.deepEqual([...(dirty?.dirty ?? [])], ['default/old:/TCP'])
  })

  it('need no run for the slices of the other', async () => {
    const clock = new ManualClock()
    const lab = new IntakeLab({ families, clock }).open()
    lab.deliver(set(serviceIn('web', families)), synced)
    for (const own of lab.families) await own.takeDirty()
    lab.requested.clear()
    lab.deliver(set(slice('six', 'web', ['fd01::1'])))
    assert.deepEqual([...lab.requested], ['ipv6'])
    lab.deliver(set(slice('six', 'web', ['10.1.0.1'])))
    assert.deepEqual([...lab.requested], ['ipv6', 'ipv4'], 'the slice has left a family')
  })

  it('wait since the arrival of a change that another family lets wait', async () => {
    const clock = new ManualClock()
    const lab = new IntakeLab({ families, clock }).open()
    const [, ipv6] = lab.families
    lab.deliver(set(serviceIn('web', families)), synced)
    ipv6?.beginRun()
    await ipv6?.takeDirty()
    ipv6?.backlog.settle()
    await clock.advance(5)
    lab.deliver(set(serviceIn('web', families, 2)))
    await clock.advance(5)
    assert.equal(ipv6?.beginRun().oldestEventMs, 5)
    const { events } = (await ipv6?.takeDirty()) ?? {}
    assert.deepEqual(events, { oldestEventMs: 5, objects: { count: 1, first: ['Service default/web'] } })
  })
})

function isRun(step: readonly ObjectEvent[] | readonly IpFamily[]): step is readonly IpFamily[] {
  return typeof step[0] === 'string'
}

describe('before the mode is open', () => {
  it('objects count at once, each with its newest change', async () => {
    const lab = new IntakeLab({ families })
    const [ipv4] = lab.families
    lab.deliver(set(serviceIn('a', ['ipv4'])), set(serviceIn('b', ['ipv4'])))
    lab.deliver(set(serviceIn('a', ['ipv4'], 7)), remove('Service', 'b'))
    const found = ipv4?.tracker.servicePortsOf('default/a').map(({ clusterIP }) => clusterIP)
    assert.deepEqual([found, ipv4?.tracker.servicePortCount], [['10.96.0.7'], 1])
    lab.open()
    assert.equal(lab.requested.size, 0)
    lab.deliver(synced)
    assert.ok(lab.requested.has('ipv4'))
    assert.deepEqual(ipv4?.beginRun().objects.first, ['Service default/a', 'Service default/b'])
  })

  it('listed and synced do not count, and count after all objects of that time', () => {
    const lab = new IntakeLab()
    const [own] = lab.families
    lab.deliver(set(serviceIn('a', ['ipv4'])), { type: 'listed' })
    lab.deliver(synced, set(serviceIn('b', ['ipv4'])))
    assert.deepEqual([own?.known, own?.tracker.servicePortCount], ['nothing', 2])
    lab.open()
    assert.deepEqual([own?.known, [...lab.requested]], ['synced', ['ipv4']])
  })

  it('no problem of an object is reported, and none of a family that the kernel does not have', () => {
    const lab = new IntakeLab()
    const wrong = { externalIPs: ['nonsense'] }
    lab.deliver(set(service('four', '10.96.0.1', wrong)), set(service('solved', '10.96.0.2', wrong)))
    lab.deliver(set(service('six', 'fd00::1', { ...wrong, ipFamilies: ['IPv6'] })))
    lab.deliver(set(service('solved', '10.96.0.2')))
    assert.equal(lab.log.lines.length, 0)
    lab.open()
    assert.equal(lab.log.find('error', 'Service default/four: spec.externalIPs').length, 1)
    lab.deliver(set(service('six', 'fd00::2', { ...wrong, ipFamilies: ['IPv6'] })))
    assert.deepEqual([lab.problemCounts, lab.log.lines.length], [[1], 1])
  })
})

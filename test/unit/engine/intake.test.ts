import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import type { FamilyIntake } from '../../../src/engine/testing.js'
import type { FamilyTracker, ServicePortKey } from '../../../src/model/index.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { IntakeLab, type IntakeLabOptions } from '../../support/intake-lab.js'
import { ManualClock } from '../../support/manual-clock.js'
import { node, port, remove, service, set, slice, synced } from '../../support/objects.js'
import { anyEvent, finalObjects } from '../../support/worlds.js'

/** An open intake of IPv4, and its only family. */
function openLab(options: IntakeLabOptions = {}): { readonly lab: IntakeLab; readonly own: FamilyIntake } {
  const lab = new IntakeLab(options).open()
  const [own] = lab.families
  assert.ok(own)
  return { lab, own }
}

/** The objects that a pass names as its causes after these events. */
async function causesOf(...events: readonly ObjectEvent[]): Promise<readonly string[] | undefined> {
  const { lab, own } = openLab()
  lab.deliver(set(web), set(slice('web-1', 'web', ['10.1.0.1'])), synced)
  own.beginRun()
  await own.takeDirty()
  own.backlog.settle()
  lab.deliver(set(service('new', '10.96.0.9')), ...events)
  return (await own.takeDirty()).events?.objects.first
}

const web = service('web', '10.96.0.1')

describe('the causes of a pass', () => {
  const cases: readonly (readonly [string, readonly ObjectEvent[], readonly string[]])[] = [
    ['include a Service that changed', [set({ ...web, ports: [port(81)] })], ['Service default/web']],
    ['include a deleted Service', [remove('Service', 'web')], ['Service default/web']],
    [
      'include an EndpointSlice that changed',
      [set(slice('web-1', 'web', []))],
      ['EndpointSlice default/web-1'],
    ],
    ['include a deleted EndpointSlice', [remove('EndpointSlice', 'web-1')], ['EndpointSlice default/web-1']],
    [
      'include both if they change the same service port',
      [set({ ...web, ports: [port(81)] }), set(slice('web-1', 'web', []))],
      ['Service default/web', 'EndpointSlice default/web-1'],
    ],
    ['include the Node', [set(node('here', {}))], ['Node here']],
    ['do not include a Service that is the same', [set(web)], []],
    ['do not include a Service of the other family', [set(service('six', 'fd00::1'))], []],
    ['do not include an unknown Service that is deleted', [remove('Service', 'six')], []],
    ['do not include an EndpointSlice that is the same', [set(slice('web-1', 'web', ['10.1.0.1']))], []],
    ['do not include an unknown EndpointSlice that is deleted', [remove('EndpointSlice', 'six-1')], []],
  ]
  for (const [name, events, expected] of cases)
    it(name, async () => assert.deepEqual(await causesOf(...events), ['Service default/new', ...expected]))
})

describe('events during a run, before it takes the changed service ports,', () => {
  it('join the run, and are no work of the next one', async () => {
    const clock = new ManualClock()
    const { lab, own } = openLab({ clock })
    lab.deliver(set(web), synced)
    own.beginRun()
    await own.takeDirty()
    own.backlog.settle()
    await clock.advance(5)
    assert.deepEqual(own.beginRun(), { oldestEventMs: undefined, objects: { count: 0, first: [] } })
    await clock.advance(5)
    lab.deliver(set({ ...web, ports: [port(81)] }))
    const { dirty, events } = await own.takeDirty()
    assert.equal(dirty.size, 1)
    assert.deepEqual(events, { oldestEventMs: 10, objects: { count: 1, first: ['Service default/web'] } })
    own.backlog.settle()
    assert.deepEqual(own.beginRun(), { oldestEventMs: undefined, objects: { count: 0, first: [] } })
  })

  it('wait for the next run if all objects became known among them', async () => {
    const { lab, own } = openLab()
    lab.deliver(set(web), { type: 'listed' })
    own.beginRun()
    lab.isUnsettled = () => true
    lab.deliver(remove('Service', 'web'), synced)
    const { dirty, events } = await own.takeDirty()
    assert.deepEqual({ size: dirty.size, events }, { size: 1, events: undefined })
    own.backlog.settle()
    assert.deepEqual(own.beginRun().objects, { count: 1, first: ['Service default/web'] })
  })
})

/** A slice that counts how often a tracker reads it. */
function countedSlice(address: string, count: () => void): ObjectEvent {
  const { endpoints, ...rest } = slice('web-1', 'web', [address])
  return set({
    ...rest,
    get endpoints() {
      count()
      return endpoints
    },
  })
}

describe('changes of an object that come faster than runs', () => {
  it('replace each other: a run pays for the first and the newest one', async () => {
    const { lab, own } = openLab()
    lab.deliver(set(web), synced)
    own.beginRun()
    await own.takeDirty()
    const read = new Set<number>()
    for (let i = 1; i <= 100; i++) lab.deliver(countedSlice(`10.1.0.${i}`, () => read.add(i)))
    const { dirty } = await own.takeDirty()
    const endpoints = own.tracker.servicePortsOf('default/web').flatMap((one) => own.tracker.endpoints(one))
    assert.deepEqual([...read], [1, 100])
    assert.deepEqual([dirty.size, endpoints.map(({ address }) => address)], [1, ['10.1.0.100']])
  })

  it('are shown to readers before the next run', async () => {
    const { lab, own } = openLab()
    lab.deliver(set(web), synced)
    lab.deliver(set(service('new', '10.96.0.9')))
    assert.equal(own.tracker.servicePortCount, 1)
    assert.equal(own.currentTracker.servicePortCount, 2)
    assert.equal((await own.takeDirty()).dirty.size, 2)
  })

  it('are applied in slices of time', async () => {
    const clock = new ManualClock()
    const { lab, own } = openLab({ clock })
    lab.deliver(set(web), synced)
    for (const name of ['a', 'b', 'c']) lab.deliver(slowService(name, () => clock.skip(1000)))
    assert.equal((await own.takeDirty()).dirty.size, 4)
    assert.equal(clock.pauses, 3)
  })

  it('leave the same state as all changes one by one, whenever runs take them', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.array(anyEvent, { maxLength: 5 }), fc.boolean())),
        async (steps) => {
          const { lab, own } = openLab()
          const found = new Map<ServicePortKey, unknown>()
          const take = async (): Promise<void> => {
            for (const key of (await own.takeDirty()).dirty) found.set(key, stateOf(own.tracker, key))
          }
          lab.deliver(synced)
          for (const [events, isTaken] of steps) {
            lab.deliver(...events)
            if (isTaken) await take()
          }
          await take()
          const full = openLab()
          full.lab.deliver(...finalObjects(steps.map(([events]) => events)), synced)
          const { dirty } = await full.own.takeDirty()
          for (const key of dirty) assert.deepEqual(found.get(key), stateOf(full.own.tracker, key))
          for (const [key, state] of found) if (!dirty.has(key)) assert.equal(state, undefined)
        },
      ),
      { numRuns: 300 },
    )
  })

  const latencies: readonly (readonly [string, readonly ObjectEvent[], readonly number[]])[] = [
    [
      'count each',
      [changedAt(1000, '10.1.0.1'), changedAt(2000, '10.1.0.2'), changedAt(3000, '10.1.0.3')],
      [9, 8, 7],
    ],
    ['do not count when the slice goes', [changedAt(1000, '10.1.0.1'), remove('EndpointSlice', 'web-1')], []],
    ['do not count without a change', [changedAt(1000, '10.1.0.0')], []],
  ]
  for (const [name, events, expected] of latencies) {
    it(`${name} for the latency of changes`, async () => {
      const clock = new ManualClock()
      const observed: number[] = []
      const { lab, own } = openLab({ clock, latency: { observe: (seconds) => observed.push(seconds) } })
      lab.deliver(set(web), set(slice('web-1', 'web', ['10.1.0.0'])), synced)
      await clock.advance(10_000)
      lab.deliver(...events)
      own.beginRun()
      await own.takeDirty()
      own.backlog.settle()
      assert.deepEqual(observed, expected)
    })
  }
})

/** A slice with its time of change in the cluster, in milliseconds from the start of a manual clock. */
function changedAt(ms: number, address: string): ObjectEvent {
  return set(slice('web-1', 'web', [address], { lastChangeMs: new ManualClock().unixMs() + ms }))
}

/** A Service that takes long to read. */
function slowService(name: string, read: () => void): ObjectEvent {
  const { ports, ...rest } = service(name, '10.96.0.7')
  return set({
    ...rest,
    get ports() {
      read()
      return ports
    },
  })
}

function stateOf(tracker: FamilyTracker, key: ServicePortKey): unknown {
  const found = tracker.servicePort(key)
  return (
    found && { found, endpoints: tracker.endpoints(found).map((one) => [one, one.isReady, one.nodeName]) }
  )
}

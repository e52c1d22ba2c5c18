import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { Intake, openProblems } from '../../../src/engine/index.js'
import { openMetrics } from '../../../src/metrics/index.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { node, port, remove, service, set, slice, synced } from '../../support/objects.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

function openIntake(clock = new ManualClock()): Intake {
  const log = new MemoryLog()
  return new Intake({
    family: 'ipv4',
    clock,
    syncPeriodMs: 1000,
    metrics: openMetrics(new Registry()).ipv4,
    problems: openProblems({ log, events: { record: () => {} }, count: () => {} }),
    config: { featureGates: { AllowServiceExternalIPs: true } },
  })
}

/** The objects that a pass names as its causes after these events. */
function causesOf(...events: readonly ObjectEvent[]): readonly string[] {
  const intake = openIntake()
  intake.apply([set(web), set(slice('web-1', 'web', ['10.1.0.1'])), synced], () => false)
  intake.beginRun()
  intake.backlog.settle()
  intake.apply([set(service('new', '10.96.0.9')), ...events], () => false)
  return intake.beginRun().objects.first
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
    it(name, () => assert.deepEqual(causesOf(...events), ['Service default/new', ...expected]))
})

describe('events during a run, before it takes the changed service ports,', () => {
  it('join the run, and are no work of the next one', async () => {
    const clock = new ManualClock()
    const intake = openIntake(clock)
    intake.apply([set(web), synced], () => false)
    intake.beginRun()
    intake.takeDirty()
    intake.backlog.settle()
    await clock.advance(5)
    assert.deepEqual(intake.beginRun(), { oldestEventMs: undefined, objects: { count: 0, first: [] } })
    await clock.advance(5)
    intake.apply([set({ ...web, ports: [port(81)] })], () => false)
    const { dirty, events } = intake.takeDirty()
    assert.equal(dirty.size, 1)
    assert.deepEqual(events, { oldestEventMs: 10, objects: { count: 1, first: ['Service default/web'] } })
    intake.backlog.settle()
    assert.deepEqual(intake.beginRun(), { oldestEventMs: undefined, objects: { count: 0, first: [] } })
  })

  it('wait for the next run if all objects became known among them', () => {
    const intake = openIntake()
    intake.apply([set(web), { type: 'listed' }], () => false)
    intake.beginRun()
    intake.apply([remove('Service', 'web'), synced], () => true)
    const { dirty, events } = intake.takeDirty()
    assert.deepEqual({ size: dirty.size, events }, { size: 1, events: undefined })
    intake.backlog.settle()
    assert.deepEqual(intake.beginRun().objects, { count: 1, first: ['Service default/web'] })
  })
})

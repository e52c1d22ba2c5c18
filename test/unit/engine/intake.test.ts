import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { Intake, openProblems } from '../../../src/engine/index.js'
import { openMetrics } from '../../../src/metrics/index.js'
import type { ObjectEvent } from '../../../src/source/index.js'
import { ManualClock } from '../../support/manual-clock.js'
import { node, port, remove, service, set, slice, synced } from '../../support/objects.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

/** The objects that a pass names as its causes after these events. */
function causesOf(...events: readonly ObjectEvent[]): readonly string[] {
  const log = new MemoryLog()
  const intake = new Intake({
    family: 'ipv4',
    clock: new ManualClock(),
    syncPeriodMs: 1000,
    metrics: openMetrics(new Registry()).ipv4,
    problems: openProblems({ log, events: { record: () => {} }, count: () => {} }),
    config: { featureGates: { AllowServiceExternalIPs: true } },
  })
  intake.apply([set(web), set(slice('web-1', 'web', ['10.1.0.1'])), synced], () => false)
  intake.backlog.begin()
  intake.backlog.settle()
  intake.apply([set(service('new', '10.96.0.9')), ...events], () => false)
  intake.backlog.begin()
  return intake.backlog.objects.first
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

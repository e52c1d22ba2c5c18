import assert from 'node:assert/strict'
import { it } from 'node:test'
import { Registry } from 'prom-client'
import { Pass } from '../../../src/engine/index.js'
import { InForceTimes } from '../../../src/engine/testing.js'
import { openMetrics } from '../../../src/metrics/index.js'
import type { ServicePortKey } from '../../../src/model/index.js'
import { trackFamily } from '../../support/tracked-family.js'
import { claimDirty } from '../../../src/engine/testing.js'
import { ManualClock } from '../../support/manual-clock.js'
import { service, set } from '../../support/objects.js'
import { MemoryLog } from '../../support/pipeline-lab.js'
import { plainRoute } from '../../support/routes.js'

it('a changed service port is in force at no moment between its claim and the end of the pass', async () => {
  const clock = new ManualClock()
  const tracker = trackFamily('ipv4')
  const inForce = new InForceTimes({ isKnown: () => true, hasFailures: () => false })
  const metrics = openMetrics(new Registry()).ipv4
  const log = new MemoryLog()
  /** How many of the service ports are in force: before each claim, and in each pause. */
  const seen: number[] = []
  const look = (keys: Iterable<ServicePortKey>): void => {
    seen.push([...keys].filter((key) => inForce.since(key) !== undefined).length)
  }
  for (const clusterIPs of [
    ['10.96.0.1', '10.96.0.2'],
    ['10.96.0.3', '10.96.0.4'],
  ]) {
    for (const [index, clusterIP] of clusterIPs.entries()) tracker.apply(set(service(`s${index}`, clusterIP)))
    const keys = Array.from(tracker.servicePorts(), ({ key }) => key)
    const pass = new Pass({ family: 'ipv4', clock, log, metrics, inForce })
    await claimDirty({
      family: 'ipv4',
      intake: {
        takeDirty: async () => await Promise.resolve({ dirty: tracker.take(), events: undefined }),
      },
      decisions: { decide: async () => await Promise.resolve(plainRoute()) },
      clock,
      log,
      pass,
      claim: () => {
        look(keys)
        // Each claim takes a slice of its own.
        clock.skip(1000)
      },
      unmark: (key) => tracker.unmark(key),
      claimFrontends: () => {},
      takeConcerned: () => new Set(),
      onSlice: () => look(keys),
      isStopping: () => false,
    })
    pass.end({ hasRefusals: false, fields: {} })
    look(keys)
  }
  assert.deepEqual(seen, [0, 0, 0, 0, 2, 0, 0, 0, 0, 2])
})

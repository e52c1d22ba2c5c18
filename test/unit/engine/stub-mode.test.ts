import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Mode, Synchronizer } from '../../../src/engine/index.js'
import { openModelKernel } from '../../model/index.js'
import { settle } from '../../support/manual-clock.js'
import { remove, service, set, slice } from '../../support/objects.js'
import { openRecordingFamily, openSurroundings, syncPeriodMs } from '../../support/recording-family.js'

describe('a mode that only records routes', () => {
  it('gets events, runs, health and a stop from the engine', async () => {
    const surroundings = openSurroundings()
    const records: string[] = []
    let closed = 0
    const mode: Mode = {
      name: 'iptables',
      families: ['ipv4'],
      syncPeriodMs,
      minSyncPeriodMs: 0,
      restFactor: 0,
      openPipeline: (family) =>
        openRecordingFamily(family, surroundings, { records, onClose: () => closed++ }),
    }
    const calls: string[] = []
    const synchronizer = new Synchronizer({
      ...surroundings,
      mode,
      links: openModelKernel().links,
      prepareNode: async () => calls.push('prepare') > 1,
      housekeeping: async () => void calls.push('leave others'),
      onInForce: () => calls.push('in force'),
      onCrash: (error) => assert.fail(String(error)),
    })
    let runEnds = 0
    const cancelRunEnds = synchronizer.onRunEnd(() => runEnds++)
    synchronizer.start()
    surroundings.intake.deliver([
      set(service('web', '10.96.0.1')),
      set(slice('web-a', 'web', ['10.244.1.1'])),
    ])
    await settle()
    await surroundings.clock.advance(syncPeriodMs)
    assert.deepEqual([records, calls], [[], []], 'nothing before everything was listed')
    surroundings.intake.deliver([{ type: 'synced' }])
    await settle()
    assert.match(records.join(), /^default\/web.* to 10\.244\.1\.1$/)
    assert.deepEqual(calls, ['prepare', 'in force', 'leave others'])
    surroundings.intake.deliver([remove('Service', 'web')])
    await settle()
    assert.equal(records.length, 2)
    assert.match(records[1] ?? '', /^default\/web.* to undefined$/)
    assert.equal(synchronizer.passes.length, 2)
    assert.ok(runEnds >= 2, 'the end of each run is reported')
    cancelRunEnds()
    const reported = runEnds
    assert.ok(synchronizer.health.every(({ isHealthy }) => isHealthy))
    assert.equal(calls.splice(0).at(-1), 'prepare', 'again, as it failed')
    surroundings.intake.deliver([set(service('web', '10.96.0.1'))])
    await settle()
    assert.deepEqual(calls, [], 'it succeeded')
    assert.equal(runEnds, reported, 'nothing is reported after the cancellation')
    await synchronizer.stop()
    assert.equal(closed, 1)
  })
})

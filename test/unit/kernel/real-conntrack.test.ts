// The calls of RealConntrack, with a fake addon.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { it } from 'node:test'
import type { RawConntrackSocket } from '../../../src/kernel/addon.js'
import { RealConntrack } from '../../../src/kernel/conntrack/real-conntrack.js'
import { loadAddon } from '../../../src/kernel/loader.js'
import { CallCounts } from '../../../src/kernel/request-queue.js'

it('a list of flows delays no clean-up', { timeout: 10_000 }, async () => {
  const addon = loadAddon({ addonPath: process.env['VIADUCT_ADDON'], moduleUrl: import.meta.url })
  const cleanUps = new EventEmitter()
  const cleaned = once(cleanUps, 'clean-up')
  /** Its lists end after the clean-up. */
  class Socket implements RawConntrackSocket {
    async deleteStale(): ReturnType<RawConntrackSocket['deleteStale']> {
      cleanUps.emit('clean-up')
      return { seen: 0, isFiltered: true, deleted: 3 }
    }
    async listFlows(): ReturnType<RawConntrackSocket['listFlows']> {
      await cleaned
      return { flows: new Uint8Array(), total: 7 }
    }
    async countFlows(): ReturnType<RawConntrackSocket['countFlows']> {
      await cleaned
      return new Uint8Array()
    }
    async close(): Promise<void> {}
  }
  const conntrack = new RealConntrack(() => ({ ...addon, ConntrackSocket: Socket }), new CallCounts())
  const listed = conntrack.listFlows('ipv4', [], [], 1)
  const counted = conntrack.countFlows('ipv4', [], [])
  assert.equal((await conntrack.deleteStale('ipv4', [], [])).deleted, 3)
  assert.equal((await listed).total, 7)
  assert.deepEqual([...(await counted)], [])
  await conntrack.close()
})

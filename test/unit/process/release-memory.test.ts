import assert from 'node:assert/strict'
import { it } from 'node:test'
import { systemClock } from '../../../src/clock.js'
import { releaseMemory } from '../../../src/process/index.js'

it(
  'releaseMemory() collects garbage, keeps referenced objects, and can run again',
  { timeout: 20_000 },
  async () => {
    const kept = { name: 'kept' }
    const needed = new WeakRef(kept)
    const garbage = new WeakRef({ name: 'garbage' })
    await releaseMemory(systemClock)
    assert.equal(garbage.deref(), undefined)
    assert.equal(needed.deref(), kept)
    // A second session opens only if the first one has ended.
    await releaseMemory(systemClock)
  },
)

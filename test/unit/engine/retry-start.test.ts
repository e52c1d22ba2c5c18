// Issue 18, C10: a start that fails for lack of kernel resources is retried.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { type ErrnoName, isTransient, KernelError } from '../../../src/errors.js'
import { openModelKernel } from '../../model/index.js'
import { resolveConfig } from '../../../src/config/index.js'
import { familiesWithXtables } from '../../../src/host/families.js'
import { retryStart } from '../../../src/engine/index.js'
import { setConntrack } from '../../../src/host/index.js'
import { ManualClock, settle } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

const { errno } = constants

function refusal(code: keyof typeof errno): KernelError {
  return new KernelError({ errno: errno[code], subsystem: 'route', operation: 'join netlink group' })
}

describe('isTransient', () => {
  const rows: readonly [ErrnoName & keyof typeof errno, boolean][] = [
    ['ENOMEM', true],
    ['EAGAIN', true],
    ['ENOBUFS', true],
    ['EMFILE', true],
    ['ENFILE', true],
    ['EINTR', true],
    ['EPERM', false],
    ['ENOENT', false],
    ['EBADF', false],
  ]
  for (const [code, expected] of rows)
    it(`is ${expected} for ${code}`, () => assert.equal(isTransient(refusal(code)), expected))

  it('is false for an error of another kind', () => assert.equal(isTransient(new Error('ENOMEM')), false))
})

describe('a start without enough kernel resources', () => {
  it('is retried with growing delays, and logged once', async () => {
    const clock = new ManualClock()
    const log = new MemoryLog()
    const attemptsMs: number[] = []
    const start = retryStart(
      () => {
        attemptsMs.push(clock.now())
        if (attemptsMs.length <= 10) throw refusal('ENOMEM')
        return 'open'
      },
      { clock, log },
    )
    await clock.advance(200_000)
    assert.equal(await start, 'open')
    const delaysMs = attemptsMs.slice(1).map((ms, i) => ms - (attemptsMs[i] ?? 0))
    assert.deepEqual(delaysMs, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000])
    assert.deepEqual(
      log.lines.map(({ level, message }) => [level, message]),
      [
        ['warn', 'The kernel lacks resources for the start: it is tried again until it succeeds'],
        ['info', 'The kernel has the resources for the start now'],
      ],
    )
  })

  it('ends with a permanent error', async () => {
    const clock = new ManualClock()
    const errors = [refusal('EMFILE'), refusal('EPERM')]
    const start = retryStart(() => Promise.reject(errors.shift()), { clock, log: new MemoryLog() })
    const ended = assert.rejects(start, { code: 'EPERM' })
    await clock.advance(200)
    await ended
    assert.equal(clock.pending, 0)
  })

  it('logs nothing when resources suffice', async () => {
    const log = new MemoryLog()
    assert.equal(await retryStart(() => 1, { clock: new ManualClock(), log }), 1)
    await settle()
    assert.deepEqual(log.lines, [])
  })
})

describe('a shortage during the preparation of the kernel', () => {
  it('does not count as missing x_tables', async () => {
    const kernel = openModelKernel()
    kernel.xtables('ipv4', 'nat').plan = { callFault: () => errno.ENOENT }
    kernel.nftChains.loadXtables = async () => await Promise.reject(refusal('EMFILE'))
    const families = familiesWithXtables({ kernel, tables: ['nat'], log: new MemoryLog() })
    await assert.rejects(families, { code: 'EMFILE' })
  })

  it('does not count as a wrong conntrack setting', async () => {
    const kernel = openModelKernel()
    kernel.conntrack.deleteStale = async () => await Promise.reject(refusal('ENOBUFS'))
    const { conntrack: config } = resolveConfig({ manifests: 'none' })
    const setting = setConntrack({
      config,
      cpus: 1,
      kernel,
      log: new MemoryLog(),
      events: { record: () => undefined },
      nodeName: 'node-a',
      isSysfsReadOnly: async () => false,
    })
    await assert.rejects(setting, { code: 'ENOBUFS' })
  })
})

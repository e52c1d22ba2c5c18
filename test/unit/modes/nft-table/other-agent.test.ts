import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NftChange } from '../../../../src/kernel/index.js'
import { OtherAgent } from '../../../../src/modes/nft-table/other-agent.js'
import { ManualClock } from '../../../support/manual-clock.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'

const object = { kind: 'rules', family: 'ipv4', table: 'kube-proxy', name: 'services' } as const
const change: NftChange = { kind: 'transaction', generation: 7, pid: 42, program: 'node', objects: [object] }
const ofOther: NftChange = { ...change, pid: 43, program: 'nft', objects: [{ ...object, family: 'ipv6' }] }

/** The log after rewrites at these times, in seconds; asked after each, and at the end. */
async function after(
  seconds: readonly number[],
  endSeconds: number,
): Promise<{ readonly isActive: boolean; readonly lines: readonly string[] }> {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const other = new OtherAgent({ family: 'ipv4', clock, log })
  for (const each of seconds) {
    await clock.advance(each * 1000 - clock.now())
    other.note([change, ofOther])
    other.noteRewritten('services')
    assert.equal(typeof other.isActiveNow(), 'boolean')
  }
  await clock.advance(endSeconds * 1000 - clock.now())
  const isActive = other.isActiveNow()
  return { isActive, lines: log.lines.map(({ level, message }) => `${level} ${message}`) }
}

describe('an agent with other rules beside this one', () => {
  it('is reported once, with the writer of this family, after 5 s of rewrites', async () => {
    const { isActive, lines } = await after([0, 1, 2, 3, 4, 5, 6, 11, 16], 17)
    assert.equal(isActive, true)
    assert.equal(lines.length, 1, lines.join('\n'))
    assert.match(
      lines[0] ?? '',
      /^warn Another agent is running: node \(pid 42\) writes other rules into IPv4 kube-proxy services /u,
    )
  })

  it('is gone after two looks without a rewrite', async () => {
    const { isActive, lines } = await after([0, 1, 2, 3, 4, 5], 15)
    assert.equal(isActive, false)
    assert.deepEqual(lines.slice(1), ['info No other agent is running any more'])
  })

  it('is not a program that rewrites rules now and then, or a few times', async () => {
    assert.deepEqual((await after([0, 3, 6, 9, 12, 15], 16)).lines, [])
    assert.deepEqual((await after([0, 1, 2, 3, 4], 16)).lines, [])
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { RelayConditionWatch } from '../../../../src/layers/relay/index.js'
import type { RelayConditions } from '../../../../src/kernel/index.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'

const calm: RelayConditions = {
  hasFewDescriptors: false,
  hasFewUdpPorts: false,
  hasFewTcpPorts: false,
  hasTakenPort: false,
  hasLoop: false,
  hasSpentHops: false,
  descriptorLimit: 1024,
  udpPortLimit: 900,
}

function open(...all: readonly RelayConditions[]) {
  const left = [...all]
  const log = new MemoryLog()
  const nextConditions = (): Promise<RelayConditions | undefined> => {
    const conditions = left.shift()
    return conditions === undefined ? new Promise(() => {}) : Promise.resolve(conditions)
  }
  return { log, watch: new RelayConditionWatch({ nextConditions }, log) }
}

describe('a shortage', () => {
  it('of file descriptors is one problem line with the limit, and ends with one line and a run', async () => {
    const { log, watch } = open({ ...calm, hasFewDescriptors: true }, calm)
    assert.equal(await watch.next(), true)
    assert.equal(log.find('error', 'File descriptors are short: the limit is 1024').length, 1)
    assert.equal(log.find('info', 'File descriptors are no longer short').length, 1)
    await watch.close()
  })

  it('of local UDP ports is a line of its own, and its end needs no run', async () => {
    const { log, watch } = open(
      { ...calm, hasFewUdpPorts: true },
      calm,
      { ...calm, hasFewDescriptors: true },
      calm,
    )
    assert.equal(await watch.next(), true)
    assert.deepEqual(
      log.lines.map(({ message }) => message.split(':')[0]),
      [
        'Local UDP ports are short',
        'Local UDP ports are no longer short',
        'File descriptors are short',
        'File descriptors are no longer short',
      ],
    )
    await watch.close()
  })

  for (const [name, level, lines] of [
    ['hasFewTcpPorts', 'error', ['Local TCP ports are short', 'Local TCP ports are no longer short']],
    ['hasTakenPort', 'error', ['UDP node ports are taken', 'UDP node ports are no longer taken']],
    ['hasLoop', 'error', ['Service leads back to the relay', 'No Service leads back to the relay']],
    ['hasSpentHops', 'warn', ['Hop limits run out', 'Hop limits no longer run out']],
  ] as const)
    it(`${name} is one line, and its end another one`, async () => {
      const { log, watch } = open({ ...calm, [name]: true }, { ...calm, [name]: true }, calm)
      const next = watch.next()
      await new Promise((resolve) => void setImmediate(resolve))
      assert.deepEqual(
        log.lines.map(({ message }) => message.split(':')[0]),
        lines,
      )
      assert.equal(log.lines[0]?.level, level)
      await watch.close()
      assert.equal(await next, false)
    })

  it('is no longer watched after close', async () => {
    const { watch } = open()
    const waiting = watch.next()
    await watch.close()
    assert.equal(await waiting, false)
  })
})

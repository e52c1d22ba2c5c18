import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inOverlappingCuts } from '../../../../src/layers/objects/index.js'

const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve))

/** Cuts of two items. `finish` settles the oldest one in flight. */
function lab(items: readonly number[]) {
  const events: string[] = []
  const pending: { resolve: () => void; reject: (error: Error) => void }[] = []
  let isStopping = false
  const done = inOverlappingCuts(items, {
    plan: (rest) => ({ cut: rest.slice(0, 2), rest: rest.slice(2) }),
    send: async ({ cut }) => {
      events.push(`send ${cut.join()}`)
      await new Promise<void>((resolve, reject) => pending.push({ resolve, reject }))
    },
    enter: async ({ cut }, answer) => {
      await answer
      events.push(`done ${cut.join()}`)
    },
    isStopping: () => isStopping,
  })
  return {
    events,
    done,
    stop: () => {
      isStopping = true
    },
    finish: async (error?: Error, index = 0) => {
      const [oldest] = pending.splice(index, 1)
      if (error === undefined) oldest?.resolve()
      else oldest?.reject(error)
      await turn()
    },
  }
}

describe('inOverlappingCuts', () => {
  it('sends the next cut before the previous one ends, and never a third', async () => {
    const { events, done, finish } = lab([1, 2, 3, 4, 5, 6])
    await finish()
    assert.deepEqual(events, ['send 1,2', 'send 3,4', 'done 1,2', 'send 5,6'])
    await finish()
    await finish()
    await done
    assert.deepEqual(events.slice(4), ['done 3,4', 'done 5,6'])
  })

  it('ends after the cuts in flight when it is stopped', async () => {
    const { events, done, finish, stop } = lab([1, 2, 3, 4, 5, 6])
    await Promise.resolve()
    stop()
    await finish()
    await finish()
    await done
    assert.deepEqual(events, ['send 1,2', 'send 3,4', 'done 1,2', 'done 3,4'])
  })

  it('fails only after the last cut in flight', async () => {
    const { events, done, finish } = lab([1, 2, 3, 4, 5, 6])
    const failed = assert.rejects(done, /broken/u)
    await Promise.resolve()
    await finish(new Error('broken'))
    assert.deepEqual(events, ['send 1,2', 'send 3,4'])
    await finish()
    await failed
    assert.deepEqual(events, ['send 1,2', 'send 3,4', 'done 3,4'])
  })

  it('fails once when the second cut fails first', async () => {
    const unhandled: unknown[] = []
    const note = (error: unknown): void => void unhandled.push(error)
    process.on('unhandledRejection', note)
    const { done, finish } = lab([1, 2, 3, 4, 5, 6])
    const failed = assert.rejects(done, /broken/u)
    await Promise.resolve()
    await finish(new Error('broken'), 1)
    await finish()
    await finish()
    await failed
    process.off('unhandledRejection', note)
    assert.deepEqual(unhandled, [])
  })

  it('does nothing without items', async () => {
    const { events, done } = lab([])
    await done
    assert.deepEqual(events, [])
  })
})

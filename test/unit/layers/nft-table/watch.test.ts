import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { KernelError } from '../../../../src/errors.js'
import type { NftChange, NftWatch } from '../../../../src/kernel/index.js'
import { NftModeWatch, type WatchedTable } from '../../../../src/layers/nft-table/watch.js'
import { settle } from '../../../support/manual-clock.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'

const ours: NftChange = {
  kind: 'transaction',
  generation: 2,
  pid: 1,
  program: 'nft',
  objects: [{ kind: 'table', family: 'ipv4', table: 'kube-proxy', name: '' }],
}
const others: NftChange = { ...ours, objects: [] }

/** A watch of the kernel that delivers what the test says. */
class FakeWatch implements NftWatch {
  readonly #answers: (readonly NftChange[] | KernelError)[]
  isClosed = false
  asked = 0

  constructor(answers: readonly (readonly NftChange[] | KernelError)[]) {
    this.#answers = [...answers]
  }

  async next(): Promise<readonly NftChange[] | undefined> {
    this.asked++
    const answer = this.#answers.shift()
    if (answer instanceof KernelError) throw answer
    return answer
  }

  async close(): Promise<void> {
    this.isClosed = true
  }
}

class Table implements WatchedTable {
  readonly seen: string[] = []
  readonly firstSync: Promise<void>
  endFirstSync = (): void => {}

  constructor() {
    this.firstSync = new Promise((resolve) => {
      this.endFirstSync = resolve
    })
  }

  noteChanges(changes: readonly NftChange[]): boolean {
    this.seen.push(`changes ${changes.length}`)
    return changes.includes(ours)
  }

  noteWatch(): void {
    this.seen.push('watch')
  }
}

function refusal(): KernelError {
  return new KernelError({ errno: constants.errno.ENOMEM, subsystem: 'nftables', operation: 'watch' })
}

interface Lab {
  readonly watch: NftModeWatch
  readonly kernel: FakeWatch
  readonly tables: readonly Table[]
  readonly log: MemoryLog
}

function lab(answers: readonly (readonly NftChange[] | KernelError)[], open?: () => NftWatch): Lab {
  const kernel = new FakeWatch(answers)
  const tables = [new Table(), new Table()]
  const log = new MemoryLog()
  return {
    watch: new NftModeWatch({ nftables: { watch: open ?? (() => kernel) }, tables, log }),
    kernel,
    tables,
    log,
  }
}

describe('the watch of nf_tables', () => {
  it('opens when the first sync of every family has ended, and then asks for a comparison', async () => {
    const { watch, tables } = lab([])
    let isOpen: boolean | undefined
    const opened = watch.next().then((answer) => (isOpen = answer))
    tables[0]?.endFirstSync()
    await settle()
    assert.deepEqual([isOpen, tables[0]?.seen], [undefined, []])
    tables[1]?.endFirstSync()
    await opened
    assert.deepEqual([isOpen, tables.map(({ seen }) => seen)], [true, [['watch'], ['watch']]])
  })

  it('asks for runs only for changes that concern a table, and shows every change to every table', async () => {
    const { watch, kernel, tables } = lab([[others], [others, others], [ours]])
    for (const table of tables) table.endFirstSync()
    await watch.next()
    assert.equal(await watch.next(), true)
    assert.equal(kernel.asked, 3)
    for (const { seen } of tables) assert.deepEqual(seen, ['watch', 'changes 1', 'changes 2', 'changes 1'])
    assert.equal(await watch.next(), false, 'the kernel closed it')
  })

  const cannot = /nf_tables cannot be watched: the tables are compared once a sync period instead/

  it('that cannot be opened is reported once, and the tables know it', async () => {
    const { watch, tables, log } = lab([], () => {
      throw refusal()
    })
    for (const table of tables) table.endFirstSync()
    assert.equal(await watch.next(), false)
    assert.deepEqual(
      log.lines.map(({ level, message }) => [level, cannot.test(message)]),
      [['warn', true]],
    )
    assert.deepEqual(tables[0]?.seen, ['watch'])
    await watch.close()
  })

  it('that fails later is reported once, and the tables know it', async () => {
    const { watch, tables, log } = lab([refusal()])
    for (const table of tables) table.endFirstSync()
    await watch.next()
    assert.equal(await watch.next(), false)
    assert.equal(log.find('warn', 'nf_tables cannot be watched').length, 1)
    assert.deepEqual(tables[1]?.seen, ['watch', 'watch'])
  })

  it('ends with close, before and after it opened', async () => {
    const waiting = lab([])
    const answer = waiting.watch.next()
    await waiting.watch.close()
    assert.equal(await answer, false)
    assert.equal(waiting.kernel.asked, 0)
    const opened = lab([])
    for (const table of opened.tables) table.endFirstSync()
    await opened.watch.next()
    await opened.watch.close()
    assert.equal(opened.kernel.isClosed, true)
  })
})

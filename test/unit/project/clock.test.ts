import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { treeFiles, treeText } from '../../support/tree.js'

const readsTime = /\bDate\.now\b|\bnew Date\(\)|\bperformance\.|\bhrtime\b|\bnode:timers\b/u
// NB: does not match a method with that name, such as a socket's.
const setsTimer = /(?<![.#\w])set(?:Timeout|Interval|Immediate)\((?!.*\{$)/mu

function findsTime(text: string): boolean {
  return readsTime.test(text) || setsTimer.test(text)
}

describe('src/clock.ts', () => {
  it('is the only source that reads the time or sets a timer', () => {
    // The script of the status page runs in a browser.
    const sources = treeFiles(/^src\/.*\.c?ts$/).filter((path) => path !== 'src/page/assets.ts')
    assert.deepEqual(
      sources.filter((path) => findsTime(treeText(path))),
      ['src/clock.ts'],
    )
  })

  for (const line of [
    'at = Date.now()',
    "import 'node:timers/promises'",
    'void setInterval(wake, 5).unref()',
  ])
    it(`is needed for: ${line}`, () => assert.ok(findsTime(line)))

  it('is not needed to format a time or to call a method with the name of a timer', () => {
    assert.ok(!findsTime('new Date(unixMs).toISOString()\n  setInterval(periodMs: number): this {\n'))
  })
})

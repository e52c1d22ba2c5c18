import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { type ServicePortKey } from '../../../../src/model/index.js'
import { servicePortKey } from '../../../../src/model/testing.js'
import { MarkTable } from '../../../../src/layers/ipvs/tables/ipset-marks.js'

const mask = 0x7ff
const markCount = 1024

function keyOf(service: string): ServicePortKey {
  return servicePortKey(`default/${service}`, 'http/TCP')
}

/** Takes a mark for the service port. `onPreferred` gets the first choice. */
function take(
  table: MarkTable,
  key: ServicePortKey,
  onPreferred: (mark: number) => void = () => {},
): number | undefined {
  return table.take(key, {
    former: (preferred) => {
      onPreferred(preferred)
      return undefined
    },
    isReserved: () => false,
  })
}

/** Service ports whose first choice is one mark. */
function rivals(count: number): readonly ServicePortKey[] {
  const keys: ServicePortKey[] = []
  for (let number = 0; keys.length < count; number++) {
    const key = keyOf(`s${number}`)
    take(new MarkTable(mask), key, (preferred) => {
      if (preferred === 0x400) keys.push(key)
    })
  }
  return keys
}

describe('MarkTable', () => {
  // Issue 35, A4: each of the 500 service ports searched through the marks of all before it: 125,250 look-ups.
  it('finds a mark in few steps for names that an attacker chose', () => {
    const keys = rivals(500)
    const table = new MarkTable(mask)
    const lookups = mock.method(Set.prototype, 'has')
    const marks = keys.map((key) => take(table, key))
    const { length } = lookups.mock.calls
    lookups.mock.restore()
    assert.equal(new Set(marks).size, keys.length)
    assert.ok(length < 3 * keys.length, `${length} look-ups`)
  })

  it('gives every mark to one service port, and none when all are taken', () => {
    const table = new MarkTable(mask)
    const marks = Array.from({ length: markCount }, (_, number) => take(table, keyOf(`s${number}`)))
    assert.equal(new Set(marks).size, markCount)
    assert.ok(marks.every((mark) => mark !== undefined && mark >= 0x400 && mark <= mask))
    assert.equal(take(table, keyOf('late')), undefined)
    table.release(keyOf('s7'))
    assert.equal(take(table, keyOf('late')), undefined, 'frontends may lead to it')
    assert.ok(table.settle(() => new Set()))
    assert.equal(take(table, keyOf('late')), marks[7])
  })
})

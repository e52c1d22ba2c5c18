import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import {
  confirmBatch,
  disownBatch,
  Holdings,
  type ObjectBatch,
  type ObjectKind,
  ObjectTable,
  planBatch,
  type TrackedObject,
} from '../../../../src/layers/objects/index.js'
import { KernelError } from '../../../../src/errors.js'

/** A lamp: the kernel has it with a brightness, or does not have it (0). */
class Lamp implements TrackedObject<string, number> {
  readonly id: string
  desired = 0
  acknowledged = 0
  isStale = false
  isCounted = false
  isLeftover = false
  seenIn = 0

  constructor(id: string) {
    this.id = id
  }

  get isAcknowledged(): boolean {
    return this.acknowledged > 0
  }

  get isUnused(): boolean {
    return this.desired === 0 && !this.isAcknowledged
  }

  dropLeftover(): void {
    this.isLeftover = false
  }
}

/** One step of brightness. */
interface LampOp {
  readonly op: 'brighter' | 'darker'
  readonly lamp: string
}

const lampKind: ObjectKind<Lamp, number, LampOp, LampOp[]> = {
  plan: (ops, { id, acknowledged }, target) => {
    const op = target > acknowledged ? 'brighter' : 'darker'
    const steps = Math.abs(target - acknowledged)
    for (let step = 0; step < steps; step++) ops.push({ op, lamp: id })
    return steps
  },
  advance: (state, { op }) => state + (op === 'brighter' ? 1 : -1),
  meaningOf: (_lamp, { op }, { error, unknown }) =>
    unknown ? 'stale' : op === 'darker' && error.code === 'ENOENT' ? 'done' : 'refused',
  isSame: (a, b) => a === b,
}

type LampBatch = ObjectBatch<Lamp, number, LampOp[]>

function lamps(...desired: readonly number[]): readonly Lamp[] {
  return desired.map((brightness, index) => Object.assign(new Lamp(`lamp ${index}`), { desired: brightness }))
}

function planned(
  objects: readonly Lamp[],
  limit = 1000,
): ReturnType<typeof planBatch<Lamp, number, LampOp, LampOp[]>> {
  return planBatch(lampKind, objects, { ops: [], limit, targetOf: ({ desired }) => desired })
}

function failure(index: number, code: 'EBUSY' | 'ENOENT', unknown = false) {
  const error = new KernelError({ errno: constants.errno[code], subsystem: 'ipvs', operation: 'dim' })
  return { index, error, unknown }
}

function confirmed(batch: LampBatch, ...failures: ReturnType<typeof failure>[]) {
  return confirmBatch(lampKind, batch, { applied: batch.ops.length - failures.length, failures })
}

describe('a batch of kernel objects', () => {
  it('reaches the desired state, and a second plan is empty', () => {
    const objects = lamps(2, 0, 3)
    confirmed(planned(objects).batch)
    assert.deepEqual(
      objects.map(({ acknowledged }) => acknowledged),
      [2, 0, 3],
    )
    assert.deepEqual(planned(objects).batch.ops, [])
  })

  it('ends at its limit, and the next batch has the rest', () => {
    const { batch, rest } = planned(lamps(2, 2, 2, 2), 3)
    assert.equal(batch.ops.length, 4)
    assert.equal(rest.length, 2)
  })

  it('leaves out stale objects', () => {
    const objects = lamps(1, 1)
    for (const lamp of objects.slice(1)) lamp.isStale = true
    assert.deepEqual(
      planned(objects).batch.ops.map(({ lamp }) => lamp),
      ['lamp 0'],
    )
  })

  const answers = [
    {
      name: 'a refusal: the other operations of the object are acknowledged',
      failures: [failure(1, 'EBUSY')],
      acknowledged: [2, 1],
    },
    {
      name: 'a lost answer: the object is stale',
      failures: [failure(2, 'EBUSY', true)],
      acknowledged: [2, 1],
      isStale: true,
    },
    { name: 'a failure that means done', before: 4, failures: [failure(0, 'ENOENT')], acknowledged: [3, 1] },
  ] as const
  for (const { name, failures, acknowledged, ...rest } of answers) {
    it(`takes in ${name}`, () => {
      const objects = lamps(3, 1)
      for (const lamp of objects.slice(0, 1)) lamp.acknowledged = 'before' in rest ? rest.before : 0
      const { refusals, surprises } = confirmed(planned(objects).batch, ...failures)
      assert.deepEqual(
        objects.map((lamp) => lamp.acknowledged),
        acknowledged,
      )
      const isStale = 'isStale' in rest
      assert.deepEqual(
        objects.map((lamp) => lamp.isStale),
        [isStale, false],
      )
      assert.equal(surprises.length, isStale ? 1 : 0)
      assert.equal(refusals.length, failures[0].error.code === 'EBUSY' && !isStale ? 1 : 0)
    })
  }

  it('that could not be sent makes its objects stale, and acknowledges nothing', () => {
    const objects = lamps(1, 0)
    disownBatch(planned(objects).batch)
    assert.deepEqual(
      objects.map(({ isStale, acknowledged }) => [isStale, acknowledged]),
      [
        [true, 0],
        [false, 0],
      ],
    )
  })
})

function opened(...desired: readonly number[]): {
  readonly table: ObjectTable<string, Lamp>
  readonly objects: readonly Lamp[]
} {
  const table = new ObjectTable<string, Lamp>()
  const objects = lamps(...desired).map((lamp) => table.add(lamp))
  return { table, objects }
}

describe('a table of kernel objects', () => {
  it('counts acknowledged objects, and forgets unused objects unless they are stale', () => {
    const { table, objects } = opened(1, 0, 0)
    for (const [index, lamp] of objects.entries()) {
      lamp.acknowledged = lamp.desired
      lamp.isStale = index === 2
      table.settle(lamp)
      table.settle(lamp)
    }
    assert.equal(table.acknowledgedCount, 1)
    assert.deepEqual(
      [...table.values()].map(({ id }) => id),
      ['lamp 0', 'lamp 2'],
    )
  })

  it('does not forget an object that replaced a forgotten one', () => {
    const { table, objects } = opened(0)
    for (const lamp of objects) table.settle(lamp)
    const successor = table.add(new Lamp('lamp 0'))
    for (const lamp of objects) table.settle(lamp)
    assert.equal(table.get('lamp 0'), successor)
  })

  it('returns each dirty object once', () => {
    const { table, objects } = opened(1, 1)
    for (const lamp of [...objects, ...objects]) table.markDirty(lamp)
    assert.equal(table.takeDirty().length, 2)
    assert.equal(table.takeDirty().length, 0)
  })

  it('keeps leftovers of the first reading until all Services are known', () => {
    const { table, objects } = opened(0, 1)
    table.beginReading({ keepLeftovers: true })
    for (const lamp of objects.slice(0, 1)) Object.assign(lamp, { acknowledged: 1, isLeftover: true })
    table.beginReading({ keepLeftovers: false })
    assert.ok(table.keepsLeftovers)
    assert.deepEqual(
      table.dropLeftovers().map(({ id }) => id),
      ['lamp 0'],
    )
    assert.equal(table.dirty.size, 1)
    assert.deepEqual(table.dropLeftovers(), [])
  })

  it('reports objects that a reading did not find', () => {
    const { table, objects } = opened(1, 1)
    table.beginReading({ keepLeftovers: false })
    for (const lamp of objects.slice(1)) table.see(lamp)
    assert.deepEqual(
      objects.map((lamp) => table.isSeen(lamp)),
      [false, true],
    )
  })

  it('returns samples in turn, without duplicates', () => {
    const { table, objects } = opened(1, 1, 1)
    for (const lamp of objects) lamp.acknowledged = 1
    const turns = [table.takeSample(2), table.takeSample(2), table.takeSample(5)]
    assert.deepEqual(
      turns.map((turn) => turn.map(({ id }) => id.slice(-1)).join('')),
      ['01', '20', '120'],
    )
  })
})

it('the objects of a holder are replaced as a whole', () => {
  const holdings = new Holdings<string, number>()
  assert.deepEqual(holdings.replace('a', [1, 2]), [])
  assert.deepEqual(holdings.replace('a', [2, 3]), [1, 2])
  assert.deepEqual(holdings.replace('b', [9]), [])
  assert.deepEqual(holdings.replace('a', []), [2, 3])
  assert.deepEqual(holdings.replace('a', []), [])
})

import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import {
  KernelQuestions,
  openProblems,
  type OperationKind,
  Pass,
  StageTimes,
} from '../../../src/engine/index.js'
import { type FamilyIntake, InForceTimes, PassHistory, type RunEvents } from '../../../src/engine/testing.js'
import { RetryQueue } from '../../../src/layers/objects/index.js'
import { KernelError } from '../../../src/errors.js'
import { openMetrics } from '../../../src/metrics/index.js'
import { type ServicePortKey } from '../../../src/model/index.js'
import { servicePortKey } from '../../../src/model/testing.js'
import { ManualClock } from '../../support/manual-clock.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

interface Op {
  readonly op: 'add' | 'remove'
  readonly name: string
}

const kind: OperationKind<Op> = { name: 'lamps', describe: ({ name }) => name, isMetered: true }
const ops: readonly Op[] = ['a', 'b', 'c'].map((name) => ({ op: 'add', name }))

function refusal(name: string): KernelError {
  return new KernelError({ errno: constants.errno.EBUSY, subsystem: 'ipvs', operation: 'add', object: name })
}

/** An intake with these changed service ports, and with events that joined the pass. */
function taking(keys: readonly ServicePortKey[], events?: RunEvents): Pick<FamilyIntake, 'takeDirty'> {
  return { takeDirty: async () => await Promise.resolve({ dirty: new Set(keys), events }) }
}

function opened() {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const registry = new Registry()
  const metrics = openMetrics(registry).ipv4
  const pass = new Pass({ family: 'ipv4', clock, log, metrics })
  return { clock, log, registry, metrics, pass }
}

async function value(registry: Registry, name: string, labels = ''): Promise<string> {
  const lines = (await registry.metrics()).split('\n')
  return (
    lines
      .find((line) => line.startsWith(name) && line.includes(labels))
      ?.split(' ')
      .at(-1) ?? ''
  )
}

describe('a pass', () => {
  it('ends with a record: operations by kind, failures, duration', async () => {
    const { clock, pass } = opened()
    pass.reason = 'retry'
    pass.count(kind, ops, {
      applied: 1,
      failures: [
        { index: 1, error: refusal('b'), unknown: false },
        { index: 2, error: refusal('c'), unknown: true },
      ],
    })
    await clock.advance(7)
    const { firstOperations, ...record } = pass.end({ hasRefusals: true, fields: {} })
    assert.deepEqual(firstOperations(), ['lamps add a', 'lamps add b', 'lamps add c'])
    assert.deepEqual(record, {
      family: 'ipv4',
      reason: 'retry',
      startSeconds: 1_700_000_000,
      durationMs: 7,
      stages: { compileMs: 0, planMs: 7, kernelMs: 0 },
      objects: { count: 0, first: [] },
      changed: { count: 0, first: [] },
      isComplete: true,
      operations: { lamps: { add: { applied: 1, refused: 1, unanswered: 1 } } },
      failures: ['ipvs: add b: EBUSY', 'no answer: ipvs: add c: EBUSY'],
    })
  })

  it('names the first service ports that changed', async () => {
    const { pass } = opened()
    const keys = Array.from({ length: 20 }, (_, index) => servicePortKey(`default/s${index}`, 'http/TCP'))
    await pass.takeDirty(taking([]))
    await pass.takeDirty(taking(keys))
    const { changed } = pass.end({ hasRefusals: false, fields: {} })
    assert.deepEqual(changed, { count: 20, first: keys.slice(0, 8) })
  })

  it('is for events that came after its start and before it took the service ports: they waited for no time', async () => {
    const { clock, pass } = opened()
    await clock.advance(3)
    const objects = { count: 1, first: ['Service default/web'] }
    await pass.takeDirty(taking([], { oldestEventMs: clock.now(), objects }))
    const record = pass.end({ hasRefusals: false, fields: {} })
    assert.deepEqual(record.objects, objects)
    assert.equal(record.stages.waitingMs, 0)
  })

  it('that failed is incomplete, and names only a few failures', () => {
    const { pass } = opened()
    for (let index = 0; index < 20; index++) pass.fail(refusal(`${index}`))
    const { isComplete, failures } = pass.end({ hasRefusals: false, fields: {} })
    assert.equal(isComplete, false)
    assert.equal(failures.length, 8)
  })

  const syncs = [
    { name: 'a pass without refusals', isFailed: false, hasRefusals: false, isCounted: true },
    { name: 'a refused object', isFailed: false, hasRefusals: true, isCounted: false },
    { name: 'a failed pass', isFailed: true, hasRefusals: false, isCounted: false },
  ]
  for (const { name, isFailed, hasRefusals, isCounted } of syncs) {
    it(`${name}: it is ${isCounted ? '' : 'not '}the last complete sync`, async () => {
      const { pass, registry } = opened()
      if (isFailed) pass.fail()
      pass.end({ hasRefusals, fields: {} })
      const metric = 'kubeproxy_sync_proxy_rules_last_timestamp_seconds'
      assert.equal((await value(registry, metric, 'IPv4')) === '1700000000', isCounted)
    })
  }

  const changes = [
    { name: 'a pass without refusals', isFailed: false, hasRefusals: false, since: 1_700_000_000_005 },
    { name: 'a refused object', isFailed: false, hasRefusals: true },
    { name: 'a failed pass', isFailed: true, hasRefusals: false },
    { name: 'an object that waits for a retry', isFailed: false, hasRefusals: false, hasFailures: true },
    { name: 'a removed service port', isFailed: false, hasRefusals: false, isKnown: false },
  ]
  for (const { name, isFailed, hasRefusals, since, hasFailures = false, isKnown = true } of changes) {
    it(`${name}: its service ports are ${since === undefined ? 'not ' : ''}in force since its end`, async () => {
      const { clock, log, metrics } = opened()
      const state = { hasFailures: false }
      const inForce = new InForceTimes({ isKnown: () => isKnown, hasFailures: () => state.hasFailures })
      const key = servicePortKey('default/s', 'http/TCP')
      inForce.change([key])
      inForce.settle(1)
      const pass = new Pass({ family: 'ipv4', clock, log, metrics, inForce })
      state.hasFailures = hasFailures
      await pass.takeDirty(taking([key]))
      assert.equal(inForce.since(key), undefined)
      await clock.advance(5)
      if (isFailed) pass.fail()
      pass.end({ hasRefusals, fields: {} })
      assert.equal(inForce.since(key), since)
    })
  }

  it('keeps the first operations as text; at trace level, more of them', () => {
    const { clock, metrics, pass: traced } = opened()
    const log = Object.assign(new MemoryLog(), { writes: () => false })
    const pass = new Pass({ family: 'ipv4', clock, log, metrics })
    const many = Array.from({ length: 20 }, (_, index): Op => ({ op: 'add', name: `${index}` }))
    for (const each of [pass, traced]) each.count(kind, many, { applied: 20, failures: [] })
    const text = many.map(({ name }) => `lamps add ${name}`)
    assert.deepEqual(pass.text, text.slice(0, 8))
    assert.deepEqual(traced.text, text)
    const { firstOperations } = traced.end({ hasRefusals: false, fields: {} })
    assert.deepEqual(firstOperations(), text.slice(0, 8))
  })

  it('measures its stages: each millisecond belongs to one of them', async () => {
    const { clock, log, metrics } = opened()
    const stages = new StageTimes(clock)
    await clock.advance(10)
    const events = { oldestEventMs: clock.now() - 4, objects: { count: 0, first: [] } }
    const pass = new Pass({ family: 'ipv4', clock, log, metrics, events, stages })
    await clock.advance(1)
    stages.beginCompile()
    await clock.advance(2)
    stages.endCompile()
    // The kernel works for 12 ms, while 5 ms go into the next plan.
    const asked = stages.inKernel(
      async () => await new Promise<string>((resolve) => clock.schedule(12, () => resolve('an answer'))),
    )
    await clock.advance(3)
    const planned = stages.plan(() => {
      clock.skip(5)
      return 'a plan'
    })
    await clock.advance(4)
    assert.deepEqual([planned, await asked], ['a plan', 'an answer'])
    await clock.advance(6)
    const record = pass.end({ hasRefusals: false, fields: {} })
    assert.equal(record.durationMs, 21)
    assert.deepEqual(record.stages, { waitingMs: 4, compileMs: 2, planMs: 12, kernelMs: 7 })
  })

  it('begins its stages at 0, also after a pass that did not end', async () => {
    const { clock, log, metrics } = opened()
    const stages = new StageTimes(clock)
    const options = { family: 'ipv4', clock, log, metrics, stages } as const
    new Pass(options).stages.beginCompile()
    await clock.advance(3)
    const pass = new Pass(options)
    await clock.advance(2)
    assert.deepEqual(pass.end({ hasRefusals: false, fields: {} }).stages, {
      compileMs: 0,
      planMs: 2,
      kernelMs: 0,
    })
  })

  it('is kept in the history of the last 64', () => {
    const history = new PassHistory()
    for (let index = 0; index < 100; index++) {
      const { pass } = opened()
      pass.note(`${index}`)
      history.add(pass.end({ hasRefusals: false, fields: {} }))
    }
    const names = history.records.map(({ failures }) => failures[0])
    assert.deepEqual([names.length, names.at(0), names.at(-1)], [64, '36', '99'])
  })
})

function asking() {
  const { clock, log, metrics, registry } = opened()
  const problems = openProblems({ log })
  const questions = new KernelQuestions({ family: 'ipv4', metrics, problems })
  return { clock, log, registry, questions }
}

describe('a question to the kernel', () => {
  it('resolves with a refusal, which is counted and reported until the kernel answers', async () => {
    const { log, registry, questions } = asking()
    const question = { key: 'lamps', subject: 'lamps', fields: { table: 'x' } }
    const refused = await questions.ask(question, async () => await Promise.reject(refusal('a')))
    assert.ok(refused instanceof KernelError)
    assert.equal(await value(registry, 'viaduct_kernel_errors_total', 'EBUSY'), '1')
    assert.equal(await questions.ask(question, async () => await Promise.resolve(5)), 5)
    assert.deepEqual(
      log.lines.map(({ level, message, fields }) => [level, message, fields]),
      [
        [
          'error',
          'Network programming failed: IPv4 lamps: ipvs: add a: EBUSY',
          { ipFamily: 'IPv4', table: 'x', code: 'EBUSY' },
        ],
        ['info', 'Network programming recovered', { ipFamily: 'IPv4', table: 'x', code: 'EBUSY' }],
      ],
    )
  })

  it('fails and settles its retry', async () => {
    const { clock, questions } = asking()
    const retries = new RetryQueue<string>(clock)
    const question = { key: 'lamps', retry: retries.of('lamp') }
    await questions.ask(question, async () => await Promise.reject(refusal('a')))
    assert.equal(retries.has('lamp'), true)
    await questions.ask(question, async () => await Promise.resolve())
    assert.equal(retries.has('lamp'), false)
  })

  it('rejects with any other error', async () => {
    const { questions } = asking()
    const bug = new Error('a bug')
    await assert.rejects(
      questions.ask({ key: 'lamps' }, async () => await Promise.reject(bug)),
      bug,
    )
  })
})

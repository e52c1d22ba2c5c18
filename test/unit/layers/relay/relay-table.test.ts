import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { KernelError } from '../../../../src/errors.js'
import { type BatchOutcome, describeRelayOp, type RelayOp } from '../../../../src/kernel/index.js'
import { StateReporter } from '../../../../src/log.js'
import { openMetrics } from '../../../../src/metrics/index.js'
import { servicePortKey } from '../../../../src/model/testing.js'
import { compileRoute, RelayTable } from '../../../../src/layers/relay/index.js'
import { ManualClock } from '../../../support/manual-clock.js'
import { MemoryLog } from '../../../support/pipeline-lab.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

/** A relay with descriptors for two listeners, or another limit. */
class SmallRelay {
  readonly open = new Set<string>()
  errno: number = constants.errno.EMFILE
  limit = 2

  async apply(ops: readonly RelayOp[]): Promise<BatchOutcome> {
    const failures = [...ops.entries()]
      .filter(([, op]) => !this.#take(op))
      .map(([index]) => ({
        index,
        unknown: false,
        error: new KernelError({ errno: this.errno, subsystem: 'relay', operation: 'open' }),
      }))
    return { applied: ops.length - failures.length, failures }
  }

  #take(op: RelayOp): boolean {
    const name = describeRelayOp(op)
    if (op.op === 'remove-listener') this.open.delete(name)
    if (op.op !== 'set-listener') return true
    if (this.open.size < this.limit) this.open.add(name)
    return this.open.has(name)
  }
}

/** A table with its relay. Each Service has one listener. */
class Lab {
  readonly relay = new SmallRelay()
  readonly clock = new ManualClock()
  readonly #numbers = new Map<string, number>()
  readonly #table: RelayTable

  constructor(firstFreePort?: number) {
    let id = 0
    this.#table = new RelayTable({
      family: 'ipv4',
      relay: this.relay,
      firstFreePort,
      nextId: () => ++id,
      clock: this.clock,
      metrics: openMetrics(new Registry()).ipv4,
      problems: new StateReporter({
        log: new MemoryLog(),
        level: 'error',
        problemLine: 'Object cannot be programmed',
        recovery: 'Object can be programmed',
        clock: this.clock,
      }),
    })
  }

  claim(service: string, createdSeconds?: number): void {
    const number = this.#numbers.get(service) ?? this.#numbers.size + 1
    this.#numbers.set(service, number)
    const clusterIP = ip(`10.96.0.${number}`)
    const decided = plainRoute({
      service,
      clusterIP,
      createdSeconds,
      clusterBackends: backends(8080, '10.1.0.1'),
    })
    this.#table.claim(
      decided.key,
      service,
      compileRoute(decided, { nodePortAddresses: [], servesAllAddresses: false, nodeIP: undefined }),
    )
  }

  remove(service: string): void {
    this.#table.claim(servicePortKey(service, '/TCP'), service, undefined)
  }

  async write(): Promise<void> {
    await this.#table.write({ count: () => {}, fail: () => {} }, async () => {})
  }

  get lacksRight(): boolean {
    return this.#table.lacksRight
  }

  /** The Services with an open listener, by name. */
  get served(): readonly string[] {
    return [...this.#numbers]
      .filter(([, number]) => this.relay.open.has(`tcp 10.96.0.${number}:80`))
      .map(([service]) => service)
      .toSorted()
  }
}

describe('listeners at the limit of file descriptors (issue 22)', () => {
  const cases: readonly {
    readonly name: string
    readonly arrivals: readonly (readonly [service: string, createdSeconds?: number])[]
    readonly served: readonly string[]
  }[] = [
    {
      name: 'open in the order of the creation of their Services',
      arrivals: [
        ['a/a', 30],
        ['b/b', 10],
        ['c/c', 20],
      ],
      served: ['b/b', 'c/c'],
    },
    {
      name: 'of Services without a time open in the order of arrival, after the others',
      arrivals: [['c/c'], ['a/a'], ['b/b', 10]],
      served: ['b/b', 'c/c'],
    },
    {
      name: "of the API server and the cluster's DNS open first",
      arrivals: [
        ['a/a', 10],
        ['b/b', 20],
        ['default/kubernetes', 30],
      ],
      served: ['a/a', 'default/kubernetes'],
    },
  ]
  for (const { name, arrivals, served } of cases)
    it(name, async () => {
      const lab = new Lab()
      for (const [service, createdSeconds] of arrivals) lab.claim(service, createdSeconds)
      await lab.write()
      assert.deepEqual(lab.served, served)
    })

  it('leave their descriptor to the oldest one that waits, at once', async () => {
    const lab = new Lab()
    lab.claim('a/a', 10)
    lab.claim('b/b', 20)
    lab.claim('d/d', 40)
    await lab.write()
    // Its first attempt comes later than that of d/d.
    await lab.clock.advance(500)
    lab.claim('c/c', 30)
    await lab.write()
    assert.deepEqual(lab.served, ['a/a', 'b/b'])
    lab.remove('a/a')
    await lab.write()
    assert.deepEqual(lab.served, ['b/b', 'c/c'])
    lab.remove('b/b')
    await lab.write()
    assert.deepEqual(lab.served, ['c/c', 'd/d'])
    lab.remove('c/c')
    lab.remove('d/d')
    await lab.write()
    assert.deepEqual(lab.served, [])
  })
})

describe('listeners that are refused with EACCES', () => {
  const cases = [
    { name: 'lack the right that the process does not have', firstFreePort: 1024, lacksRight: true },
    { name: 'on a port that needs no right lack none', firstFreePort: 80, lacksRight: false },
    { name: 'of a process with the right lack none', firstFreePort: undefined, lacksRight: false },
  ]
  for (const { name, firstFreePort, lacksRight } of cases)
    it(name, async () => {
      const lab = new Lab(firstFreePort)
      lab.relay.errno = constants.errno.EACCES
      lab.relay.limit = 0
      lab.claim('a/a')
      await lab.write()
      assert.equal(lab.lacksRight, lacksRight)
      lab.remove('a/a')
      await lab.write()
      assert.equal(lab.lacksRight, false)
    })
})

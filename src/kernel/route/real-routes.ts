import type { IpFamily } from '../../address.js'
import type { Addon, RawRouteSocket } from '../addon.js'
import { nameFailures, type RecordFailure, decodeFailures, type BatchOutcome } from '../batch.js'
import {
  describeRouteOp,
  familyOfRouteOp,
  type PolicyRule,
  type RouteChoice,
  type RouteOp,
  type RouteQuestion,
  type Routes,
  type Link,
  type Links,
  type LinkWatch,
} from './routes.js'
import { addressFamily } from '../records.js'
import { type CallCounts, RequestQueue } from '../request-queue.js'
import { EventWatch, Watches } from '../watches.js'
import { decodeChoices, decodeRules, decodeEvents, decodeLinks } from './cursors.js'
import { encodeQuestions, encodeRouteRun, type RouteRun } from './encode.js'

/** The runs of a batch, in order: consecutive operations on one kind of object go to the kernel in one call. */
function splitIntoRuns(ops: readonly RouteOp[]): readonly RouteRun[] {
  const runs: RouteRun[] = []
  let start = 0
  for (let end = 1; end <= ops.length; end++) {
    const first = ops[start]
    const next = ops[end]
    if (first === undefined || (next !== undefined && 'route' in next === 'route' in first)) continue
    runs.push({ kind: 'route' in first ? 'routes' : 'addresses', start, ops: ops.slice(start, end) })
    start = end
  }
  return runs
}

/** The local table, the interface addresses and the policy routing rules of the running kernel. */
export class RealRoutes implements Routes {
  readonly #queue: RequestQueue<RawRouteSocket>

  constructor(addon: () => Addon, calls: CallCounts) {
    this.#queue = new RequestQueue(() => new (addon().RouteSocket)(), 'route', calls)
  }

  async apply(ops: readonly RouteOp[]): Promise<BatchOutcome> {
    const runs = splitIntoRuns(ops)
    const failures = runs.length === 0 ? [] : await this.#queue.run((socket) => applyRuns(socket, runs))
    return nameFailures(ops, failures, {
      subsystem: 'route',
      describe: describeRouteOp,
      familyOf: familyOfRouteOp,
    })
  }

  async lookUp(questions: readonly RouteQuestion[]): Promise<readonly RouteChoice[]> {
    const queries = encodeQuestions(questions)
    return decodeChoices(await this.#queue.run((socket) => socket.lookUp(queries)), questions)
  }

  dumpLocalRoutes(family: IpFamily): Promise<Uint8Array> {
    return this.#queue.run((socket) => socket.dumpLocalRoutes(addressFamily[family]), { family })
  }

  dumpNextHops(family: IpFamily): Promise<Uint8Array> {
    return this.#queue.run((socket) => socket.dumpNextHops(addressFamily[family]), { family })
  }

  dumpAddresses(family: IpFamily, interfaceIndex = 0): Promise<Uint8Array> {
    return this.#queue.run((socket) => socket.dumpAddresses(addressFamily[family], interfaceIndex), {
      family,
      ...(interfaceIndex === 0 ? {} : { object: `interface ${interfaceIndex}` }),
    })
  }

  /** The policy routing rules of a family, of any program, in the order of their priorities. Throws KernelError. */
  async policyRules(family: IpFamily): Promise<readonly PolicyRule[]> {
    const records = await this.#queue.run((socket) => socket.dumpRules(addressFamily[family]), { family })
    return decodeRules(records)
  }

  close(): Promise<void> {
    return this.#queue.close()
  }
}

async function applyRuns(
  socket: RawRouteSocket,
  runs: readonly RouteRun[],
): Promise<readonly RecordFailure[]> {
  const failures: RecordFailure[] = []
  for (const run of runs) {
    const records = encodeRouteRun(run)
    // In order: a route's preferred source may be an address of the run before it.
    const outcome = await (run.kind === 'routes'
      ? socket.applyRoutes(records)
      : socket.applyAddresses(records))
    for (const failure of decodeFailures(outcome))
      failures.push({ ...failure, index: run.start + failure.index })
  }
  return failures
}

/** The network interfaces of the running kernel. */
export class RealLinks implements Links {
  readonly #addon: () => Addon
  readonly #queue: RequestQueue<RawRouteSocket>
  readonly #watches = new Watches('route')

  constructor(addon: () => Addon, calls: CallCounts) {
    this.#addon = addon
    this.#queue = new RequestQueue(() => new (addon().RouteSocket)(), 'route', calls)
  }

  async list(): Promise<readonly Link[]> {
    return decodeLinks(await this.#queue.run((socket) => socket.dumpLinks()))
  }

  async find(name: string): Promise<Link | undefined> {
    return (await this.list()).find((link) => link.name === name)
  }

  async addDummy(name: string): Promise<Link> {
    const index = await this.#queue.run((socket) => socket.addDummy(name), { object: name })
    return { name, index, kind: 'dummy', isUp: false }
  }

  setUp(index: number): Promise<void> {
    return this.#queue.run((socket) => socket.setUp(index), { object: `interface ${index}` })
  }

  remove(index: number): Promise<void> {
    return this.#queue.run((socket) => socket.removeLink(index), { object: `interface ${index}` })
  }

  watch(): LinkWatch {
    return new EventWatch(
      this.#watches.open(() => new (this.#addon().RouteEvents)()),
      decodeEvents,
    )
  }

  async close(): Promise<void> {
    await this.#watches.close()
    await this.#queue.close()
  }
}

// All of ipvs mode in one process, on a kernel with IP_VS: virtual servers, real servers, sets, routes and rules of SERVICES Services with
// REALS endpoints each, a tenth of them with a node port. Prints one JSON line. The benchmark bundles and compiles it like the agent, so
// that its process starts in the same way:
//
//   node --expose-gc out/bench/ipvs-whole/agent.js -- SERVICES REALS
import { setTimeout as sleep } from 'node:timers/promises'
import type { Kernel } from '../src/kernel/index.js'
import { openKernel } from '../src/kernel/index.js'
import type { ObjectEvent } from '../src/source/index.js'
import type { Pipeline } from '../src/engine/testing.js'
import { systemClock } from '../src/clock.js'
import { noNodeChange } from '../src/node/index.js'
import { prepareV8 } from '../src/process/index.js'
import { port } from '../test/support/objects.js'
import { CountedKernel, median, openPipeline, type OpenPipeline, seconds } from './pipeline.js'
import { firstNodePort, nodePortServices, realServer, realServersOf, service, slice } from './state.js'

const changes = 100
const churnPerSecond = 100
const churnSeconds = 60

function world(services: number, reals: number): ObjectEvent[] {
  const events: ObjectEvent[] = []
  for (let i = 0; i < services; i++) {
    const plain = service(i)
    const object =
      i < nodePortServices(services)
        ? { ...plain, type: 'NodePort' as const, ports: [port(80, { nodePort: firstNodePort + i })] }
        : plain
    events.push({ type: 'set', object })
    events.push({ type: 'set', object: slice(i, realServersOf(i, reals)) })
  }
  return [...events, { type: 'synced' }]
}

/** Reads all that a reconcile reads, and drops it. */
async function readAll(kernel: Kernel): Promise<void> {
  await kernel.ipvs.dump('ipv4')
  await kernel.routes.dumpLocalRoutes('ipv4')
  for (const { name } of await kernel.ipset.sets()) await kernel.ipset.entries(name)
  for (const table of ['mangle', 'filter', 'nat'] as const) await kernel.xtables('ipv4', table).compare()
}

/** Replaces an endpoint of Service 7. */
class Changer {
  readonly #deliver: OpenPipeline['deliver']
  readonly #addresses: string[]
  #count = 0

  constructor({ deliver }: OpenPipeline, reals: number) {
    this.#deliver = deliver
    this.#addresses = realServersOf(7, reals)
  }

  change(): void {
    this.#addresses[0] = realServer(0x400000 + this.#count++)
    this.#deliver([{ type: 'set', object: slice(7, this.#addresses) }])
  }
}

/** Makes changes at a steady rate. Late changes share a sync, as in an agent. Returns CPU seconds of all threads per change. */
async function churn(pipeline: Pipeline, changer: Changer): Promise<number> {
  const before = process.cpuUsage()
  const start = performance.now()
  const all = churnPerSecond * churnSeconds
  for (let made = 0; made < all;) {
    const due = Math.min(all, Math.floor(((performance.now() - start) / 1000) * churnPerSecond))
    if (made === due) await sleep(1000 / churnPerSecond)
    while (made < due) {
      changer.change()
      made++
    }
    await pipeline.runOnce()
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1e6 / all
}

async function run(services: number, reals: number): Promise<Record<string, number>> {
  const kernel = openKernel({ addonPath: undefined })
  await kernel.ipvs.info()
  const counted = new CountedKernel(kernel)
  const events = world(services, reals)
  globalThis.gc?.()
  const opened = await openPipeline(counted.kernel, 'routes')
  const { pipeline } = opened
  const intake = await seconds(async () => opened.deliver(events))
  const sync = await seconds(async () => await pipeline.runOnce())
  const wholeMessages = counted.messages
  const reads: number[] = []
  const reconciles: number[] = []
  for (let i = 0; i < 5; i++) {
    reads.push(await seconds(async () => await readAll(kernel)))
    pipeline.applyNode({ ...noNodeChange, vipBinding: true })
    reconciles.push(await seconds(async () => await pipeline.runOnce()))
  }
  const reconcileMessages = counted.messages - wholeMessages
  const changer = new Changer(opened, reals)
  const times: number[] = []
  let changeMessages = 0
  for (let i = 0; i < changes; i++) {
    const before = counted.messages
    changer.change()
    times.push(await seconds(async () => await pipeline.runOnce()))
    changeMessages = Math.max(changeMessages, counted.messages - before)
  }
  const churnCpu = await churn(pipeline, changer)
  await kernel.close()
  return {
    intake,
    sync,
    wholeMessages,
    read: median(reads),
    reconcile: median(reconciles),
    reconcileMessages,
    change: median(times),
    changeMessages,
    churnCpu,
  }
}

// Like the agent.
prepareV8(systemClock)
const [services, reals] = process.argv.slice(3).map(Number)
void run(services ?? 0, reals ?? 0).then((figures) => process.stdout.write(`${JSON.stringify(figures)}\n`))

// One run of Viaduct in its own network namespace. Prints one JSON line.
//
//   node viaduct.js ledger N M           desired virtual servers → ledger, encoder, addon → last acknowledgement; then read
//                                        back, adopt in a fresh pipeline, reconcile without a change, change one endpoint
//   node viaduct.js warm N M             only the apply, in a process that has applied other services before
//   node viaduct.js pipeline N M BINDING Kubernetes objects → whole pipeline with VIPs bound by routes or addresses
import { type Kernel, openKernel } from '../src/kernel/index.js'
import type { VipBinding } from '../src/config/index.js'
import { IpvsLedger } from '../src/layers/ipvs/testing.js'
import { VipTable } from '../src/layers/vips/index.js'
import { trackFamily } from '../test/support/tracked-family.js'
import { compileRoute, type IpvsModeSettings } from '../src/modes/ipvs/testing.js'
import { route } from '../src/routing/index.js'
import type { ObjectEvent } from '../src/source/index.js'
import { inOverlappingCuts } from '../src/layers/objects/index.js'
import { systemClock } from '../src/clock.js'
import { noNodeChange } from '../src/node/index.js'
import { prepareV8 } from '../src/process/index.js'
import { CountedKernel, median, node, openPipeline, type OpenPipeline, seconds } from './pipeline.js'
import { realServer, realServersOf, service, slice } from './state.js'

const changes = 100
const mode: IpvsModeSettings = {
  scheduler: 'rr',
  schedulerFlags: [],
  missing: new Set(),
  nodePortAddresses: [],
  nodeAddresses: new Set(),
  nodeIP: undefined,
  markMask: 0x107f,
  masqueradeMark: 0x4000,
}

function objectEvents(services: number, reals: number, first = 0): ObjectEvent[] {
  const events: ObjectEvent[] = []
  for (let i = first; i < first + services; i++) {
    events.push({ type: 'set', object: service(i) })
    events.push({ type: 'set', object: slice(i, realServersOf(i, reals)) })
  }
  return events
}

/** Applies virtual servers and real servers through the ledger, without VIPs, as ipvsadm -R and the C loop do. */
async function applyByLedger(
  kernel: Kernel,
  events: readonly ObjectEvent[],
): Promise<{ readonly apply: number; readonly claim: number }> {
  const tracker = trackFamily('ipv4')
  for (const event of events) tracker.apply(event)
  const wanted = [...tracker.take()].flatMap((key) => {
    const port = tracker.servicePort(key)
    if (port === undefined) return []
    const decided = route(port, tracker.endpoints(port), node.facts)
    return [{ key, decided, desired: compileRoute(decided, mode, undefined) }]
  })
  const ledger = new IpvsLedger(
    new VipTable({ binding: 'routes' }),
    () => false,
    () => false,
  )
  let claim = 0
  // Collects the garbage of the creation of desired objects, which does not belong to the apply and is slow in an emulated machine.
  globalThis.gc?.()
  const start = process.hrtime.bigint()
  const apply = await seconds(async () => {
    for (const { key, decided, desired } of wanted) ledger.claim(key, decided.service, desired)
    claim = Number(process.hrtime.bigint() - start) / 1e9
    await inOverlappingCuts(ledger.takeDirty(), {
      plan: (entries) => ledger.planUpserts(entries),
      send: async ({ batch }) => await kernel.ipvs.apply(batch.ops),
      enter: async ({ batch }, answer) => {
        const outcome = await answer
        if (outcome.failures.length > 0) throw outcome.failures[0]?.error ?? new Error('refused')
        ledger.confirm(batch, outcome)
      },
      isStopping: () => false,
    })
  })
  return { apply, claim }
}

/** Median time and largest number of messages of repeated changes of one endpoint of Service 7. */
async function changeEndpoint(
  { pipeline, deliver }: OpenPipeline,
  counted: CountedKernel,
  addresses: string[],
): Promise<{ readonly seconds: number; readonly messages: number }> {
  const times: number[] = []
  let messages = 0
  for (let i = 0; i < changes; i++) {
    addresses[0] = realServer(0x400000 + i)
    const before = counted.messages
    times.push(
      await seconds(async () => {
        deliver([{ type: 'set', object: slice(7, addresses) }])
        await pipeline.runOnce()
      }),
    )
    messages = Math.max(messages, counted.messages - before)
  }
  return { seconds: median(times), messages }
}

async function runLedger(services: number, reals: number): Promise<Record<string, number>> {
  const kernel = openKernel({ addonPath: undefined })
  await kernel.ipvs.info()
  const events = objectEvents(services, reals)
  const applied = await applyByLedger(kernel, events)
  const reads: number[] = []
  for (let i = 0; i < 5; i++) reads.push(await seconds(async () => await kernel.ipvs.dump('ipv4')))

  const counted = new CountedKernel(kernel)
  const opened = await openPipeline(counted.kernel, 'routes')
  const { pipeline } = opened
  opened.deliver([...events, { type: 'synced' }])
  await pipeline.runOnce()
  const before = counted.messages
  const reconciles: number[] = []
  for (let i = 0; i < 5; i++) {
    pipeline.applyNode({ ...noNodeChange, vipBinding: true })
    reconciles.push(await seconds(async () => await pipeline.runOnce()))
  }
  const reconcileMessages = counted.messages - before
  const change = await changeEndpoint(opened, counted, realServersOf(7, reals))
  await kernel.close()
  return {
    ...applied,
    read: median(reads),
    reconcile: median(reconciles),
    reconcileMessages,
    change: change.seconds,
    changeMessages: change.messages,
  }
}

/** The same apply in a process that has compiled its code on other services, which stay in the table. */
async function runWarm(services: number, reals: number): Promise<Record<string, number>> {
  const kernel = openKernel({ addonPath: undefined })
  const warmUps = 4
  const perWarmUp = 1000
  for (let i = 0; i < warmUps; i++) {
    await applyByLedger(kernel, objectEvents(perWarmUp, reals, services + i * perWarmUp))
  }
  const applied = await applyByLedger(kernel, objectEvents(services, reals))
  await kernel.close()
  return applied
}

async function runPipeline(
  services: number,
  reals: number,
  binding: VipBinding,
): Promise<Record<string, number>> {
  const kernel = openKernel({ addonPath: undefined })
  await kernel.ipvs.info()
  const counted = new CountedKernel(kernel)
  const events = objectEvents(services, reals)
  const { pipeline, deliver } = await openPipeline(counted.kernel, binding)
  const whole = await seconds(async () => {
    deliver([...events, { type: 'synced' }])
    await pipeline.runOnce()
  })
  await kernel.close()
  return { whole, messages: counted.messages }
}

// Like the agent.
prepareV8(systemClock)
const [what, services, reals, binding] = process.argv.slice(2)
const size = [Number(services), Number(reals)] as const
const result =
  what === 'ledger'
    ? await runLedger(...size)
    : what === 'warm'
      ? await runWarm(...size)
      : await runPipeline(...size, binding === 'addresses' ? 'addresses' : 'routes')
process.stdout.write(`${JSON.stringify(result)}\n`)

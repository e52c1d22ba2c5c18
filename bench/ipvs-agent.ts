// The shipped agent in ipvs mode on a kernel with IP_VS: its first start after the boot, in which the kernel loads modules, and a second
// start; changes of one endpoint; CPU time at rest. Prints one JSON line.
//   node ipvs-agent.js SERVICES REALS
// Times are from the agent's log, in milliseconds, because an observer in an emulated guest would be slower.
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Namespace } from '../test/support/namespaces.js'
import { AgentRun } from './stage/agent-run.js'
import { median } from './stage/figures.js'
import { Manifests } from './stage/manifests.js'

const changes = 20
const betweenChangesMs = 1000
/** Time after a start in which its remaining work and its garbage collection end. */
const restMs = 10_000
/**
 * Time until the agent is idle. The first reconcile after a change, within 30 s, compares all objects. V8, which returned memory at the
 * end of the start, collects the whole heap up to two times more, 100 s apart.
 */
const settleMs = 240_000
const idleMs = 60_000

const SyncDone = Type.Object({
  msg: Type.Literal('Sync done'),
  ipFamily: Type.Literal('IPv4'),
  complete: Type.Literal(true),
  ts: Type.Number(),
})

/** Time of the end of the first IPv4 pass at or after line `from` of the log, in Unix milliseconds. */
async function synced(agent: AgentRun, from: number): Promise<number> {
  const line = await agent.line((text) => Value.Check(SyncDone, JSON.parse(text)), from)
  return Value.Parse(SyncDone, JSON.parse(line)).ts
}

interface Start {
  readonly place: Namespace
  readonly agent: AgentRun
  readonly coldMs: number
}

/** Starts an agent in its own namespace. */
async function start(manifests: Manifests): Promise<Start> {
  const place = await Namespace.create('bench')
  const startMs = Date.now()
  const agent = new AgentRun(place, ['--manifests', manifests.folder], { mode: 'ipvs', flags: ['-v', '2'] })
  return { place, agent, coldMs: (await synced(agent, 0)) - startMs }
}

async function stop({ agent, place }: Start): Promise<void> {
  await agent.stop()
  await place.close()
}

async function run(manifests: Manifests): Promise<Record<string, number>> {
  const first = await start(manifests)
  await stop(first)
  const second = await start(manifests)
  const { agent, coldMs } = second
  const coldCpuSeconds = agent.cpuSeconds()
  await sleep(restMs)
  const times: number[] = []
  for (let i = 0; i < changes; i++) {
    const from = agent.log.length
    manifests.change('replace')
    // The file is complete here, so the time does not include its write.
    const changedMs = Date.now()
    times.push((await synced(agent, from)) - changedMs)
    await sleep(betweenChangesMs)
  }
  await sleep(settleMs)
  const cpuBefore = agent.cpuSeconds()
  await sleep(idleMs)
  const idleCpuSeconds = ((agent.cpuSeconds() - cpuBefore) * 60_000) / idleMs
  const { restMiB } = agent.memory()
  await stop(second)
  return {
    coldAfterBootMs: first.coldMs,
    coldMs,
    coldCpuSeconds,
    changeMs: median(times),
    changeMaxMs: Math.max(...times),
    idleCpuSeconds,
    restMiB,
  }
}

const [services, reals] = process.argv.slice(2).map(Number)
const manifests = new Manifests({ services: services ?? 0, reals: reals ?? 0 })
try {
  process.stdout.write(`${JSON.stringify(await run(manifests))}\n`)
} finally {
  manifests.remove()
}

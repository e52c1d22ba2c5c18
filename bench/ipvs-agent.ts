// The shipped agent in ipvs mode on a kernel with IP_VS: its start, changes of one endpoint, and rest. Prints one JSON line.
//   node ipvs-agent.js SERVICES REALS
// Times are those of the agent's own log, which has milliseconds: what watches it in an emulated guest would be slower.
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Namespace } from '../test/support/namespaces.js'
import { AgentRun } from './iptables/agent-run.js'
import { median } from './iptables/figures.js'
import { Manifests } from './iptables/manifests.js'

const changes = 10
const betweenChangesMs = 1000
/** What follows a start, garbage collected, is over. */
const restMs = 10_000
/**
 * The first reconcile behind a change, within 30 s, compares everything; those that find the kernel as the last one left it are
 * what an idle machine does.
 */
const settleMs = 40_000
const idleMs = 60_000

const SyncDone = Type.Object({
  msg: Type.Literal('Sync done'),
  ipFamily: Type.Literal('IPv4'),
  complete: Type.Literal(true),
  ts: Type.Number(),
})

/** Milliseconds since 1970 of the first pass of IPv4 that ended, at or behind the line `from` of the log. */
async function synced(agent: AgentRun, from: number): Promise<number> {
  const line = await agent.line((text) => Value.Check(SyncDone, JSON.parse(text)), from)
  return Value.Parse(SyncDone, JSON.parse(line)).ts
}

async function run(place: Namespace, manifests: Manifests): Promise<Record<string, number>> {
  const startMs = Date.now()
  const agent = new AgentRun(place, manifests.folder, { mode: 'ipvs', flags: ['-v', '2'] })
  const coldMs = (await synced(agent, 0)) - startMs
  const coldCpuSeconds = agent.cpuSeconds()
  await sleep(restMs)
  const times: number[] = []
  for (let i = 0; i < changes; i++) {
    const from = agent.log.length
    const changedMs = Date.now()
    manifests.change('replace')
    times.push((await synced(agent, from)) - changedMs)
    await sleep(betweenChangesMs)
  }
  await sleep(settleMs)
  const cpuBefore = agent.cpuSeconds()
  await sleep(idleMs)
  const idleCpuSeconds = ((agent.cpuSeconds() - cpuBefore) * 60_000) / idleMs
  const { restMiB } = agent.memory()
  await agent.stop()
  return {
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
  const place = await Namespace.create('bench')
  process.stdout.write(`${JSON.stringify(await run(place, manifests))}\n`)
  await place.close()
} finally {
  manifests.remove()
}

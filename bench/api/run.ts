// Measures one part of the API source on this machine. Prints the figures as one JSON line:
//   node run.js PART CONNECT_BINARY FOLLOWER MINUTES|FLOOR_BINARY
// FOLLOWER is the bundle of bench/api/follow.ts. The part `guest` takes FLOOR_BINARY, the part `memory` takes MINUTES. All files are under
// TMPDIR.
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { ProxyMode } from '../../src/config/index.js'
import type { Namespace } from '../../test/support/namespaces.js'
import { median, millisecondsBetween, spread } from '../stage/figures.js'
import { openPlace, withPlace } from '../stage/place.js'
import { fleetFigures } from './fleet.js'
import { outageFigures } from './outages.js'
import { KubeProxyRun } from './peer.js'
import { scrape } from './scrape.js'
import { ApiProcess, Follower } from './setting.js'
import { changeMs, coldMs, onApiStage, type Run, startAgent, type StartRun } from './stage.js'

const [part = '', connect = '', follower = '', last = ''] = process.argv.slice(2)
const whole = { services: 10_000, reals: 10 }
const few = { services: 100, reals: 1 }
const starts = 5
const restMs = 3000
/** A result line of bench/floor/floor.c. */
const Floor = Type.Object({ seconds: Type.Number(), messages: Type.Number() })

async function listFigures(): Promise<unknown> {
  const api = await ApiProcess.start(whole)
  const [listedMs, cpuMs, rssMiB]: [number[], number[], number[]] = [[], [], []]
  for (let i = 0; i < starts; i++) {
    const program = new Follower(api, follower)
    const { atNs = '0', ...listed } = await program.at('listed')
    await program.at('rested')
    await sleep(restMs)
    listedMs.push(millisecondsBetween(program.startNs, BigInt(atNs)))
    cpuMs.push(listed.cpuMs)
    rssMiB.push((await program.now()).rssMiB ?? Number.NaN)
    await program.stop()
  }
  const watched = new Follower(api, follower, 'gaps')
  const { gapMs, gapWallMs } = await watched.at('listed')
  await watched.stop()
  await api.stop()
  const [ms, cpu, rss] = [listedMs, cpuMs, rssMiB].map(median)
  return { ms, maxMs: Math.max(...listedMs), cpuMs: cpu, rssMiB: rss, gapMs, gapWallMs }
}

/** Microseconds of CPU per event, with compiled code. */
async function eventFigures(): Promise<unknown> {
  const api = await ApiProcess.start(whole)
  const costs: Record<string, number> = {}
  for (const [name, program] of [
    ['follower', follower],
    ['bare', 'bare'],
  ] as const) {
    const client = new Follower(api, program)
    if (name === 'follower') await client.at('rested')
    await sleep(restMs)
    for (const [rate, perSecond] of [
      ['Steady', 1000],
      ['Burst', 20_000],
    ] as const) {
      await api.churn(20_000, perSecond)
      await sleep(restMs)
      const before = await client.now()
      await api.churn(20_000, perSecond)
      await sleep(restMs)
      const after = await client.now()
      costs[`${name}${rate}`] = ((after.cpuMs - before.cpuMs) * 1000) / 20_000
    }
    await client.stop()
  }
  await api.stop()
  return costs
}

/** Resident memory while 100 slices change per second. */
async function memoryFigures(): Promise<unknown> {
  const api = await ApiProcess.start(whole)
  const program = new Follower(api, follower)
  await program.at('rested')
  await sleep(restMs)
  const resident: number[] = [(await program.now()).rssMiB ?? Number.NaN]
  for (let minute = 0; minute < Number(last); minute++) {
    await api.churn(6000, 100)
    resident.push((await program.now()).rssMiB ?? Number.NaN)
  }
  await program.stop()
  await api.stop()
  return { minutes: Number(last), resident }
}

/** The shipped agent in iptables mode with an empty cluster: time from its start until its rules are in the kernel. */
async function emptyFigures(): Promise<unknown> {
  const times: number[] = []
  for (let i = 0; i < starts; i++) {
    const place = await openPlace()
    const api = await ApiProcess.start({ services: 0, reals: 1 }, place)
    const agent = startAgent(place, api)
    await agent.inForce()
    times.push(millisecondsBetween(agent.startNs, process.hrtime.bigint()))
    await agent.stop()
    await api.stop()
    await place.close()
  }
  return { ms: median(times), maxMs: Math.max(...times) }
}

/** Times from sending an event to the first connection that the new endpoint answers, with 100 Services. */
async function latencyFigures(mode: ProxyMode, tickUs: number): Promise<Record<string, number>> {
  const setting = { connect, size: few, tickUs }
  return await onApiStage(
    setting,
    (place, api) => startAgent(place, api, { mode }),
    async (stage) => {
      await stage.run.inForce()
      await sleep(restMs)
      const before = await eventsToKernel(stage.place)
      const times: number[] = []
      for (let i = 0; i < 300; i++) {
        times.push(await changeMs(stage, 'change'))
        await sleep(50 + 50 * Math.random())
      }
      const after = await eventsToKernel(stage.place)
      const kernelMs = ((after.seconds - before.seconds) * 1000) / (after.count - before.count)
      return { ...spread(times), kernelMs }
    },
  )
}

/** Milliseconds between two changes. After the short rest the agent still keeps the memory pages of large tables. */
const rests = { short: 600, long: 5000 } as const
const changesPerRest = 10
/** Starts of Viaduct and of kube-proxy. */
const peerRounds = 5

/** The shipped agent in iptables mode at full size: its start, and changes of one endpoint. */
async function changeFigures(reals: number): Promise<unknown> {
  const setting = { connect, size: { ...whole, reals }, tickUs: reals === 1 ? 1000 : 5000 }
  return await onApiStage(setting, startAgent, async (stage) => {
    const agent = stage.run
    await agent.inForce()
    const startMs = millisecondsBetween(agent.startNs, process.hrtime.bigint())
    const startCpuMs = agent.cpuSeconds() * 1000
    await sleep(restMs)
    const change = async (rest: number): Promise<{ readonly ms: number; readonly cpuMs: number }> => {
      const before = agent.cpuSeconds()
      const ms = await changeMs(stage, 'change')
      await sleep(rest)
      return { ms, cpuMs: (agent.cpuSeconds() - before) * 1000 }
    }
    const figures: Record<string, unknown> = { startMs, startCpuMs }
    for (const [name, rest] of Object.entries(rests)) {
      const changes = []
      for (let i = 0; i < changesPerRest; i++) changes.push(await change(rest))
      const times = changes.map(({ ms }) => ms)
      const cpuMs = median(changes.map((figure) => figure.cpuMs))
      figures[name] = { medianMs: median(times), maxMs: Math.max(...times), cpuMs }
    }
    return figures
  })
}

/** Starts of kube-proxy and of Viaduct in turns: time until the first answer of the last Service. */
async function peerFigures(): Promise<unknown> {
  const { KUBE_PROXY: binary = '' } = process.env
  if (binary === '') throw new Error('KUBE_PROXY names no program: set it to the path of a kube-proxy')
  const programs: Readonly<Record<string, StartRun<Run>>> = {
    peer: (place, api) => new KubeProxyRun(place, api, { binary, mode: 'iptables' }),
    ours: startAgent,
  }
  const figures: Record<string, { ms: number[]; cpuMs: number[] }> = {}
  for (let round = 0; round < peerRounds; round++)
    for (const [name, start] of Object.entries(programs)) {
      const { ms, cpuMs } = await startFigures(start)
      const { ms: times, cpuMs: costs } = (figures[name] ??= { ms: [], cpuMs: [] })
      times.push(ms)
      costs.push(cpuMs)
    }
  return Object.fromEntries(
    Object.entries(figures).map(([name, { ms, cpuMs }]) => [name, { ms: median(ms), cpuMs: median(cpuMs) }]),
  )
}

async function startFigures(start: StartRun<Run>): Promise<{ readonly ms: number; readonly cpuMs: number }> {
  const size = { ...whole, reals: 1 }
  return await onApiStage({ connect, size, tickUs: 1000 }, start, async (stage) => {
    const ms = await coldMs(stage, size)
    // The CPU time of a tool that kube-proxy runs counts after the tool has ended.
    await sleep(1000)
    return { ms, cpuMs: stage.run.cpuSeconds() * 1000 }
  })
}

/** The agent's metric of its changes so far: time from the change of an object to the kernel's last acknowledgement. */
async function eventsToKernel(
  place: Namespace,
): Promise<{ readonly seconds: number; readonly count: number }> {
  const text = await scrape(place)
  const [seconds = Number.NaN, count = Number.NaN] = ['sum', 'count'].map((what) => {
    const line = new RegExp(`^viaduct_event_to_kernel_seconds_${what}\\{ip_family="IPv4"\\} (\\S+)$`, 'm')
    const [, value] = line.exec(text) ?? []
    if (value === undefined) throw new Error(`the agent has no viaduct_event_to_kernel_seconds_${what}`)
    return Number(value)
  })
  return { seconds, count }
}

/** Changes in the guest, and the cost of the same calls in a C program that waits for each acknowledgement. */
async function guestFigures(): Promise<unknown> {
  const figures = await latencyFigures('ipvs', 2000)
  // In its own namespace, so that no agent changes its virtual servers.
  const { seconds, messages } = await withPlace(async (place) => {
    const stdout = await place.must(last, 'add', '100', '10')
    return Value.Parse(Floor, JSON.parse(stdout))
  })
  return { ...figures, bareCallMs: (seconds * 1000) / messages }
}

const parts: Readonly<Record<string, () => Promise<unknown>>> = {
  list: listFigures,
  events: eventFigures,
  empty: emptyFigures,
  latency: () => latencyFigures('iptables', 500),
  changes: async () => ({ one: await changeFigures(1), ten: await changeFigures(10) }),
  outages: async () => ({
    short: await outageFigures(connect, 5, 5),
    long: await outageFigures(connect, 20, 4),
  }),
  'kube-proxy': peerFigures,
  fleet: async () => await fleetFigures(connect),
  guest: guestFigures,
  memory: memoryFigures,
}
const measure = parts[part]
if (measure === undefined) throw new Error(`no part ${part}, only ${Object.keys(parts).join(' ')}`)
process.stdout.write(`${JSON.stringify(await measure())}\n`)

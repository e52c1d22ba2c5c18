// Measures the time from desired objects to the kernel, in its own process and network namespace. Prints one JSON line.
//
//   node commit.js N M     first commit, one endpoint changed, the cheap look, the full comparison
import { setImmediate as nextTurn } from 'node:timers/promises'
import { openKernel, type Kernel, type XtOutcome } from '../../src/kernel/index.js'
import { IptablesLedger } from '../../src/layers/xtables/testing.js'
import { compileRoute, compileSkeleton, type IptablesModeSettings } from '../../src/modes/iptables/testing.js'
import type { Route } from '../../src/routing/index.js'
import { ClusterRoutes } from '../stage/cluster-routes.js'
import { realServer, realServersOf } from '../state.js'
import { median, medians, Stopwatch } from '../stage/figures.js'
import { gapsWithin, longestGap, nowMs, watchLoop } from '../stage/loop-watch.js'
import { isLargeCluster } from '../stage/manifests.js'

const changes = 21
const checks = 200
const compares = 5
/** Time after which the agent yields to the event loop. */
const sliceMs = 8

const [services = 0, reals = 0] = process.argv.slice(2).map(Number)
const settings: IptablesModeSettings = {
  family: 'ipv4',
  masqueradeMark: 0x4000,
  masqueradeAll: false,
  localDetector: undefined,
  nodePortAddresses: 'all',
  localhostNodePorts: true,
  dropsInvalid: true,
  nodeIP: undefined,
  withComments: !isLargeCluster({ services, reals }),
}

/** The agent's rooms between events and kernel, called in order. */
class Rooms {
  readonly cluster = new ClusterRoutes({ services, reals })
  readonly ledger = new IptablesLedger({ isBeside: false })
  readonly #kernel: Kernel
  /** Tables with operations that are not written yet. */
  readonly #pending = new Set<'filter' | 'nat'>()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  async commit(routes: readonly Route[]): Promise<Readonly<Record<string, number>>> {
    const watch = new Stopwatch()
    let staging: Promise<void> = Promise.resolve()
    let sliceStart = performance.now()
    for (const decided of routes) {
      this.ledger.claim(decided.key, compileRoute(decided, settings))
      if (performance.now() - sliceStart < sliceMs) continue
      watch.lap('compile, claim')
      await staging
      watch.lap('wait for stage')
      staging = this.#stage()
      watch.lap('encode')
      await nextTurn()
      sliceStart = performance.now()
      watch.lap('turn')
    }
    watch.lap('compile, claim')
    await staging
    watch.lap('wait for stage')
    for (const table of ['filter', 'nat'] as const) {
      const ops = this.ledger.take(table)
      watch.lap('take')
      if (ops.length === 0 && !this.#pending.delete(table)) continue
      const applied: Promise<XtOutcome> = this.#kernel.xtables('ipv4', table).apply(ops)
      watch.lap('encode')
      await applied
      watch.lap(`write ${table}`)
    }
    return watch.laps()
  }

  async #stage(): Promise<void> {
    for (const table of ['filter', 'nat'] as const) {
      const ops = this.ledger.takeChains(table)
      if (ops.length === 0) continue
      this.#pending.add(table)
      await this.#kernel.xtables('ipv4', table).stage(ops)
    }
  }
}

/** Replaces the first endpoint repeatedly. */
async function changeEndpoint(rooms: Rooms): Promise<Record<string, number>> {
  const addresses = realServersOf(7, reals)
  const runs: Readonly<Record<string, number>>[] = []
  for (let i = 0; i < changes; i++) {
    addresses[0] = realServer(0x80000 + i)
    rooms.cluster.setEndpoints(7, addresses)
    runs.push(await rooms.commit(rooms.cluster.take()))
  }
  return medians(runs)
}

/** Adds and removes one endpoint repeatedly. */
async function resizeService(rooms: Rooms): Promise<Record<string, number>> {
  const runs: Readonly<Record<string, number>>[] = []
  for (let i = 0; i < changes; i++) {
    rooms.cluster.setEndpoints(8, realServersOf(8, reals + 1 - (i % 2)))
    runs.push(await rooms.commit(rooms.cluster.take()))
  }
  return medians(runs)
}

async function checkMicroseconds(kernel: Kernel): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < checks; i++) {
    const start = performance.now()
    if (!(await kernel.xtables('ipv4', 'nat').check())) throw new Error('table nat is not as we left it')
    times.push((performance.now() - start) * 1000)
  }
  return median(times)
}

async function compareMs(kernel: Kernel): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < compares; i++) {
    const start = performance.now()
    const { missing, changed } = await kernel.xtables('ipv4', 'nat').compare()
    times.push(performance.now() - start)
    if (missing.length + changed.length > 0) throw new Error('table nat is not what is wanted')
  }
  return median(times)
}

async function measure(kernel: Kernel): Promise<Record<string, unknown>> {
  const rooms = new Rooms(kernel)
  const routes = rooms.cluster.take()
  for (const table of ['filter', 'nat'] as const) await kernel.xtables('ipv4', table).check()
  rooms.ledger.setSkeleton(compileSkeleton(settings))
  const first = await rooms.commit(routes)
  const gaps = watchLoop()
  const change = await changeEndpoint(rooms)
  const resize = await resizeService(rooms)
  const compareFrom = nowMs()
  const compare = await compareMs(kernel)
  const compareGap = longestGap(gapsWithin(gaps, compareFrom, nowMs()))
  const checkUs = await checkMicroseconds(kernel)
  const { entries, bytes } = await kernel.xtables('ipv4', 'nat').apply([])
  return { first, change, resize, compareMs: compare, compareGap, checkUs, entries, bytes }
}

const kernel = openKernel()
const result = await measure(kernel)
await kernel.close()
process.stdout.write(`${JSON.stringify(result)}\n`)

// Desired objects to the kernel's nf_tables, alone in its process and network namespace: prints one JSON line.
//
//   node sync.js N M CHANGES [FILE]     first sync, then so many times one endpoint replaced. FILE gets the transactions of the
//                                       first sync in nft's syntax.
import { writeFileSync } from 'node:fs'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/clock.js'
import { Pass } from '../../src/engine/index.js'
import { openKernel, type Nftables, type NfTransaction, printTransaction } from '../../src/kernel/index.js'
import { openLog, StateReporter } from '../../src/log.js'
import { openMetrics } from '../../src/metrics/index.js'
import { compileRoute } from '../../src/layers/nft-table/compile/compile.js'
import type { DesiredRoute } from '../../src/layers/nft-table/compile/desired.js'
import type { NftModeSettings } from '../../src/layers/nft-table/compile/settings.js'
import { NftTable } from '../../src/layers/nft-table/tables/table.js'
import { prepareV8 } from '../../src/process/index.js'
import type { Route } from '../../src/routing/index.js'
import { ClusterRoutes } from '../stage/cluster-routes.js'
import { median } from '../stage/figures.js'
import { realServer, realServersOf } from '../state.js'

/** Services whose endpoint is replaced. */
const changingServices = 100
const firstNewReal = 0x80000
const family = 'ipv4'
const settings: NftModeSettings = {
  family,
  semantics: 'nftables',
  masqueradeMark: 0x4000,
  masqueradeAll: false,
  localDetector: undefined,
  nodePortAddresses: 'all',
  localhostNodePorts: false,
  nodeIP: undefined,
  nodeName: 'node-a',
}

const portNameOf = (): undefined => undefined

/** The kernel's nf_tables, with the number and the times of the transactions. */
class TimedNftables {
  readonly transactions: NfTransaction[] = []
  count = 0
  longestMs = 0

  constructor(nftables: Nftables, isKept: boolean) {
    const apply = nftables.apply.bind(nftables)
    // The object stays the addon's own: a watch leaves out the transactions of the same object.
    nftables.apply = async (transaction, options) => {
      this.count += 1
      if (isKept) this.transactions.push(transaction)
      const start = performance.now()
      const outcome = await apply(transaction, options)
      this.longestMs = Math.max(this.longestMs, performance.now() - start)
      return outcome
    }
  }
}

interface Compiled {
  readonly route: Route
  readonly desired: DesiredRoute
}

function compile(routes: readonly Route[]): readonly Compiled[] {
  return routes.map((route) => ({ route, desired: compileRoute(route, settings) }))
}

/** The tables of the mode, without the events and looks that the pipeline adds. */
class Tables {
  readonly #log = openLog({ format: 'json', verbosity: 0, destination: process.stderr, clock: systemClock })
  readonly #metrics = openMetrics(new Registry())
  readonly #tables: NftTable

  constructor(nftables: Nftables) {
    const problems = new StateReporter({
      log: this.#log,
      level: 'error',
      problemLine: 'benchmark',
      recovery: 'programmed again',
      count: () => {},
    })
    const metrics = this.#metrics[family]
    const options = {
      family,
      nftables,
      clock: systemClock,
      log: this.#log,
      metrics,
      problems,
      warnings: problems,
      portNameOf,
    } as const
    this.#tables = new NftTable(options)
    this.#tables.setSettings(settings)
  }

  /** Milliseconds of the claims, and of both. */
  async write(compiled: readonly Compiled[]): Promise<{ readonly claimMs: number; readonly ms: number }> {
    const start = performance.now()
    for (const { route, desired } of compiled) this.#tables.claim(route.key, desired)
    const claimMs = performance.now() - start
    const metrics = this.#metrics[family]
    const pass = new Pass({ family, clock: systemClock, log: this.#log, metrics })
    if (!(await this.#tables.write(pass, { isComplete: true }))) throw new Error('not everything was written')
    return { claimMs, ms: performance.now() - start }
  }
}

/** Another address in place of the first one, again and again. */
async function changeEndpoints(
  {
    tables,
    cluster,
    timed,
  }: { readonly tables: Tables; readonly cluster: ClusterRoutes; readonly timed: TimedNftables },
  {
    services,
    reals,
    changes,
  }: { readonly services: number; readonly reals: number; readonly changes: number },
): Promise<Record<string, number>> {
  const times: number[] = []
  const { count } = timed
  const changed = Array.from({ length: changes }, (_, i) => {
    const index = services - 1 - (i % changingServices)
    cluster.setEndpoints(index, [realServer(firstNewReal + i), ...realServersOf(index, reals).slice(1)])
    return compile(cluster.take())
  })
  const cpu = process.cpuUsage()
  for (const compiled of changed) times.push((await tables.write(compiled)).ms * 1000)
  const { user, system } = process.cpuUsage(cpu)
  return {
    microseconds: median(times),
    userMicroseconds: user / changes,
    systemMicroseconds: system / changes,
    transactions: (timed.count - count) / changes,
  }
}

prepareV8(systemClock)
const [services = 0, reals = 0, changes = 0] = process.argv.slice(2, 5).map(Number)
const file = process.argv[5]
const kernel = openKernel({ addonPath: process.env['VIADUCT_ADDON'] })
const timed = new TimedNftables(kernel.nftables, file !== undefined)
const cluster = new ClusterRoutes({ services, reals })
const tables = new Tables(kernel.nftables)
const compileStart = performance.now()
const compiled = compile(cluster.take())
const compileMs = performance.now() - compileStart
const cpu = process.cpuUsage()
const first = await tables.write(compiled)
const { user, system } = process.cpuUsage(cpu)
const firstFigures = {
  compileMs,
  ...first,
  userMs: user / 1000,
  systemMs: system / 1000,
  transactions: timed.count,
  longestMs: timed.longestMs,
  rssMiB: process.memoryUsage.rss() / 1024 / 1024,
}
if (file !== undefined) {
  writeFileSync(file, timed.transactions.map((transaction) => printTransaction(transaction)).join(''))
}
const change =
  changes === 0 ? undefined : await changeEndpoints({ tables, cluster, timed }, { services, reals, changes })
await kernel.close()
process.stdout.write(`${JSON.stringify({ first: firstFigures, change })}\n`)

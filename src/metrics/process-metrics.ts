// Metrics of the process and of the build, read per scrape. They have the names of the Prometheus and Kubernetes libraries, if any.
// They cost nothing before the first scrape.
import { readdir, readFile } from 'node:fs/promises'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Clock } from '../clock.js'
import { BugError } from '../errors.js'
import type { Log } from '../log.js'

interface BuildFacts {
  /** Such as `1.2.3`. */
  readonly version: string
  /** 40 hexadecimal digits, with `-dirty` if the sources differed from the commit; `unknown`. */
  readonly commit: string
  /** Feature gates with an effect. Their stage is after beta. */
  readonly featureGates: { readonly AllowServiceExternalIPs: boolean }
}

/** Unix milliseconds. */
export function processStartMs(clock: Pick<Clock, 'unixMs'>): number {
  return clock.unixMs() - process.uptime() * 1000
}

interface ProcessFacts {
  readonly build: BuildFacts
  readonly clock: Pick<Clock, 'unixMs'>
  readonly log: Pick<Log, 'lostLines'>
  readonly loopDelays: Pick<LoopDelays, 'quantile'>
}

/** Registers the metrics, once per registry. */
export function openProcessMetrics(
  registry: Registry,
  { build, clock, log, loopDelays }: ProcessFacts,
): void {
  registerBuild(registry, build)
  registerProcess(registry, clock)
  registerLimits(registry)
  registerMemory(registry)
  registerLoopDelay(registry, loopDelays)
  registerLog(registry, log)
}

function registerBuild(registry: Registry, { version, commit, featureGates }: BuildFacts): void {
  const [major = '', minor = ''] = version.split('.')
  const build = {
    major,
    minor,
    git_version: `v${version}`,
    git_commit: commit.replace(/-dirty$/u, ''),
    git_tree_state: commit === 'unknown' ? '' : commit.endsWith('-dirty') ? 'dirty' : 'clean',
    build_date: '',
    go_version: process.version,
    compiler: 'v8',
    platform: `${process.platform}/${process.arch}`,
  }
  const info = new Gauge({
    name: 'kubernetes_build_info',
    help: "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    labelNames: Object.keys(build),
    registers: [],
  })
  info.set(build, 1)
  const enabled = new Gauge({
    name: 'kubernetes_feature_enabled',
    help: '[BETA] This metric records the data about the stage and enablement of a k8s feature.',
    labelNames: ['name', 'stage'],
    registers: [],
  })
  registry.registerMetric(info)
  registry.registerMetric(enabled)
  const name = 'AllowServiceExternalIPs'
  enabled.set({ name, stage: '' }, featureGates[name] ? 1 : 0)
}

function registerProcess(registry: Registry, clock: Pick<Clock, 'unixMs'>): void {
  registry.registerMetric(
    new Counter({
      name: 'process_cpu_seconds_total',
      help: 'Total user and system CPU time spent in seconds.',
      registers: [],
      collect() {
        const { user, system } = process.cpuUsage()
        this.reset()
        this.inc((user + system) / 1e6)
      },
    }),
  )
  const started = new Gauge({
    name: 'process_start_time_seconds',
    help: 'Start time of the process since unix epoch in seconds.',
    registers: [],
  })
  started.set(processStartMs(clock) / 1000)
  registry.registerMetric(started)
  onDemand(registry, {
    name: 'process_resident_memory_bytes',
    help: 'Resident memory size in bytes.',
    read: () => process.memoryUsage.rss(),
  })
  onDemand(registry, {
    name: 'process_virtual_memory_bytes',
    help: 'Virtual memory size in bytes.',
    read: async () => 1024 * (await numberIn('/proc/self/status', /^VmSize:\s+(\d+) kB$/mu)),
  })
}

function registerLimits(registry: Registry): void {
  onDemand(registry, {
    name: 'process_open_fds',
    help: 'Number of open file descriptors.',
    // Without the descriptor that reads the folder.
    read: async () => (await readdir('/proc/self/fd')).length - 1,
  })
  onDemand(registry, {
    name: 'process_max_fds',
    help: 'Maximum number of open file descriptors.',
    read: async () => await numberIn('/proc/self/limits', /^Max open files\s+(\d+)/mu),
  })
}

function registerMemory(registry: Registry): void {
  registry.registerMetric(
    new Gauge({
      name: 'viaduct_memory_bytes',
      help: 'Memory of the process; kind: resident, heap, heap_used, external',
      labelNames: ['kind'],
      registers: [],
      collect() {
        const { rss, heapTotal, heapUsed, external } = process.memoryUsage()
        this.set({ kind: 'resident' }, rss)
        this.set({ kind: 'heap' }, heapTotal)
        this.set({ kind: 'heap_used' }, heapUsed)
        this.set({ kind: 'external' }, external)
      },
    }),
  )
}

const quantiles = [0.5, 0.99, 1]

function registerLoopDelay(registry: Registry, delays: Pick<LoopDelays, 'quantile'>): void {
  registry.registerMetric(
    new Gauge({
      name: 'viaduct_event_loop_delay_seconds',
      help: 'Delay of work on the event loop in the last full minute, by a look each second; available a minute after the start; quantile: 0.5, 0.99, 1',
      labelNames: ['quantile'],
      registers: [],
      collect() {
        for (const quantile of quantiles) {
          const seconds = delays.quantile(quantile)
          if (seconds !== undefined) this.set({ quantile: String(quantile) }, seconds)
        }
      },
    }),
  )
}

function registerLog(registry: Registry, log: Pick<Log, 'lostLines'>): void {
  registry.registerMetric(
    new Counter({
      name: 'viaduct_log_lines_dropped_total',
      help: 'Log lines that could not be written, as on a full disk',
      registers: [],
      collect() {
        this.reset()
        this.inc(log.lostLines ?? 0)
      },
    }),
  )
}

interface OnDemand {
  readonly name: string
  readonly help: string
  /** If it throws, the scrape has no such sample. */
  readonly read: () => number | Promise<number>
}

function onDemand(registry: Registry, { name, help, read }: OnDemand): void {
  registry.registerMetric(
    new Gauge({
      name,
      help,
      registers: [],
      async collect() {
        try {
          this.set(await read())
        } catch {
          this.remove()
        }
      },
    }),
  )
}

/** Throws if the file cannot be read, or has no such number. */
async function numberIn(path: string, pattern: RegExp): Promise<number> {
  const digits = pattern.exec(await readFile(path, 'utf8'))?.[1]
  if (digits === undefined) throw new BugError(`${path} has nothing like ${pattern.source}`)
  return Number(digits)
}

/** Looks of one window: a minute at a look per second. */
const looksPerWindow = 60

/**
 * How late looks at the event loop were, in the last full window. NB: the looks are those of another monitor. A timer of its own would wake
 * an agent at rest more often than all its other work.
 */
export class LoopDelays {
  #window: number[] = []
  /** Seconds, shortest first; empty before the end of the first window. */
  #last: readonly number[] = []

  /** Takes the delay of a look, in milliseconds. */
  note(delayMs: number): void {
    this.#window.push(Math.max(0, delayMs) / 1000)
    if (this.#window.length < looksPerWindow) return
    this.#last = this.#window.toSorted((a, b) => a - b)
    this.#window = []
  }

  /** The delay that this share of the looks did not exceed, in seconds; undefined before the end of the first window. */
  quantile(share: number): number | undefined {
    return this.#last[Math.ceil(share * this.#last.length) - 1]
  }
}

// Shared code of the programs that run Viaduct's rooms in one process.
import { Registry } from 'prom-client'
import type { IpFamily } from '../src/address.js'
import type { Ipset, Ipvs, Kernel, Routes, XtTableName, Xtables } from '../src/kernel/index.js'
import { resolveConfig, type VipBinding } from '../src/config/index.js'
import { openLog } from '../src/log.js'
import { openMetrics } from '../src/metrics/index.js'
import { NodeTracker } from '../src/node/index.js'
import type { ObjectEvent } from '../src/source/index.js'
import { HealthCheckServers } from '../src/server/index.js'
import { openMode } from '../src/agent/testing.js'
import { Intake, openProblems } from '../src/engine/index.js'
import { type Pipeline } from '../src/engine/testing.js'
import { systemClock } from '../src/clock.js'
import { openGate } from '../test/support/open-gate.js'

export const node = new NodeTracker('node-a')

/** Passes all calls to the kernel, and counts operations and written tables. */
export class CountedKernel {
  messages = 0
  readonly kernel: Kernel

  constructor(kernel: Kernel) {
    const count = (ops: { readonly length: number }): void => {
      this.messages += ops.length
    }
    const ipvs: Ipvs = {
      load: async () => await kernel.ipvs.load(),
      apply: async (ops) => {
        count(ops)
        return await kernel.ipvs.apply(ops)
      },
      dump: async (family, options) => await kernel.ipvs.dump(family, options),
      read: async (keys, options) => await kernel.ipvs.read(keys, options),
      info: async () => await kernel.ipvs.info(),
      connections: (family) => kernel.ipvs.connections(family),
      timeouts: async () => await kernel.ipvs.timeouts(),
      setTimeouts: async (timeouts) => await kernel.ipvs.setTimeouts(timeouts),
      close: async () => await kernel.ipvs.close(),
    }
    const routes: Routes = {
      apply: async (ops) => {
        count(ops)
        return await kernel.routes.apply(ops)
      },
      lookUp: async (questions) => await kernel.routes.lookUp(questions),
      dumpLocalRoutes: async (family) => await kernel.routes.dumpLocalRoutes(family),
      dumpNextHops: async (family) => await kernel.routes.dumpNextHops(family),
      dumpAddresses: async (family, index) => await kernel.routes.dumpAddresses(family, index),
      close: async () => await kernel.routes.close(),
    }
    const ipset: Ipset = {
      apply: async (ops) => {
        count(ops)
        return await kernel.ipset.apply(ops)
      },
      sets: async () => await kernel.ipset.sets(),
      entries: async (name) => await kernel.ipset.entries(name),
      number: async (name, family) => await kernel.ipset.number(name, family),
      close: async () => await kernel.ipset.close(),
    }
    const tables = new Map<Xtables, Xtables>()
    const xtables = (family: IpFamily, table: XtTableName): Xtables => {
      const inner = kernel.xtables(family, table)
      const known = tables.get(inner) ?? this.#countWrites(inner)
      tables.set(inner, known)
      return known
    }
    this.kernel = { ...kernel, ipvs, routes, ipset, xtables }
  }

  #countWrites(xtables: Xtables): Xtables {
    return {
      family: xtables.family,
      table: xtables.table,
      apply: async (ops, options) => {
        const outcome = await xtables.apply(ops, options)
        if (outcome.isWritten) this.messages++
        return outcome
      },
      load: async (ops) => await xtables.load(ops),
      stage: async (ops) => await xtables.stage(ops),
      refusals: async () => await xtables.refusals(),
      check: async () => await xtables.check(),
      compare: async () => await xtables.compare(),
      takeRepairs: () => xtables.takeRepairs(),
      chains: async () => await xtables.chains(),
      packets: async (chain) => await xtables.packets(chain),
      close: async () => await xtables.close(),
    }
  }
}

export async function seconds(work: () => Promise<unknown>): Promise<number> {
  const start = process.hrtime.bigint()
  await work()
  return Number(process.hrtime.bigint() - start) / 1e9
}

export function median(figures: readonly number[]): number {
  return figures.toSorted((a, b) => a - b)[Math.floor(figures.length / 2)] ?? Number.NaN
}

/** A pipeline without a runner: the caller makes each run. */
export interface OpenPipeline {
  readonly pipeline: Pipeline
  readonly deliver: (events: readonly ObjectEvent[]) => void
}

/** Prepares the kernel and opens the IPv4 pipeline, in the flavour whose tables `CountedKernel` counts. */
export async function openPipeline(kernel: Kernel, vipBinding: VipBinding): Promise<OpenPipeline> {
  const log = openLog({ format: 'json', verbosity: 0, destination: process.stderr, clock: systemClock })
  const metrics = openMetrics(new Registry())
  const problems = openProblems({ log, count: (number) => metrics.objectsFailed.set(number) })
  const config = resolveConfig({ manifests: 'none', mode: 'ipvs', vipBinding, iptablesFlavour: 'legacy' })
  const options = {
    config,
    kernel,
    node,
    clock: systemClock,
    log,
    metrics,
    problems,
    conntrack: Promise.resolve(),
    events: { record: () => {} },
    openHealthChecks: (family: IpFamily, isHealthy: () => boolean) =>
      new HealthCheckServers({ family, isHealthy, nodeName: node.facts.name, clock: systemClock }),
  }
  const mode = await openMode(options)
  const intake = new Intake({ config, node: openGate(node), metrics })
  const pipeline = mode.openPipeline('ipv4', { intake, isHealthy: () => true })
  intake.open(() => void pipeline.needsRun())
  return { pipeline, deliver: (events) => intake.deliver(events) }
}

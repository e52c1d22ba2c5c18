// Measures the time from the rename of a manifest to the kernel's acknowledgement. Prints one JSON line. Links and routes are real, in the
// network namespace of the caller. IPVS is the model, because the kernel of a build machine lacks it; in the kernel a virtual server costs
// 1-3 us. The last acknowledged object is the VIP's route.
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Registry } from 'prom-client'
import { resolveConfig } from '../src/config/index.js'
import { openKernel } from '../src/kernel/index.js'
import { openModelKernel } from '../test/model/index.js'
import { openLog } from '../src/log.js'
import { openMetrics } from '../src/metrics/index.js'
import { NodeTracker } from '../src/node/index.js'
import { HealthCheckServers } from '../src/server/index.js'
import { nodeFileSystem, openSource } from '../src/source/index.js'
import { ipvsMode, IpvsSettings } from '../src/modes/ipvs/testing.js'
import { Intake, type ModeOptions, openProblems, Synchronizer } from '../src/engine/index.js'
import { vip } from './state.js'
import { systemClock } from '../src/clock.js'
import { openGate } from '../test/support/open-gate.js'

const edits = 100
const folder = mkdtempSync(join(tmpdir(), 'viaduct-edit-'))
const real = openKernel({ addonPath: undefined })
const log = openLog({ format: 'json', verbosity: 0, destination: process.stderr, clock: systemClock })
const metrics = openMetrics(new Registry())
const problems = openProblems({ log })
let acknowledged: () => void = () => {}

const node = new NodeTracker('node-a')
const config = resolveConfig({ manifests: folder, mode: 'ipvs' })
const settings = new IpvsSettings({ config: config.ipvs, kernel: openModelKernel(), log })
const options: ModeOptions = {
  formerChains: {},
  flavour: 'legacy',
  config,
  kernel: {
    ...real,
    ipvs: openModelKernel().ipvs,
    routes: {
      apply: async (ops) => {
        const outcome = await real.routes.apply(ops)
        acknowledged()
        return outcome
      },
      lookUp: async (questions) => await real.routes.lookUp(questions),
      dumpLocalRoutes: async (family) => await real.routes.dumpLocalRoutes(family),
      dumpNextHops: async (family) => await real.routes.dumpNextHops(family),
      dumpAddresses: async (family, index) => await real.routes.dumpAddresses(family, index),
      close: async () => await real.routes.close(),
    },
  },
  node,
  clock: systemClock,
  log,
  metrics,
  problems,
  events: { record: () => {} },
  openHealthChecks: (family, isHealthy) =>
    new HealthCheckServers({ family, isHealthy, nodeName: node.facts.name, clock: systemClock }),
}
const mode = ipvsMode(options, settings)
const intake = new Intake({ config, node: openGate(node), metrics })
const synchronizer = new Synchronizer({
  mode,
  intake,
  housekeeping: async () => {},
  prepareNode: async () => true,
  onInForce: () => {},
  links: real.links,
  clock: systemClock,
  metrics,
  onCrash: (error) => {
    throw error
  },
})
const { source } = await openSource(resolveConfig({ manifests: folder }), {
  fileSystem: nodeFileSystem,
  clock: systemClock,
  log,
  metrics,
  nodeName: 'node-a',
  environment: {},
  onCrash: (error) => {
    throw error
  },
})

/** Milliseconds until the new VIP is local. Every edit has a new VIP. */
async function edit(index: number): Promise<number> {
  const spec = `{ clusterIP: ${vip(index)}, ports: [{ port: 80, protocol: TCP }] }`
  const draft = join(folder, '.draft')
  writeFileSync(draft, `apiVersion: v1\nkind: Service\nmetadata: { name: edited }\nspec: ${spec}\n`)
  const done = new Promise<void>((resolve) => {
    acknowledged = resolve
  })
  const start = performance.now()
  renameSync(draft, join(folder, 'edited.yaml'))
  await done
  return performance.now() - start
}

synchronizer.start()
await source.start((events) => intake.deliver(events))
const times: number[] = []
for (let i = 0; i < edits; i++) {
  times.push(await edit(i))
  // The old VIP is removed after the route of the new one is added.
  await new Promise((resolve) => setTimeout(resolve, 50))
}
await source.stop()
await synchronizer.stop()
await real.close()
rmSync(folder, { recursive: true })
times.sort((a, b) => a - b)
process.stdout.write(`${JSON.stringify({ medianMs: times[edits / 2], maxMs: times[edits - 1] })}\n`)

// Measures the effect of floods of HTTP requests on the programming of rules and on a kubelet's probes.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Namespace } from '../../test/support/namespaces.js'
import { spread } from '../stage/figures.js'
import { changeMs, onStage, type Setting, type Stage } from '../stage/stage.js'

const flooder = fileURLToPath(new URL('./flood-client.js', import.meta.url))
const prober = fileURLToPath(new URL('./flood-probe.js', import.meta.url))
const healthCheckPort = 30_999
/** The value that flood-probe.ts prints for a probe without an answer. */
const probeLimitMs = 1000

/** Arguments of flood-client.ts. */
const floods: Readonly<Record<string, readonly string[]>> = {
  '64 connections, /livez': ['10256', '/livez', '64', '1', 'stay'],
  '100 connections x 5,000 /livez': ['10256', '/livez', '100', '5000', 'stay'],
  '64 connections, a health check': [`${healthCheckPort}`, '/', '64', '1', 'stay'],
  '100 connections x 5,000, a health check': [`${healthCheckPort}`, '/', '100', '5000', 'stay'],
  '1,900 /metrics, then gone': ['10249', '/metrics', '1', '1900', 'leave'],
  '4 connections x 2,000 /metrics': ['10249', '/metrics', '4', '2000', 'stay'],
}

const changesOfPhase = 100
const betweenChangesMs = 100
const soonMs = 3000
const afterMs = 60_000

/** Every flood between two quiet phases, then memory, then the stop of the agent during a flood. */
export async function floodFigures(setting: Setting): Promise<Record<string, unknown>> {
  return await onStage(setting, async (stage) => {
    stage.manifests.write('health-check.json', healthCheckService)
    await sleep(soonMs)
    const quiet = [...(await replacedMs(stage))]
    const before = stage.agent.memory().restMiB
    const figures: Record<string, unknown> = {}
    for (const [name, flood] of Object.entries(floods)) {
      figures[name] = await floodFigure(stage, flood)
      quiet.push(...(await replacedMs(stage)))
    }
    await sleep(afterMs)
    const after = stage.agent.memory().restMiB
    const program = start(stage.place, flooder, floods['100 connections x 5,000 /livez'] ?? [])
    await sleep(soonMs)
    const stopStart = performance.now()
    await stage.agent.stop()
    const stopMs = performance.now() - stopStart
    await program.kill()
    return { quiet: spread(quiet), floods: figures, restMiB: { before, after }, stopMs }
  })
}

async function floodFigure(stage: Stage, flood: readonly string[]): Promise<Record<string, number>> {
  const program = start(stage.place, flooder, flood)
  const probe = start(stage.place, prober, ['10256'])
  await sleep(betweenChangesMs)
  const [cpuBefore, startMs] = [stage.agent.cpuSeconds(), performance.now()]
  const times = await replacedMs(stage)
  const cores = (stage.agent.cpuSeconds() - cpuBefore) / ((performance.now() - startMs) / 1000)
  const { restMiB } = stage.agent.memory()
  await program.kill()
  const probes = probe.lines.map(Number)
  await probe.kill()
  return {
    ...spread(times),
    cores,
    restMiB,
    probes: probes.length,
    lostProbes: probes.filter((ms) => ms >= probeLimitMs).length,
    slowestProbeMs: Math.max(...probes),
  }
}

async function replacedMs(stage: Stage): Promise<readonly number[]> {
  const times: number[] = []
  for (let i = 0; i < changesOfPhase; i++) {
    times.push(await changeMs(stage, 'replace'))
    await sleep(betweenChangesMs)
  }
  return times
}

function start(place: Namespace, program: string, args: readonly string[]): ReturnType<Namespace['start']> {
  return place.start(process.execPath, program, ...args)
}

const healthCheckService = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'health-check', namespace: 'default' },
  spec: {
    type: 'LoadBalancer',
    clusterIP: '10.111.255.254',
    clusterIPs: ['10.111.255.254'],
    ipFamilies: ['IPv4'],
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: healthCheckPort,
    ports: [{ port: 80, protocol: 'TCP', targetPort: 8080, nodePort: 30_998 }],
  },
}

// A client of an innocent tenant, beside one form of what other tenants do.
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { setSysctls } from '../../test/support/namespaces.js'
import { KubeProxyRun } from '../api/peer.js'
import { type ApiStage, coldMs, onApiStage, type Run, startAgent, type StartRun } from '../api/stage.js'
import { directTarget, Tenant, type TenantText } from '../api/tenants.js'
import { AgentRun } from '../stage/agent-run.js'
import { median, millisecondsBetween } from '../stage/figures.js'
import { type Lag, lagLimitMs, lagOf } from './lags.js'
import { loseEvents } from './lost-events.js'
import { formsOf, type Form } from './tenant-forms.js'

const size = { services: 1000, reals: 1 }
const tickUs = 1000
/** Behind a start, and behind a change that is not waited for. kube-proxy syncs once a second. */
const restMs = { ours: 1000, 'kube-proxy': 3000 }
/** At most so long the tenants' objects are waited for. */
const inForceLimitMs = 120_000
const betweenMs = { quiet: 100, beside: 250 }
/** The quiet time before is so much shorter. */
const quietShare = 4
/** Rounds of connections: one per 4 seconds, so that a short measurement stays short. */
const [secondsPerRound, mostRounds, connectionsPerRound] = [4, 9, 2000]
const [clients, tries] = [300, 5]
const firstClient = { before: '10.64.0.1', after: '10.65.0.1' }
const moves = 8
const sticky = 'sticky'
const Rate = Type.Object({ p50Us: Type.Number() })
const Kept = Type.Object({ clients: Type.Number(), kept: Type.Number(), failed: Type.Number() })

export interface TenantSetting {
  /** The programs of bench/floor. */
  readonly connect: string
  readonly flood: string
  readonly form: string
  readonly program: 'ours' | 'kube-proxy'
  /** The length of the measurement beside the tenants. */
  readonly seconds: number
  readonly scale: number
}

/** From the words `FLOOD_BINARY FORM PROGRAM SECONDS SCALE`. */
export function tenantSetting(words: readonly string[]): Omit<TenantSetting, 'connect'> {
  const [flood = '', form = '', program, seconds, scale] = words
  if (program !== 'ours' && program !== 'kube-proxy') throw new Error(`no program ${program ?? ''}`)
  return { flood, form, program, seconds: Number(seconds), scale: Number(scale) }
}

interface Scene {
  readonly stage: ApiStage<Run>
  readonly setting: TenantSetting
}

/** The figures of one form with one program. Absent: the form does not have that one. */
export async function tenantFigures(setting: TenantSetting): Promise<Record<string, unknown>> {
  const form = formsOf(setting.scale)[setting.form]
  if (form === undefined) throw new Error(`no form ${setting.form}`)
  const options = { connect: setting.connect, size, tickUs }
  return await onApiStage(options, startOf(setting), async (stage) => {
    const scene = { stage, setting }
    // The table of connections of the namespace is no larger than a table of clients.
    await setSysctls(stage.place, 'net.netfilter.nf_conntrack_udp_timeout=1')
    await coldMs(stage, size)
    await stage.api.addTenant('direct')
    if (form.affinity !== undefined) await stage.api.addTenant(sticky)
    await sleep(restMs[setting.program])
    const quiet = {
      lag: await lagOf(stage, { seconds: setting.seconds / quietShare, everyMs: betweenMs.quiet }),
      connectUs: await connectUs(scene),
      ...(await affinityOf(scene, form, 'before')),
    }
    const inForceMs = await addTenants(stage, form.tenants)
    await sleep(restMs[setting.program])
    const { form: name, program } = setting
    const [load] = loadavg()
    return { form: name, program, load, quiet, inForceMs, beside: await besideOf(scene, form) }
  })
}

function startOf({ program }: TenantSetting): StartRun<Run> {
  const mode = 'nftables'
  if (program === 'ours') return (place, api) => startAgent(place, api, { mode, verbosity: 0 })
  const { KUBE_PROXY: binary = '' } = process.env
  if (binary === '') throw new Error('KUBE_PROXY names no program: set it to the path of a kube-proxy')
  return (place, api) => new KubeProxyRun(place, api, { binary, mode })
}

/** Milliseconds until the last TCP Service of the tenants answers; null: there is none, or it does not in time. */
async function addTenants(stage: ApiStage<Run>, tenants: readonly TenantText[]): Promise<number | null> {
  const startNs = process.hrtime.bigint()
  for (const tenant of tenants) await stage.api.addTenant(tenant)
  const last = tenants.at(-1)
  if (last === undefined || last === 'clients') return null
  const target = { ...new Tenant(last).place, expected: undefined }
  const seenNs = await stage.prober.answeredWithin(inForceLimitMs, target)
  return seenNs === undefined ? null : millisecondsBetween(startNs, seenNs)
}

async function besideOf(scene: Scene, form: Form): Promise<Record<string, unknown>> {
  const { stage, setting } = scene
  const { storm, datagrams, isCompared = false } = form
  const { seconds } = setting
  if (isCompared && stage.run instanceof AgentRun) await loseEvents(stage.place, stage.run)
  const cpuBefore = stage.run.cpuSeconds()
  if (storm !== undefined) {
    const { tenant, perSecond } = storm
    await stage.api.storm(tenant, { count: perSecond * seconds, perSecond })
  }
  const spoofed = datagrams === undefined ? undefined : spoof(scene, datagrams)
  const lag = await lagOf(stage, { seconds, everyMs: betweenMs.beside })
  const cpuSeconds = stage.run.cpuSeconds() - cpuBefore
  await spoofed
  const connection = storm === undefined ? { connectUs: await connectUs(scene) } : {}
  return { lag, cpuSeconds, ...connection, ...(await affinityOf(scene, form, 'after')) }
}

/** The median time of connect() to an innocent Service, in the best of the rounds: other work on the machine only adds to it. */
async function connectUs({ stage, setting }: Scene): Promise<number> {
  const { address, port } = new Tenant('direct').place
  const args = [address, port, connectionsPerRound, directTarget].map(String)
  const rounds: number[] = []
  const count = Math.min(mostRounds, Math.ceil(setting.seconds / secondsPerRound))
  for (let round = 0; round < count; round++) {
    const output = await stage.place.must(setting.connect, 'rate', ...args)
    rounds.push(Value.Parse(Rate, JSON.parse(output)).p50Us)
  }
  return Math.min(...rounds)
}

/** Sends the datagrams evenly, in the time of the measurement. */
async function spoof({ stage, setting }: Scene, datagrams: number): Promise<void> {
  const { address, port } = new Tenant('clients').place
  const { flood, seconds } = setting
  const args = [seconds, Math.ceil(datagrams / seconds), address, port].map((number) => String(number))
  await stage.place.must(flood, 'udp', ...args)
}

/** The clients that keep their endpoint, or how long one stays at an endpoint that has gone. */
async function affinityOf(
  scene: Scene,
  { affinity }: Form,
  when: 'before' | 'after',
): Promise<Record<string, unknown>> {
  if (affinity === undefined) return {}
  return affinity === 'kept'
    ? { kept: await keptOf(scene, firstClient[when]) }
    : { moved: await movedOf(scene, when === 'before' ? 1 : 1 + moves) }
}

/** The share of new clients of an innocent Service that reach the same endpoint each time. */
async function keptOf({ stage, setting }: Scene, first: string): Promise<number> {
  const { address, port } = new Tenant(sticky).place
  const args = [address, String(port), first, String(clients), String(tries)]
  const output = await stage.place.must(setting.connect, 'sticky', ...args)
  const { kept, failed } = Value.Parse(Kept, JSON.parse(output))
  if (failed > 0) throw new Error(`connections of ${failed} clients failed`)
  return kept / clients
}

/** Times from the event that takes an endpoint away to the first connection of its client to another one. */
async function movedOf(
  { stage: { api, prober }, setting: { program } }: Scene,
  first: number,
): Promise<Omit<Lag, 'changes' | 'p99Ms'>> {
  const tenant = new Tenant(sticky)
  const times: (number | undefined)[] = []
  for (let change = first; change < first + moves; change++) {
    const [expected] = tenant.changedEndpoints(change)
    const sentNs = await api.alter(sticky, change)
    const seenNs = await prober.answeredWithin(lagLimitMs, { ...tenant.place, expected })
    times.push(seenNs === undefined ? undefined : millisecondsBetween(sentNs, seenNs))
    await sleep(restMs[program] / 3)
  }
  const all = times.map((ms) => ms ?? lagLimitMs)
  return {
    late: times.filter((ms) => ms === undefined).length,
    medianMs: median(all),
    maxMs: Math.max(...all),
  }
}

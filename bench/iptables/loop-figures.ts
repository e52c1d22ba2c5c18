// Measures gaps of the agent's event loop. No other times are measured meanwhile, because the watch itself costs CPU time.
import { readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { gapsWithin, longestGap, nowMs } from '../stage/loop-watch.js'
import { changesMs, onStage, type Setting } from '../stage/stage.js'

const changes = 10
/** A short period, so that full comparisons occur among the looks. */
const syncPeriodSeconds = 3
const restMs = 2000
const idleMs = 10_000
/** Shortest gap of a cold start that is listed. */
const notableMs = 10
const watch = new URL('../stage/loop-watch.js', import.meta.url).href
const Gaps = Type.Array(Type.Object({ endMs: Type.Number(), ms: Type.Number(), wallMs: Type.Number() }))

/** The longest gap of each phase, the gaps of the start with their times, and the agent's log lines about passes. */
export async function loopFigures(setting: Setting): Promise<Record<string, unknown>> {
  const output = join(tmpdir(), 'loop.json')
  const marks = await onStage(
    setting,
    async (stage) => {
      const { agent, coldMs } = stage
      const startMs = Number(agent.startNs) / 1e6
      await sleep(restMs)
      const changeFrom = nowMs()
      await changesMs(stage, 'replace', changes)
      await changesMs(stage, 'add', changes)
      const idleFrom = nowMs()
      await sleep(idleMs)
      return { startMs, inForceMs: startMs + coldMs, changeFrom, idleFrom, idleTo: nowMs(), log: agent.log }
    },
    {
      under: ['env', `LOOP_WATCH=${output}`],
      node: ['--import', watch],
      flags: ['-v', '2', '--iptables-sync-period', `${syncPeriodSeconds}s`],
    },
  )
  const gaps = Value.Parse(Gaps, JSON.parse(readFileSync(output, 'utf8')))
  rmSync(output)
  const { startMs, inForceMs, changeFrom, idleFrom, idleTo, log } = marks
  const startedMs = startOf(log)
  // Earlier gaps are from loading the program.
  const working = gaps.filter(({ endMs, wallMs }) => endMs - wallMs >= startedMs)
  const cold = gapsWithin(working, startMs, changeFrom)
  return {
    loadMs: startedMs - startMs,
    cold: longestGap(cold),
    change: longestGap(gapsWithin(working, changeFrom, idleFrom)),
    idle: longestGap(gapsWithin(working, idleFrom, idleTo)),
    inForceMs: inForceMs - startMs,
    coldGaps: cold
      .filter(({ ms }) => ms >= notableMs)
      .map(({ endMs, ms }) => `${ms.toFixed(0)} ms until ${(endMs - startMs).toFixed(0)} ms`),
    passes: log.filter((line) => line.includes('Sync done')),
  }
}

/** Time of the agent's log line about its start, in milliseconds of CLOCK_MONOTONIC. */
function startOf(log: readonly string[]): number {
  const line = log.find((text) => text.includes('"viaduct starts"'))
  if (line === undefined) throw new Error('the agent did not say that it starts')
  return Value.Parse(Type.Object({ ts: Type.Number() }), JSON.parse(line)).ts - (Date.now() - nowMs())
}

// The status page in Chromium, and the cost of the servers that have no client.
import { fileURLToPath } from 'node:url'
import { median } from '../stage/figures.js'
import { changesMs, onStage, type Setting, type Stage } from '../stage/stage.js'

const pageProgram = fileURLToPath(new URL('page.js', import.meta.url))
const loads = 7
/** Before the memory or the cost is measured. */
const changes = 15
/** Rounds of the comparison, which takes both in turn. */
const rounds = 3
const changesPerRound = 25

/** Times of loads, and the memory of a tab that has followed changes. */
export async function pageFigures(setting: Setting): Promise<unknown> {
  return await onStage(
    setting,
    async (stage) => {
      const browser = stage.place.start(process.execPath, pageProgram, String(loads))
      const [first, ...others] = numbersOf(await browser.line((line) => line.startsWith('[')))
      await changesMs(stage, 'replace', changes)
      browser.write('measure\n')
      const memory: unknown = JSON.parse(await browser.line((line) => line.startsWith('{')))
      await browser.ended
      return { firstMs: first, ms: median(others), maxMs: Math.max(...others), memory }
    },
    { flags: ['--control-socket='] },
  )
}

function numbersOf(json: string): readonly number[] {
  const value: unknown = JSON.parse(json)
  return Array.isArray(value) ? value.map(Number) : []
}

/** An agent without the status page and the control socket, and one with both and no client, in turn. */
export async function quietFigures(setting: Setting): Promise<unknown> {
  const without = ['--control-socket=', '--metrics-bind-address=']
  const figures: Record<'without' | 'with', Cost[]> = { without: [], with: [] }
  for (let round = 0; round < rounds; round++)
    for (const name of ['without', 'with'] as const) {
      const flags = name === 'with' ? [`--control-socket=${process.env['TMPDIR']}/socket`] : without
      figures[name].push(await onStage(setting, costOfChanges, { flags }))
    }
  return { without: medianCost(figures.without), with: medianCost(figures.with) }
}

interface Cost {
  /** Milliseconds until the new endpoint answers. */
  readonly ms: number
  /** CPU milliseconds of the agent for one change and the rest after it. */
  readonly cpuMs: number
}

async function costOfChanges(stage: Stage): Promise<Cost> {
  await changesMs(stage, 'replace', changes)
  const before = stage.agent.cpuSeconds()
  const ms = median(await changesMs(stage, 'replace', changesPerRound))
  return { ms, cpuMs: ((stage.agent.cpuSeconds() - before) * 1000) / changesPerRound }
}

function medianCost(costs: readonly Cost[]): Cost {
  return { ms: median(costs.map(({ ms }) => ms)), cpuMs: median(costs.map(({ cpuMs }) => cpuMs)) }
}

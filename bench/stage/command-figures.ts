// Times of the commands from the start of their process, and the agent's latency while one runs in a loop.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { once } from 'node:events'
import { median, millisecondsBetween } from './figures.js'
import { changesMs, onStage, type Setting } from './stage.js'

const agentFile = fileURLToPath(new URL('../../../../dist/agent.js', import.meta.url))
const runs = 11
const changes = 15

/** The Service that the stage has at any size. */
const service = 'default/service-0'
const commands = {
  'empty Node program': ['-e', '0'],
  status: [agentFile, 'status'],
  'services NAME': [agentFile, 'services', service],
  'endpoints NAME': [agentFile, 'endpoints', service],
  'routes NAME': [agentFile, 'routes', service],
  connections: [agentFile, 'connections'],
  explain: [agentFile, 'explain', 'node', '10.96.0.1:80'],
  history: [agentFile, 'history'],
  services: [agentFile, 'services'],
  endpoints: [agentFile, 'endpoints'],
  routes: [agentFile, 'routes'],
  'services --counters': [agentFile, 'services', '--counters'],
  'endpoints --counters': [agentFile, 'endpoints', '--counters'],
  'routes --counters': [agentFile, 'routes', '--counters'],
}

/** Runs a command to its end. Returns the milliseconds from its start. Throws if it fails. */
async function runOnce(words: readonly string[], socket: string): Promise<number> {
  const startNs = process.hrtime.bigint()
  const own = words[0] === agentFile ? [`--socket=${socket}`] : []
  const child = spawn(process.execPath, [...words, ...own], { stdio: ['ignore', 'ignore', 'inherit'] })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${words.join(' ')} ended with ${String(code)}`)
  return millisecondsBetween(startNs, process.hrtime.bigint())
}

/** Runs the command one time after the other until `work` has ended. */
async function beside<T>(words: readonly string[], socket: string, work: Promise<T>): Promise<T> {
  const state = { isDone: false }
  const ended = work.finally(() => {
    state.isDone = true
  })
  while (!state.isDone) await runOnce(words, socket)
  return await ended
}

/** By command: the median and longest time, and the latency of a change beside it against the latency without a command. */
export async function commandFigures(setting: Setting): Promise<Record<string, unknown>> {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-commands-'))
  const socket = join(folder, 'socket')
  try {
    return await onStage(
      setting,
      async (stage) => {
        const latency = async (): Promise<number> => median(await changesMs(stage, 'replace', changes))
        const quietMs = await latency()
        const figures: Record<string, unknown> = {}
        for (const [name, words] of Object.entries(commands)) {
          const times: number[] = []
          for (let run = 0; run < runs; run++) times.push(await runOnce(words, socket))
          const besideMs = await beside(words, socket, latency())
          figures[name] = { ms: median(times), maxMs: Math.max(...times), lag: besideMs / quietMs }
        }
        return { quietMs, commands: figures }
      },
      { flags: [`--control-socket=${socket}`] },
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
}

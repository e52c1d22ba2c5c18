// Times of the commands from the start of their process, and the agent's latency while one runs in a loop.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { once } from 'node:events'
import { median, millisecondsBetween } from './figures.js'
import type { ProxyMode } from '../../src/config/index.js'
import { changesMs, onStage, type Setting, type Stage } from './stage.js'

const agentFile = fileURLToPath(new URL('../../../../dist/agent.js', import.meta.url))
const runsOfEach = 11
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

/** The place of the commands. */
interface Ran {
  readonly stage: Stage
  readonly mode: ProxyMode
  readonly socket: string
}

/** Commands that read the node's kernel themselves. Their exit code is 1 for differences and problems too. */
const nodeCommands: Readonly<Record<string, (ran: Ran) => readonly string[]>> = {
  'plan --summary': ({ stage, mode }) => [
    'plan',
    '--summary',
    `--manifests=${stage.manifests.folder}`,
    `--proxy-mode=${mode}`,
    '--hostname-override=node-a',
    '--iptables-flavour=legacy',
  ],
  'diff --summary': ({ socket }) => ['diff', '--summary', `--socket=${socket}`],
  doctor: ({ socket }) => ['doctor', `--socket=${socket}`],
  bundle: ({ socket }) => ['bundle', '-f', '-', `--socket=${socket}`],
}

/** Runs a command to its end. Resolves with the milliseconds from its start. Throws if it fails. */
type Run = (ran: Ran) => Promise<number>

const runs: Readonly<Record<string, Run>> = {
  ...mapped(commands, (words) => async ({ socket }) => {
    const own = words[0] === agentFile ? [`--socket=${socket}`] : []
    return await timed([process.execPath, ...words, ...own], [0])
  }),
  ...mapped(nodeCommands, (wordsFor) => async (ran) => {
    const place = ['nsenter', `--net=/proc/${ran.stage.place.pid}/ns/net`]
    return await timed([...place, process.execPath, agentFile, ...wordsFor(ran)], [0, 1])
  }),
}

function mapped<From, To>(
  record: Readonly<Record<string, From>>,
  to: (from: From) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, from]) => [name, to(from)]))
}

/** `codes`: the exit codes of success. */
async function timed([program = '', ...words]: readonly string[], codes: readonly number[]): Promise<number> {
  const startNs = process.hrtime.bigint()
  const child = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text))
  const [code] = await once(child, 'exit')
  if (!codes.includes(Number(code)))
    throw new Error(`${words.join(' ')} ended with ${String(code)}: ${errors}`)
  return millisecondsBetween(startNs, process.hrtime.bigint())
}

/** Runs the command one time after the other until `work` has ended. */
async function beside<T>(run: Run, ran: Ran, work: Promise<T>): Promise<T> {
  const state = { isDone: false }
  const ended = work.finally(() => {
    state.isDone = true
  })
  while (!state.isDone) await run(ran)
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
        const ran = { stage, mode: setting.mode, socket }
        for (const [name, run] of Object.entries(runs)) {
          const times: number[] = []
          for (let i = 0; i < runsOfEach; i++) times.push(await run(ran))
          const besideMs = await beside(run, ran, latency())
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

// `viaduct doctor`: reads the node, runs the checks, and prints what they found.
import { constants } from 'node:fs'
import { access, readdir, readFile, readlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { askOnce, openClientOptions } from '../api/index.js'
import { parseArguments } from '../cli/index.js'
import { systemClock } from '../clock.js'
import { inputWarnings, readConfigFile, type Config } from '../config/index.js'
import { type ApiAnswers, diagnose, type Examined, printFindings } from '../doctor/index.js'
import { openKernel } from '../kernel/index.js'
import { nodeName } from '../node/index.js'
import { adviceOn } from './advice.js'
import { probeModes } from './probe-modes.js'
import { silentLog } from './silent-log.js'

type Environment = Readonly<Record<string, string | undefined>>

/** Runs the command. Resolves with the exit code: 0; 1: something is broken; 2: wrong arguments. */
export async function runDoctor(words: readonly string[], environment: Environment): Promise<number> {
  const { flags, isAll, isJson } = split(words)
  const invocation = parseArguments(flags, readConfigFile)
  if ('exitCode' in invocation) {
    process.stderr.write(invocation.text)
    return 2
  }
  const kernel = openKernel({ addonPath: environment['VIADUCT_ADDON'] })
  try {
    const findings = await diagnose(await examine(invocation.config, kernel, environment))
    process.stdout.write(
      isJson ? `${JSON.stringify(findings, undefined, 2)}\n` : printFindings(findings, isAll),
    )
    return findings.some(({ status }) => status === 'broken') ? 1 : 0
  } catch (error) {
    process.stderr.write(`viaduct: ${adviceOn(error)}\n`)
    return 1
  } finally {
    await kernel.close()
  }
}

/** The doctor's own options, and the flags of the agent. */
function split(words: readonly string[]): {
  readonly flags: readonly string[]
  readonly isAll: boolean
  readonly isJson: boolean
} {
  const joined = words
    .join('\0')
    .replace(/(?:-o|--output)[\0=]?json/u, '--json')
    .split('\0')
  const isOwn = (word: string): boolean => word === '--all' || word === '--json' || word === ''
  return {
    flags: joined.filter((word) => !isOwn(word)),
    isAll: joined.includes('--all'),
    isJson: joined.includes('--json'),
  }
}

async function examine(
  config: Config,
  kernel: Examined['kernel'],
  environment: Environment,
): Promise<Examined> {
  return {
    config,
    nodeName: nodeName(config, hostname()),
    kernel,
    modes: await probeModes({ config, kernel, addonPath: environment['VIADUCT_ADDON'], canWrite }),
    api: config.manifests === undefined ? await openApi(config, environment) : undefined,
    read: async (path) => await readFile(path, 'utf8').catch(() => undefined),
    processes: await listProcesses(),
    inputWarnings: inputWarnings(config),
  }
}

async function openApi(config: Config, environment: Environment): Promise<ApiAnswers> {
  const metrics = { apiRequest: () => {} }
  const options = await openClientOptions(config.client, {
    clock: systemClock,
    log: silentLog,
    metrics,
    environment,
  })
  return {
    server: options.server,
    ask: async (method, path, body) => await askOnce(options, { method, path, body }, systemClock),
  }
}

/** Whether this process may write a setting below /proc/sys. */
async function canWrite(path: string): Promise<boolean> {
  return await access(`/proc/sys/${path}`, constants.W_OK).then(
    () => true,
    () => false,
  )
}

/** The processes of this network namespace. One that ends meanwhile, or that cannot be read, is left out. */
async function listProcesses(): Promise<Examined['processes']> {
  const own = await readlink('/proc/self/ns/net')
  const found: { pid: number; name: string; command: string }[] = []
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/u.test(entry)) continue
    const place = await readlink(`/proc/${entry}/ns/net`).catch(() => '')
    if (place !== own) continue
    const name = await readFile(`/proc/${entry}/comm`, 'utf8').catch(() => '')
    const command = await readFile(`/proc/${entry}/cmdline`, 'utf8').catch(() => '')
    found.push({ pid: Number(entry), name: name.trim(), command: command.replaceAll('\0', ' ') })
  }
  return found
}

// A process of the shipped agent.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { ProxyMode } from '../../src/config/index.js'
import type { XtFlavour } from '../../src/kernel/index.js'
import type { Namespace } from '../../test/support/namespaces.js'
import type { Program } from '../../test/support/processes.js'
import { firstThreadSeconds, processSeconds } from './process-cpu.js'

/** VIADUCT_AGENT names another one, to compare two. */
const bundle =
  process.env['VIADUCT_AGENT'] ?? fileURLToPath(new URL('../../../../dist/agent.js', import.meta.url))

/** A mode of the agent. */
export interface AgentMode {
  /** Default: iptables. */
  readonly mode?: ProxyMode
  /** The flavour of x_tables. Default: legacy. */
  readonly flavour?: XtFlavour
}

export interface AgentOptions extends AgentMode {
  /** Flags of Node. */
  readonly node?: readonly string[]
  readonly flags?: readonly string[]
  /** A command prefix that becomes the agent in the same process: `env NAME=value`, `strace -D ...`. */
  readonly under?: readonly string[]
}

export interface Memory {
  readonly restMiB: number
  readonly peakMiB: number
}

/** One run of `node dist/agent.js`. */
export class AgentRun {
  /** Time just before the start of the process, in nanoseconds of process.hrtime.bigint(). */
  readonly startNs = process.hrtime.bigint()
  readonly #program: Program

  /** `source`: the flags for the source of objects. */
  constructor(
    place: Namespace,
    source: readonly string[],
    { mode = 'iptables', flavour = 'legacy', node = [], flags = [], under = [] }: AgentOptions = {},
  ) {
    const own = [...source, '--proxy-mode', mode, '--hostname-override', 'node-a']
    const all = [...own, '--iptables-flavour', flavour, ...flags]
    this.#program = place.start(...under, process.execPath, ...node, bundle, ...all)
  }

  /** Lines of its log. */
  get log(): readonly string[] {
    return this.#program.lines
  }

  /** The first matching line of its log at or after index `from`. */
  async line(fits: (line: string) => boolean, from = 0): Promise<string> {
    return await this.#program.line(fits, from)
  }

  /** Resolves when IPv4 is in the kernel; the agent must log its passes (`-v 2`). */
  async inForce(): Promise<void> {
    await this.line((line) =>
      ['"Sync done"', '"IPv4"', '"complete":true'].every((part) => line.includes(part)),
    )
  }

  /** It runs no more until `resume`. */
  pause(): void {
    this.#program.signal('SIGSTOP')
  }

  resume(): void {
    this.#program.signal('SIGCONT')
  }

  /** CPU seconds of all its threads. */
  cpuSeconds(): number {
    return processSeconds(this.#program.pid)
  }

  /** CPU seconds of the thread of JavaScript. */
  javaScriptSeconds(): number {
    return firstThreadSeconds(this.#program.pid)
  }

  memory(): Memory {
    const status = readFileSync(`/proc/${this.#program.pid}/status`, 'utf8')
    const mebibytes = (field: string): number =>
      Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? Number.NaN) / 1024
    return { restMiB: mebibytes('VmRSS'), peakMiB: mebibytes('VmHWM') }
  }

  /** Stops it with a signal. Kernel objects stay. Throws with its output if it ended in another way. */
  async stop(): Promise<void> {
    this.#program.signal('SIGTERM')
    const { code, stdout, stderr } = await this.#program.ended
    if (code !== 0) throw new Error(`the agent ended with ${code ?? 'a signal'}:\n${stdout}\n${stderr}`)
  }
}

// The shipped agent as a process in the node's namespace of the shop.
import { join } from 'node:path'
import type { ProxyMode } from '../../src/config/index.js'
import type { Namespace } from '../support/namespaces.js'
import type { Finished, Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

export interface AgentOptions {
  readonly node: Namespace
  readonly manifests: string
  /** Default: ipvs. */
  readonly mode?: ProxyMode
  /** Put in front of the command, such as strace. */
  readonly before?: readonly string[]
  readonly flags?: readonly string[]
  /** Another build's agent.js; default: that of dist/. */
  readonly agentFile?: string | undefined
}

/** One run of dist/agent.js. */
export class AgentProcess {
  readonly #program: Program

  private constructor(program: Program) {
    this.#program = program
  }

  static start(options: AgentOptions): AgentProcess {
    const flags = ['--manifests', options.manifests, '-v', '2', ...(options.flags ?? [])]
    const command = commandIn(options.mode ?? 'ipvs', flags, options.agentFile)
    return new AgentProcess(options.node.start(...(options.before ?? []), ...command))
  }

  /** Resolves when both families have had their first sync; throws when the agent ended before. */
  async synced(): Promise<void> {
    for (const family of ['IPv4', 'IPv6']) {
      await this.#program.line(
        (line) => fieldOf(line, 'msg') === 'Sync done' && fieldOf(line, 'ipFamily') === family,
      )
    }
  }

  /** How many lines it has written. */
  get lineCount(): number {
    return this.#program.lines.length
  }

  /** The first line at or after `from` that fits; throws when the agent ended without one. */
  async line(fits: RegExp, from: number): Promise<string> {
    return await this.#program.line((line) => fits.test(line), from)
  }

  /** Sends SIGTERM and waits for the end. */
  async terminate(): Promise<Finished & { readonly tookMs: number }> {
    const started = performance.now()
    this.#program.signal('SIGTERM')
    return { ...(await this.#program.ended), tookMs: performance.now() - started }
  }

  kill(): Promise<void> {
    return this.#program.kill()
  }
}

/** The agent in ipvs mode on node-a; flags are added. */
export function agentCommand(...flags: readonly string[]): readonly string[] {
  return commandIn('ipvs', flags)
}

function commandIn(
  mode: ProxyMode,
  flags: readonly string[],
  agentFile = join(treeRoot, 'dist/agent.js'),
): readonly string[] {
  // Tests of ipvs mode expect the legacy flavour unless they name one. On a node without rules the agent would choose nft.
  const isFlavourOpen = mode === 'ipvs' && !flags.some((flag) => flag.startsWith('--iptables-flavour'))
  const flavour = isFlavourOpen ? ['--iptables-flavour=legacy'] : []
  const own = ['--proxy-mode', mode, '--hostname-override', 'node-a', ...flavour]
  return [process.execPath, agentFile, ...own, ...flags]
}

/** A field of a JSON log line; undefined when the line has none. */
function fieldOf(line: string, name: string): unknown {
  if (!line.startsWith('{')) return undefined
  const fields: unknown = JSON.parse(line)
  return Reflect.get(Object(fields), name)
}

// The shipped agent as a process in the node's namespace of the shop.
import { join } from 'node:path'
import type { Namespace } from '../support/namespaces.js'
import type { Finished, Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

export interface AgentOptions {
  readonly node: Namespace
  readonly manifests: string
  /** Put in front of the command, such as strace. */
  readonly before?: readonly string[]
  readonly flags?: readonly string[]
}

/** One run of dist/agent.js. */
export class AgentProcess {
  readonly #program: Program

  private constructor(program: Program) {
    this.#program = program
  }

  static start(options: AgentOptions): AgentProcess {
    const flags = ['--manifests', options.manifests, '-v', '2', ...(options.flags ?? [])]
    return new AgentProcess(options.node.start(...(options.before ?? []), ...agentCommand(...flags)))
  }

  /** Resolves when everything that the manifests say has been programmed; throws when the agent ended before. */
  async synced(): Promise<void> {
    await this.#program.line((line) => messageOf(line) === 'first sync complete')
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
  const agent = join(treeRoot, 'dist/agent.js')
  return [process.execPath, agent, '--proxy-mode', 'ipvs', '--hostname-override', 'node-a', ...flags]
}

/** `msg` of a JSON log line; empty when it is none. */
export function messageOf(line: string): string {
  if (!line.startsWith('{')) return ''
  const fields: unknown = JSON.parse(line)
  const message: unknown = Reflect.get(Object(fields), 'msg')
  return typeof message === 'string' ? message : ''
}

// Asks the agent of this node for its state and its configuration, for the doctor.
import { existsSync } from 'node:fs'
import { AgentClient, CommandError, type Known } from '../commands/index.js'
import { type ConfigInput, type ProxyMode, readConfig } from '../config/index.js'
import type { AgentStatus } from '../doctor/index.js'
import type { StatusSnapshot } from '../inspect/index.js'

/** The agent of this node, as far as it answers on the control socket. */
export interface RunningAgent {
  readonly socket: string
  /** One sentence: why nothing answered, although there is a socket. undefined: an answer, or no socket. */
  readonly silence: string | undefined
  /** undefined: nothing answered. */
  readonly answer:
    { readonly status: AgentStatus; readonly mode: ProxyMode; readonly input: ConfigInput } | undefined
}

/** Modules that the agent's mode uses: the kernel has them, even where no file says so. */
export function modulesInUse({ answer }: Pick<RunningAgent, 'answer'>): readonly string[] {
  if (answer === undefined) return []
  const { mode, input } = answer
  const usesTables = mode === 'nftables' || (mode !== 'userspace' && input.iptablesFlavour === 'nft')
  return [...(usesTables ? ['nf_tables'] : []), ...(mode === 'ipvs' ? ['ip_set', 'ip_vs'] : [])]
}

/** Never throws CommandError: an agent that does not answer is a result. */
export async function findAgent(socket: string): Promise<RunningAgent> {
  if (!existsSync(socket)) return { socket, silence: undefined, answer: undefined }
  const client = new AgentClient(socket)
  try {
    const [{ known }, { documents, mode, node }] = await Promise.all([
      client.ask('status'),
      client.askWhole('configuration'),
    ])
    const input = readConfig('the agent', Buffer.from(documents), { isStrict: false })
    return {
      socket,
      silence: undefined,
      answer: { status: statusOf(known), mode, input: { ...input, hostnameOverride: node } },
    }
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    return { socket, silence: error.message, answer: undefined }
  }
}

/** The status as far as the agent sent it. What an agent of another version does not send is no finding. */
function statusOf({ version = 'unknown', commit, isInForce, ...rest }: Known<StatusSnapshot>): AgentStatus {
  const { families = [], problems = [], problemCount = problems.length } = rest
  return {
    version,
    commit,
    isInForce: isInForce !== false,
    families: families.map(({ family = '-', isHealthy, lastSync }) => ({
      family,
      isHealthy: isHealthy !== false,
      lastSync,
    })),
    problemCount,
    problems: problems.map(({ problem = '-' }) => ({ problem })),
  }
}

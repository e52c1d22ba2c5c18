// Asks the agent of this node for its state and its configuration, for the doctor.
import { existsSync } from 'node:fs'
import { askingAt, CommandError } from '../commands/index.js'
import { type ConfigInput, type ProxyMode, readConfig } from '../config/index.js'
import type { AgentStatus } from '../doctor/index.js'

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
  const ask = askingAt(socket)
  try {
    const [status, { documents, mode, node }] = await Promise.all([ask('status'), ask('configuration')])
    const input = readConfig('the agent', Buffer.from(documents), { isStrict: false })
    return {
      socket,
      silence: undefined,
      answer: { status, mode, input: { ...input, hostnameOverride: node } },
    }
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    return { socket, silence: error.message, answer: undefined }
  }
}

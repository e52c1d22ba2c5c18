// The agent of this node, by its answer on the control socket.
import { type Build, buildText } from '../version.js'
import { type AgentStatus, type Check, ok, problemsOr, type Verdict, type Examined } from './check.js'

export const agentChecks: readonly Check[] = [
  {
    name: 'agent',
    looksAt:
      'the answer of a running agent on the control socket: its version, its sync, its present problems',
    run: async (node) => {
      const { socket, silence, status, origin, ownBuild } = node.agent
      if (silence !== undefined)
        return unasked(silence, 'Look at the log of the agent: journalctl -u viaduct, or kubectl logs.')
      if (status === undefined) {
        const [running] = agentProcesses(node)
        if (running === undefined) return ok(`no agent runs: there is no ${socket}`)
        if (node.config.controlSocket === '' || /--control-socket=(?: |$)/u.test(running.command))
          return ok(`an agent runs (pid ${running.pid}), without a control socket`)
        return unasked(
          `an agent runs (pid ${running.pid}), and there is no ${socket}`,
          'Name its socket with --socket (its flag is --control-socket).',
        )
      }
      const { families } = status
      const last = families.map(({ family, lastSync }) => `${family} ${lastSync ?? 'none'}`).join(', ')
      return problemsOr(
        [...lateSync(status), ...presentProblems(status), ...otherBuild(status, ownBuild)],
        `version ${buildText(status)} answers on ${socket}, last sync: ${last}${origin === undefined ? '' : `; ${origin}`}`,
      )
    },
  },
]

function unasked(seen: string, remedy: string): readonly Verdict[] {
  const cause = 'The doctor cannot ask the agent, and checks the node for the flags of this command.'
  return [{ status: 'warning', seen, cause, remedy }]
}

function lateSync({ isInForce, families }: AgentStatus): readonly Verdict[] {
  const late = families.filter(({ isHealthy }) => !isHealthy)
  if (late.length > 0)
    return late.map(({ family, lastSync }) => ({
      status: 'broken',
      seen: `events of ${family} wait for more than two sync periods: ${lastSync === undefined ? 'no sync was complete' : `the last complete sync ended at ${lastSync}`}`,
      cause: 'The kernel does not have the present Services and endpoints.',
      remedy: 'Run viaduct history, which shows what the kernel refused.',
    }))
  if (isInForce) return []
  return [
    {
      status: 'warning',
      seen: 'the agent starts: not everything is in the kernel yet',
      cause: 'Some Services do not work until the first sync is complete.',
      remedy: 'Wait, and run the doctor again; viaduct status shows what the agent waits for.',
    },
  ]
}

function presentProblems({ problemCount, problems }: AgentStatus): readonly Verdict[] {
  const found = problems.map(({ problem }): Verdict => ({
    status: 'warning',
    seen: `the agent reports: ${problem}`,
    cause: 'The problem is present now.',
    remedy: 'docs/errors.md has the cause and the remedy of each problem; viaduct status shows its fields.',
  }))
  if (problemCount <= problems.length) return found
  const more = {
    status: 'warning',
    seen: `the agent reports ${problemCount - problems.length} more problems`,
  } as const
  return [...found, { ...more, cause: 'They are present now.', remedy: 'Read the log of the agent.' }]
}

function otherBuild(agent: Build, own: Build): readonly Verdict[] {
  if (agent.version === own.version && agent.commit === own.commit) return []
  return [
    {
      status: 'warning',
      seen: `the agent has version ${buildText(agent)}, this command ${buildText(own)}`,
      cause: 'The checks are those of another version than the agent that runs.',
      remedy: 'Restart the agent after an upgrade, or run the doctor of its version.',
    },
  ]
}

/** The launcher dist/agent.js, or its link in the image. */
export function isViaduct(command: string): boolean {
  return /(?:^|\/)(?:agent\.js|viaduct)(?: |$)/u.test(command)
}

/** Node with its options, whose values may stand apart, or nothing; then the program without a command such as `doctor` behind it. */
const agentCommand =
  /^(?:\S*\/)?(?:node\w*(?: -\S+(?: (?!\S*(?:agent\.js|viaduct)(?: |$))[^\s-]\S*)?)* (?:\S*\/)?)?(?:agent\.js|viaduct)(?: -| *$)/u

/** The processes of agents. */
export function agentProcesses({ processes }: Pick<Examined, 'processes'>): Examined['processes'] {
  return processes.filter(({ command }) => agentCommand.test(command))
}

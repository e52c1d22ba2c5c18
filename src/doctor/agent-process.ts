import type { Examined } from './check.js'

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

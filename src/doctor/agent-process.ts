import type { Examined } from './check.js'

/** The launcher dist/agent.js, or its link in the image. */
export function isViaduct(command: string): boolean {
  return /(?:^|\/)(?:agent\.js|viaduct)(?: |$)/u.test(command)
}

/** The processes of agents: without a command such as `doctor` behind the program. */
export function agentProcesses({ processes }: Pick<Examined, 'processes'>): Examined['processes'] {
  return processes.filter(({ command }) => /(?:^|\/)(?:agent\.js|viaduct)(?: -| *$)/u.test(command))
}

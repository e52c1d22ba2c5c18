// The table of commands, in the order of the help.
import type { Command } from './command.js'
import { bundleCommand } from './bundle.js'
import { completionCommand } from './completion.js'
import { connectionsCommand } from './connections.js'
import { doctorCommand } from './doctor.js'
import { explainCommand } from './explain.js'
import { handOverCommand } from './hand-over.js'
import { historyCommand } from './history.js'
import { diffCommand, planCommand } from './plan.js'
import { endpointsCommand, routesCommand, servicesCommand } from './services.js'
import { statusCommand } from './status.js'

export const commands: readonly Command[] = [
  statusCommand,
  servicesCommand,
  endpointsCommand,
  routesCommand,
  connectionsCommand,
  explainCommand,
  planCommand,
  diffCommand,
  historyCommand,
  doctorCommand,
  bundleCommand,
  handOverCommand,
  completionCommand,
]

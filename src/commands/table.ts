// The table of commands, in the order of the help.
import type { Command } from './command.js'
import { doctorCommand } from './doctor.js'
import { diffCommand, planCommand } from './plan.js'
import { statusCommand } from './status.js'

export const commands: readonly Command[] = [statusCommand, doctorCommand, planCommand, diffCommand]

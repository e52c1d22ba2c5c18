// The table of commands, in the order of the help.
import type { Command } from './command.js'
import { doctorCommand } from './doctor.js'
import { statusCommand } from './status.js'

export const commands: readonly Command[] = [statusCommand, doctorCommand]

// The table of commands, in the order of the help.
import type { Command } from './command.js'
import { explainCommand } from './explain.js'
import { statusCommand } from './status.js'

export const commands: readonly Command[] = [statusCommand, explainCommand]

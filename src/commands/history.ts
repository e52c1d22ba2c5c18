import type { PassSnapshot } from '../inspect/index.js'
import { printable } from '../words.js'
import { columns } from './columns.js'
import type { Command } from './command.js'
import { operationsText } from './operations.js'

export const historyCommand: Command = {
  name: 'history',
  help: 'the last passes: what each wrote, and how the kernel answered',
  description:
    'Prints the passes that the agent still has, some 60 per IP family, oldest first: the reason, the time in all and until the changed service ports were compiled, the first of these, the operations, and the first failures. The history begins with the process.',
  arguments: [],
  options: [],
  examples: [{ line: 'history', help: 'the last passes' }],
  run: async ({ ask }) => {
    const value = await ask('history')
    return { value, table: () => passTable(value.items) }
  },
}

/** `default/web:http/TCP and 3 more`. */
function changedText({ count, first }: PassSnapshot['changed']): string {
  const [key] = first
  if (key === undefined) return '-'
  return count === 1 ? key : `${key} and ${count - 1} more`
}

/** One line per pass, and an indented line per failure. */
export function passTable(passes: readonly PassSnapshot[]): string {
  const [head = '', ...lines] = columns(
    ['START', 'FAMILY', 'REASON', 'TIME', 'COMPILED', 'RESULT', 'CHANGED', 'OPERATIONS'],
    passes.map((pass) => [
      pass.start,
      pass.family,
      pass.reason,
      `${pass.durationMs.toFixed(1)} ms`,
      pass.changed.count === 0 ? '-' : `${pass.compiledMs.toFixed(1)} ms`,
      pass.isComplete ? 'complete' : 'failed',
      changedText(pass.changed),
      operationsText(pass.operations),
    ]),
  ).split(/(?<=\n)/u)
  const withFailures = lines.map((line, at) => {
    const failures = passes[at]?.failures ?? []
    return `${line}${failures.map((failure) => `  ${printable(failure)}\n`).join('')}`
  })
  return `${head}${withFailures.join('')}`
}

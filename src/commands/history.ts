import type { PassSnapshot } from '../inspect/index.js'
import { type Cell, columns, printable } from '../words.js'
import type { Command } from './command.js'
import type { Known } from './shapes.js'

type Pass = Known<PassSnapshot>

export const historyCommand: Command = {
  name: 'history',
  help: 'the last passes: their cause, the time of each stage, what each wrote, and how the kernel answered',
  description:
    "Prints the passes that the agent still has, some 60 per IP family, oldest first. WAITED: from the oldest event of the pass to its start. It includes the minimum time between passes, and earlier passes that failed. TIME: the pass itself, which is COMPILE (the changed service ports are decided and compiled), PLAN (the desired state is compared with the acknowledged one, and operations are made) and KERNEL (the pass waits for the kernel, and neither compiles nor plans meanwhile). Then come the first changed service ports and the numbers of operations. Lines below name the objects whose events the pass was for (no such line: no event, as in a retry, in a reconcile, or after a change of the node's addresses), the first operations, and the first failures. The history begins with the process.",
  arguments: [],
  options: [],
  examples: [
    { line: 'history', help: 'the last passes' },
    {
      line: 'history -o json',
      help: 'up to eight objects, service ports, operations and failures of each pass',
    },
  ],
  run: async ({ ask }) => {
    const { value, known } = await ask('history')
    return { value, table: () => passTable(known.items ?? [], stageColumns, causeLines) }
  },
}

/** Operations of a pass that the table names. */
const shownOperations = 4

/** `default/web:http/TCP and 3 more`. */
function firstName({ first: [name] = [], count = 1 }: NonNullable<Pass['changed']>): string {
  if (name === undefined) return '-'
  return count === 1 ? name : `${name} and ${count - 1} more`
}

/** The time of a stage; `-`: the pass does not have the stage, or the agent did not send it. */
function stageText(ms: number | undefined): string {
  return ms === undefined ? '-' : `${ms.toFixed(1)} ms`
}

/** The objects that a pass is for, its first operations, and its failures. */
function causeLines(pass: Pass): readonly string[] {
  const { objects = {}, operations = {}, firstOperations = [] } = pass
  const shown = firstOperations.slice(0, shownOperations)
  const counts = Object.values(operations).flatMap((byName) => Object.values(byName))
  const all = counts.reduce(
    (sum, { applied = 0, refused = 0, unanswered = 0 }) => sum + applied + refused + unanswered,
    0,
  )
  const rest = all - shown.length
  return [
    ...objectLines(objects),
    ...shown,
    ...(shown.length > 0 && rest > 0 ? [`and ${rest} more operations`] : []),
    ...failureLines(pass),
  ]
}

export const failureLines = ({ failures = [] }: Pass): readonly string[] => failures

/** The line for the objects of a pass; none: it was for no event. */
function objectLines({ first = [], count = first.length }: NonNullable<Pass['objects']>): readonly string[] {
  if (count === 0) return []
  return [`for ${first.join(', ')}${count > first.length ? ` and ${count - first.length} more` : ''}`]
}

/** A column with the time of a stage. */
type StageColumn = readonly [heading: string, text: (pass: Pass) => Cell]

const stageColumns: readonly StageColumn[] = [
  ['COMPILE', ({ changed, stages }) => (changed?.count === 0 ? '-' : stageText(stages?.compileMs))],
  ['PLAN', ({ stages }) => stageText(stages?.planMs)],
  ['KERNEL', ({ stages }) => stageText(stages?.kernelMs)],
]

/** One line per pass, with these stages, and an indented line for each of `below`. */
export function passTable(
  passes: readonly Pass[],
  stages: readonly StageColumn[],
  below: (pass: Pass) => readonly string[],
): string {
  const [head = '', ...lines] = columns(
    [
      'START',
      'FAMILY',
      'REASON',
      'WAITED',
      'TIME',
      ...stages.map(([heading]) => heading),
      'RESULT',
      'CHANGED',
      'OPERATIONS',
    ],
    passes.map((pass) => [
      pass.start,
      pass.family,
      pass.reason,
      stageText(pass.stages?.waitingMs),
      stageText(pass.durationMs),
      ...stages.map(([, text]) => text(pass)),
      pass.isComplete === undefined ? undefined : pass.isComplete ? 'complete' : 'failed',
      firstName(pass.changed ?? {}),
      operationsText(pass.operations ?? {}),
    ]),
  ).split(/(?<=\n)/u)
  const withMore = lines.map((line, at) => {
    const pass = passes[at]
    const more = pass === undefined ? [] : below(pass)
    return `${line}${more.map((text) => `  ${printable(text)}\n`).join('')}`
  })
  return `${head}${withMore.join('')}`
}

type Operations = NonNullable<Known<PassSnapshot>['operations']>
type OperationCount = Operations[string][string]

/** `nat 2 set-chain; ipvs 12 add-virtual-server, 3 set (1 refused)`. */
function operationsText(operations: Operations): string {
  return Object.entries(operations)
    .map(([kind, counts]) => `${kind} ${Object.entries(counts).map(countText).join(', ')}`)
    .join('; ')
}

function countText([name, { applied, refused = 0, unanswered = 0 }]: readonly [
  string,
  OperationCount,
]): string {
  const failed = [
    ...(refused > 0 ? [`${refused} refused`] : []),
    ...(unanswered > 0 ? [`${unanswered} unanswered`] : []),
  ]
  return `${applied ?? '-'} ${name}${failed.length === 0 ? '' : ` (${failed.join(', ')})`}`
}

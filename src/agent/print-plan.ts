// The report of `viaduct plan` and `viaduct diff`: a value for programs, and text for people.
import { isLasting, type KernelOperation, type OperationTool } from '../inspect/index.js'
import type { ProxyMode } from '../config/index.js'
import type { Plan } from './plan.js'

/** Numbers of operations. */
export interface PlanCount {
  readonly tool: OperationTool
  readonly added: number
  readonly removed: number
  readonly changed: number
}

export interface PlanReport {
  readonly mode: ProxyMode
  /** Why another mode than the configured one runs, in a sentence; absent: the configured mode runs. */
  readonly fallback?: string
  /** The kernel differs from what the agent desires. */
  readonly hasChanges: boolean
  /** Modules of the kernel that are not loaded. Their parts count as empty. */
  readonly modulesNotLoaded: readonly string[]
  /** Settings that a start writes, and that this process may not write: `-w NAME=VALUE`. They are not among the operations. */
  readonly refusedSettings: readonly string[]
  readonly counts: readonly PlanCount[]
  /** Work that changes no lasting state of the kernel: flows to delete, ports and addresses that the agent listens on. */
  readonly whileRunning: readonly PlanCount[]
  /** Absent with --summary. */
  readonly operations?: readonly ReportedOperation[]
}

export interface ReportedOperation extends KernelOperation {
  /** `namespace/name:port/protocol` of the service port that the object belongs to; absent: all share it, or it is not known. */
  readonly service?: string
}

export interface ReportOptions {
  readonly isSummary: boolean
  readonly modulesNotLoaded: readonly string[]
  readonly serviceOf?: (operation: KernelOperation) => string | undefined
}

/** The tools in the order of the report, with the command that reads their lines. */
const commands: Readonly<Record<OperationTool, string>> = {
  sysctl: 'sysctl',
  ip: 'ip -batch -',
  nft: 'nft -f -',
  'iptables-legacy': 'iptables-legacy-restore --noflush --wait',
  'ip6tables-legacy': 'ip6tables-legacy-restore --noflush --wait',
  'iptables-nft': 'iptables-nft-restore --noflush',
  'ip6tables-nft': 'ip6tables-nft-restore --noflush',
  ipset: 'ipset restore',
  ipvsadm: 'ipvsadm --restore',
  conntrack: 'conntrack',
  ports: 'held ports (no tool)',
  relay: 'relay (no tool)',
}
const tools = Object.keys(commands).filter((tool): tool is OperationTool => tool in commands)

/** Operations that one run of a tool makes. */
interface Section<Operation extends KernelOperation> {
  readonly tool: OperationTool
  readonly operations: readonly Operation[]
}

/**
 * The sections in an order in which the tools can run. Rules of x_tables need their sets: those are made before the rules. The last
 * operation on a set, if it destroys the set, comes after the rules.
 */
function sectionsOf<Operation extends KernelOperation>(
  operations: readonly Operation[],
): readonly Section<Operation>[] {
  const of = (tool: OperationTool): readonly Operation[] =>
    operations.filter((operation) => operation.tool === tool)
  const sets = of('ipset')
  const lastOn = new Map(
    sets.flatMap((operation) => setsIn(operation).map((set) => [set, operation] as const)),
  )
  const isEnd = (operation: Operation): boolean =>
    operation.text.startsWith('destroy ') && setsIn(operation).every((set) => lastOn.get(set) === operation)
  return tools
    .flatMap((tool): readonly Section<Operation>[] => {
      if (tool === 'ipset') return [{ tool, operations: sets.filter(isEnd) }]
      const own = { tool, operations: of(tool) }
      const first = sets.filter((operation) => !isEnd(operation))
      return tool === 'nft' ? [own, { tool: 'ipset', operations: first }] : [own]
    })
    .filter(({ operations: own }) => own.length > 0)
}

/** The names of the sets in a line of ipset. */
function setsIn({ text }: KernelOperation): readonly string[] {
  const [command = '', ...names] = text.split(' ')
  return names.slice(0, command === 'swap' || command === 'rename' ? 2 : 1)
}

const modulesOf: Readonly<Partial<Record<OperationTool, string>>> = {
  nft: 'nf_tables',
  'iptables-nft': 'nf_tables',
  'ip6tables-nft': 'nf_tables',
  ipset: 'ip_set',
  ipvsadm: 'ip_vs',
}

/** A plan, and its transactions as commands. */
export interface PrintedPlan extends Omit<Plan, 'desired'> {
  readonly operations: readonly KernelOperation[]
  /** Settings that differ from the desired value, and that this process may not write: `-w NAME=VALUE`. */
  readonly refusedSettings: readonly string[]
}

export function reportPlan(
  { mode, fallback, operations, refusedSettings }: PrintedPlan,
  { isSummary, modulesNotLoaded, serviceOf = () => undefined }: ReportOptions,
): PlanReport {
  const sorted = sectionsOf(operations).flatMap(({ operations: own }) => own)
  const used = new Set(sorted.map(({ tool }) => modulesOf[tool]))
  return {
    mode,
    ...(fallback === undefined ? {} : { fallback }),
    hasChanges: sorted.some(isLasting),
    modulesNotLoaded: modulesNotLoaded.filter((module) => used.has(module)),
    refusedSettings,
    counts: countsOf(sorted.filter(isLasting)),
    whileRunning: countsOf(sorted.filter((operation) => !isLasting(operation))),
    ...(isSummary ? {} : { operations: sorted.map((operation) => withService(operation, serviceOf)) }),
  }
}

function withService(
  operation: KernelOperation,
  serviceOf: NonNullable<ReportOptions['serviceOf']>,
): ReportedOperation {
  const service = serviceOf(operation)
  return service === undefined ? operation : { ...operation, service }
}

function countsOf(operations: readonly KernelOperation[]): readonly PlanCount[] {
  return tools.flatMap((tool) => {
    const own = operations.filter((operation) => operation.tool === tool)
    if (own.length === 0) return []
    const count = (effect: KernelOperation['effect']): number =>
      own.filter((operation) => operation.effect === effect).length
    return [{ tool, added: count('add'), removed: count('remove'), changed: count('change') }]
  })
}

/** The heading of a section. */
function headingOf(tool: OperationTool): string {
  return `# ${commands[tool]}`
}

/** The plan as text: the counts, then the commands of each tool. */
export function printPlan(report: PlanReport): string {
  const sections = sectionsOf(report.operations ?? []).map(
    ({ tool, operations }) => `\n${headingOf(tool)}\n${linesOf(operations).join('\n')}\n`,
  )
  return `${headOf(report, 'no change')}${sections.join('')}`
}

/** The differences as text: `-` the kernel has it, `+` the agent desires it. */
export function printDiff(report: PlanReport): string {
  const { operations = [] } = report
  const lines = operations.filter(isLasting).map(({ tool, table, effect, text, service }) => {
    const place = table === undefined ? '' : ` -t ${table}`
    const owner = service === undefined ? '' : `   # ${service}`
    return `${effect === 'remove' ? '-' : '+'} ${tool}${place} ${text}${owner}\n`
  })
  return `${headOf({ ...report, whileRunning: [], refusedSettings: [] }, 'no difference')}${lines.length === 0 ? '' : '\n'}${lines.join('')}`
}

function headOf(
  { mode, fallback, hasChanges, modulesNotLoaded, refusedSettings, counts, whileRunning }: PlanReport,
  none: string,
): string {
  const lines = [
    `mode: ${mode}`,
    ...(fallback === undefined ? [] : [`fallback: ${fallback}`]),
    ...counts.map(countText),
    ...(hasChanges ? [] : [none]),
    ...(whileRunning.length === 0
      ? []
      : [
          `while the agent runs: ${whileRunning.map(({ tool, added, removed }) => `${tool} ${added + removed}`).join(', ')}`,
        ]),
    ...refusedSettings.map((text) => `this process may not write: sysctl ${text}`),
    ...modulesNotLoaded.map(
      (module) =>
        `module not loaded: ${module}; the plan assumes that it loads, and takes its state as empty`,
    ),
  ]
  return `${lines.join('\n')}\n`
}

/** `nft: 196 added, 2 removed`. */
function countText({ tool, added, removed, changed }: PlanCount): string {
  const parts = [
    [added, 'added'],
    [removed, 'removed'],
    [changed, 'changed'],
  ] as const
  const texts = parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`)
  return `${tool}: ${texts.join(', ')}`
}

/** The lines of a tool. iptables-restore reads them table by table. */
function linesOf(operations: readonly KernelOperation[]): readonly string[] {
  const [first] = operations
  if (first?.table === undefined) return operations.map(({ text }) => text)
  const tables = [...new Set(operations.map(({ table }) => table))]
  return tables.flatMap((table) => [
    `*${table}`,
    ...operations.filter((operation) => operation.table === table).map(({ text }) => text),
    'COMMIT',
  ])
}

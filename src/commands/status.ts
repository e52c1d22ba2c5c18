import { type Cell, columns, pairs, duration, printable } from '../words.js'
import type { ProblemSnapshot, StatusSnapshot } from '../inspect/index.js'
import { buildText } from '../version.js'
import type { Command } from './command.js'
import { failureLines, passTable } from './history.js'
import type { Known } from './shapes.js'

type Status = Known<StatusSnapshot>
type Family = NonNullable<Status['families']>[number]

export const statusCommand: Command = {
  name: 'status',
  help: 'the state of the agent on one screen',
  description:
    'Prints the mode, the state of each IP family, the source of the objects, differences that other programs made in the kernel, the problems that are present now, and the last passes.',
  arguments: [],
  options: [],
  examples: [
    { line: 'status', help: 'the state of the agent' },
    { line: 'status -o json', help: 'the same for programs' },
  ],
  run: async ({ ask }) => {
    const { value, known } = await ask('status')
    return { value, table: () => statusTable(known) }
  },
}

/** The screen of `viaduct status`, with a line feed at its end. `-` stands for what the agent did not send. */
export function statusTable(status: Status): string {
  const { isInForce, families, passes } = status
  const head = pairs([
    ['Version', versionText(status)],
    ['Node', status.node],
    ['Mode', modeText(status.mode ?? {})],
    ['Sync', syncText(status)],
    ['Source', sourceText(status.source ?? {})],
    ['Drift', driftText(status)],
  ])
  const perFamily = columns(
    ['FAMILY', 'IN FORCE', 'LAST SYNC', 'SERVICE PORTS', 'ENDPOINTS'],
    (families ?? []).map((family) => [
      family.family,
      inForceText(family),
      family.lastSync,
      family.servicePorts,
      family.endpoints,
    ]),
  )
  const hasFamilies = isInForce === true || (families ?? []).length > 0
  return [head, hasFamilies ? perFamily : '', problemsText(status), passesText(passes)]
    .filter((part) => part !== '')
    .join('\n')
}

function versionText({ version, commit, uptimeSeconds }: Status): Cell {
  if (version === undefined) return undefined
  const up = uptimeSeconds === undefined ? '-' : duration(uptimeSeconds)
  return `${buildText({ version, commit })}, up ${up}`
}

/** `iptables (flavour nft, configured: nftables)`. */
function modeText({ active, configured, flavour }: NonNullable<Status['mode']>): Cell {
  const remarks = [
    ...(flavour === undefined ? [] : [`flavour ${flavour}`]),
    ...(configured === undefined || active === configured ? [] : [`configured: ${configured}`]),
  ]
  return remarks.length === 0 ? active : `${active ?? '-'} (${remarks.join(', ')})`
}

function syncText({ isInForce, families, source }: Status): Cell {
  if (isInForce === undefined || families === undefined) return undefined
  if (!isInForce && (source?.objectsNotApplied ?? 0) > 0)
    return 'incomplete: some objects are not applied; what an earlier run programmed for them stays'
  const refused = families.filter(({ hasRefusals }) => hasRefusals === true)
  if (refused.length > 0)
    return `incomplete: the kernel refuses objects of ${namesOf(refused)}, which the problems below name`
  const late = families.filter(({ isHealthy }) => isHealthy === false)
  if (!isInForce && late.length > 0)
    return 'failing: not everything is in the kernel; the problems below say why'
  if (!isInForce) return 'starting: not everything is in the kernel yet'
  if (late.length === 0) return 'up to date'
  return `late: events of ${namesOf(late)} wait for more than two sync periods`
}

function namesOf(families: readonly Family[]): string {
  return families.map(({ family = '-' }) => family).join(' and ')
}

function inForceText({ isInForce, hasRefusals }: Family): Cell {
  if (isInForce === undefined) return undefined
  if (!isInForce) return 'no'
  return hasRefusals === true ? 'in part' : 'yes'
}

function sourceText({
  kind,
  kindsNotWatched = 0,
  objectsNotApplied = 0,
}: NonNullable<Status['source']>): Cell {
  if (kind === undefined) return undefined
  const parts = [kind === 'api' ? 'Kubernetes API' : kind]
  if (kindsNotWatched > 0) parts.push(`kinds of objects that cannot be watched: ${kindsNotWatched}`)
  if (objectsNotApplied > 0) parts.push(`objects that are not applied: ${objectsNotApplied}`)
  return parts.join(', ')
}

function driftText({ drift }: Status): Cell {
  if (drift?.length === 0) return 'none'
  return drift?.map(({ family = '-', kind = '-', count = '-' }) => `${count} ${kind} (${family})`).join(', ')
}

function problemsText({ problems = [], problemCount }: Status): string {
  const rest = (problemCount ?? 0) - problems.length
  const lines = [...problems.map(problemLine), ...(rest > 0 ? [`and ${rest} more: see the log`] : [])]
  const count = problemCount === 0 ? 'none' : (problemCount ?? '-')
  return `Problems: ${count}\n${lines.map((line) => `  ${line}\n`).join('')}`
}

function problemLine({ level = '-', problem = '-', fields = {} }: Known<ProblemSnapshot>): string {
  const ends = Object.entries(fields).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`)
  return `${printable(level.toUpperCase()).padEnd(5)} ${printable(`${problem}${ends.join('')}`)}`
}

function passesText(passes: Status['passes']): string {
  if (passes === undefined) return 'Passes: -\n'
  return passes.length === 0 ? 'Passes: none\n' : passTable(passes, [], failureLines)
}

import type { ProblemSnapshot, StatusSnapshot } from '../inspect/index.js'
import { buildText } from '../version.js'
import { duration, printable } from '../words.js'
import { columns, pairs } from './columns.js'
import type { Command } from './command.js'
import { failureLines, passTable } from './history.js'

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
    const value = await ask('status')
    return { value, table: () => statusTable(value) }
  },
}

/** The screen of `viaduct status`, with a line feed at its end. */
export function statusTable(status: StatusSnapshot): string {
  const { node, mode, isInForce, families, source, drift, uptimeSeconds } = status
  const head = pairs([
    ['Version', `${buildText(status)}, up ${duration(uptimeSeconds)}`],
    ['Node', node],
    ['Mode', modeText(mode)],
    ['Sync', syncText(status)],
    ['Source', sourceText(source)],
    [
      'Drift',
      drift.length === 0
        ? 'none'
        : drift.map(({ family, kind, count }) => `${count} ${kind} (${family})`).join(', '),
    ],
  ])
  const perFamily = columns(
    ['FAMILY', 'IN FORCE', 'LAST SYNC', 'SERVICE PORTS', 'ENDPOINTS'],
    families.map((family) => [
      family.family,
      inForceText(family),
      family.lastSync ?? '',
      family.servicePorts,
      family.endpoints,
    ]),
  )
  const problems = `Problems: ${status.problemCount === 0 ? 'none' : status.problemCount}\n${problemLines(status)}`
  const passes = status.passes.length === 0 ? 'Passes: none\n' : passTable(status.passes, [], failureLines)
  return [head, isInForce || families.length > 0 ? perFamily : '', problems, passes]
    .filter((part) => part !== '')
    .join('\n')
}

/** `iptables (flavour nft, configured: nftables)`. */
function modeText({ active, configured, flavour }: StatusSnapshot['mode']): string {
  const remarks = [
    ...(flavour === undefined ? [] : [`flavour ${flavour}`]),
    ...(active === configured ? [] : [`configured: ${configured}`]),
  ]
  return remarks.length === 0 ? active : `${active} (${remarks.join(', ')})`
}

function syncText({ isInForce, families, source }: StatusSnapshot): string {
  if (!isInForce && source.objectsNotApplied > 0)
    return 'incomplete: some objects are not applied; what an earlier run programmed for them stays'
  const refused = families.filter(({ hasRefusals }) => hasRefusals)
  if (refused.length > 0)
    return `incomplete: the kernel refuses objects of ${namesOf(refused)}, which the problems below name`
  const late = families.filter(({ isHealthy }) => !isHealthy)
  if (!isInForce && late.length > 0)
    return 'failing: not everything is in the kernel; the problems below say why'
  if (!isInForce) return 'starting: not everything is in the kernel yet'
  if (late.length === 0) return 'up to date'
  return `late: events of ${namesOf(late)} wait for more than two sync periods`
}

function namesOf(families: StatusSnapshot['families']): string {
  return families.map(({ family }) => family).join(' and ')
}

function inForceText({ isInForce, hasRefusals }: StatusSnapshot['families'][number]): string {
  if (!isInForce) return 'no'
  return hasRefusals ? 'in part' : 'yes'
}

function sourceText({ kind, kindsNotWatched, objectsNotApplied }: StatusSnapshot['source']): string {
  const parts = [kind === 'api' ? 'Kubernetes API' : 'manifests']
  if (kindsNotWatched > 0) parts.push(`kinds of objects that cannot be watched: ${kindsNotWatched}`)
  if (objectsNotApplied > 0) parts.push(`objects that are not applied: ${objectsNotApplied}`)
  return parts.join(', ')
}

function problemLines({ problems, problemCount }: StatusSnapshot): string {
  const rest = problemCount - problems.length
  const lines = [...problems.map(problemLine), ...(rest > 0 ? [`and ${rest} more: see the log`] : [])]
  return lines.map((line) => `  ${line}\n`).join('')
}

function problemLine({ level, problem, fields }: ProblemSnapshot): string {
  const ends = Object.entries(fields).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`)
  return `${level.toUpperCase().padEnd(5)} ${printable(`${problem}${ends.join('')}`)}`
}

// The table of checks, in the order of the report; their findings, what changed since an earlier run, and both as text.
import { agentChecks } from './agent-checks.js'
import { apiChecks } from './api-checks.js'
import { barrierChecks } from './barrier-checks.js'
import { asRoot, type Check, type Examined, type Finding } from './check.js'
import { connectionChecks, pathChecks } from './network-checks.js'
import { limitChecks } from './limit-checks.js'
import { lockCheck, machineChecks } from './machine-checks.js'
import { modeChecks } from './mode-checks.js'
import { proxyChecks } from './proxy-checks.js'
import { ruleChecks } from './rule-checks.js'

/** The table of checks, in the order of the report. */
export const checks: readonly Check[] = [
  ...agentChecks,
  ...modeChecks,
  ...proxyChecks,
  ...ruleChecks,
  ...barrierChecks,
  ...pathChecks,
  lockCheck,
  ...limitChecks,
  ...machineChecks,
  ...connectionChecks,
  ...apiChecks,
]

/** Runs all checks at once. A check that fails has the status `unknown`, and the others run nevertheless. */
export async function diagnose(node: Examined): Promise<readonly Finding[]> {
  const findings = await Promise.all(
    checks.map(async (check) =>
      (await verdictsOf(check, node)).map((verdict): Finding => ({ check: check.name, ...verdict })),
    ),
  )
  return findings.flat()
}

async function verdictsOf(check: Check, node: Examined): ReturnType<Check['run']> {
  try {
    return await check.run(node)
  } catch (error) {
    const seen = error instanceof Error ? error.message : String(error)
    const cause = `The check could not read ${check.looksAt}.`
    return [{ status: 'unknown', seen, cause, remedy: asRoot }]
  }
}

/** The problems of one run of the checks that the other run does not have, in the order of the report. */
interface Changes {
  readonly begun: readonly Finding[]
  readonly ended: readonly Finding[]
}

/** Two problems are the same if check, status and text agree. Findings that are `ok` do not count. */
export function changesBetween(before: readonly Finding[], after: readonly Finding[]): Changes {
  return { begun: missingIn(before, after), ended: missingIn(after, before) }
}

function missingIn(some: readonly Finding[], others: readonly Finding[]): readonly Finding[] {
  const known = new Set(some.map(keyOf))
  return others.filter((finding) => finding.status !== 'ok' && !known.has(keyOf(finding)))
}

function keyOf({ check, status, seen }: Finding): string {
  return `${status} ${check} ${seen}`
}

const order = ['broken', 'warning', 'unknown'] as const

/** Problems first, then what is fine in one line. `isAll`: a line for each check that is fine. */
export function printFindings(findings: readonly Finding[], isAll: boolean): string {
  const fine = findings.filter(({ status }) => status === 'ok')
  const lines = [printProblems(findings)]
  if (isAll) lines.push(...fine.map(({ check, seen }) => `ok       ${check}: ${seen}\n`))
  else
    lines.push(
      `ok       ${fine.length} of ${findings.length}: ${fine.map(({ check }) => check).join(', ')}\n`,
    )
  return lines.join('')
}

/** A line with the time, then the problems that began, and one line for each that ended. Empty: nothing changed. */
export function printChanges({ begun, ended }: Changes, time: string): string {
  if (begun.length + ended.length === 0) return ''
  const ends = ended.map(({ check, seen }) => `ended    ${check}: ${seen}\n`)
  return `${time}\n${printProblems(begun)}${ends.join('')}`
}

function printProblems(findings: readonly Finding[]): string {
  return order
    .flatMap((status) => findings.filter((finding) => finding.status === status))
    .map(describe)
    .join('')
}

function describe(finding: Finding): string {
  const head = `${finding.status.padEnd(8)} ${finding.check}: ${finding.seen}\n`
  return finding.status === 'ok' ? head : `${head}         ${finding.cause}\n         ${finding.remedy}\n`
}

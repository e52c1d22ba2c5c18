import type { Changes } from './changes.js'
import type { Finding } from './check.js'

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

import type { Finding } from './check.js'

const order = ['broken', 'warning', 'unknown'] as const

/** Problems first, then what is fine in one line. `isAll`: a line for each check that is fine. */
export function printFindings(findings: readonly Finding[], isAll: boolean): string {
  const problems = order.flatMap((status) => findings.filter((finding) => finding.status === status))
  const fine = findings.filter(({ status }) => status === 'ok')
  const lines = problems.map(describe)
  if (isAll) lines.push(...fine.map(({ check, seen }) => `ok       ${check}: ${seen}\n`))
  else
    lines.push(
      `ok       ${fine.length} of ${fine.length + problems.length}: ${fine.map(({ check }) => check).join(', ')}\n`,
    )
  return lines.join('')
}

function describe(finding: Finding): string {
  const head = `${finding.status.padEnd(8)} ${finding.check}: ${finding.seen}\n`
  return finding.status === 'ok' ? head : `${head}         ${finding.cause}\n         ${finding.remedy}\n`
}

import type { Finding } from './check.js'

/** The problems of one run of the checks that the other run does not have, in the order of the report. */
export interface Changes {
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

// The figures of bench/upgrade/run.ts as a table of Markdown, and the promises that they break.

const headings = [
  'mode',
  'change',
  'tried',
  'failed',
  'slowest',
  'moved',
  'stale',
  'diff',
  'lines of others',
  'objects',
]

/** @param {readonly any[]} results of each mode */
export function table(results) {
  const rows = results.flatMap(({ mode, changes, left }) => [
    ...changes.map((change) => row(mode, change)),
    [mode, 'clean-up', '', '', '', '', '', '', '', objectsText(left)],
  ])
  const lines = [headings, headings.map(() => '---'), ...rows]
  return `${lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n`
}

/** @param {string} mode @param {any} change */
function row(mode, { to, end, tried, failed, slowestMs, moved, stale, differences, foreign, objects }) {
  const counts = [tried, failed, `${slowestMs} ms`, moved, stale, differences.length, foreign.length]
  return [mode, `to the ${to} one, ${end}`, ...counts, objectsText(objects)]
}

/** @param {Record<string, number>} counts by kind */
function objectsText(counts) {
  const present = Object.entries(counts).filter(([, count]) => count > 0)
  return present.map(([kind, count]) => `${count} ${kind}`).join(', ') || 'none'
}

/**
 * A sentence for each figure that docs/releasing.md does not allow. A relay ends with its process: in userspace mode connections fail
 * meanwhile, and clients with affinity move.
 * @param {any} result of one mode
 * @returns {readonly string[]}
 */
export function brokenPromises({ mode, changes, left }) {
  const isRelay = mode === 'userspace'
  const broken = changes.flatMap(({ to, end, failed, failures, moved, stale, differences, foreign, lost }) =>
    [
      ...(isRelay || failed === 0
        ? []
        : [
            `${failed} attempts failed: ${failures.slice(0, 3).join('; ')}; counters of lost packets: ${lost}`,
          ]),
      ...(isRelay || moved === 0 ? [] : [`${moved} clients with affinity moved`]),
      ...(stale === 0 ? [] : [`${stale} servers that were gone answered`]),
      ...(differences.length === 0
        ? []
        : [`viaduct diff is not empty: ${differences.slice(0, 3).join('; ')}`]),
      ...(foreign.length === 0 ? [] : [`lines of others changed: ${foreign.slice(0, 3).join('; ')}`]),
    ].map((sentence) => `  ${mode}, to the ${to} one, ${end}: ${sentence}`),
  )
  const kinds = Object.entries(left).filter(([, count]) => count > 0)
  return [...broken, ...kinds.map(([kind, count]) => `  ${mode}, after --cleanup: ${count} ${kind} are left`)]
}

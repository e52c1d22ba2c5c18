// Numbers as people read them.
import type { PassSnapshot } from '../inspect/index.js'

type OperationCount = PassSnapshot['operations'][string][string]

/** `45s`, `12m`, `3h7m`, `4d2h`. */
export function duration(seconds: number): string {
  const [minutes, hours, days] = [seconds / 60, seconds / 3600, seconds / 86_400].map(Math.floor)
  if (days !== undefined && days > 0) return `${days}d${(hours ?? 0) % 24}h`
  if (hours !== undefined && hours > 0) return `${hours}h${(minutes ?? 0) % 60}m`
  return seconds >= 60 ? `${minutes}m` : `${seconds}s`
}

/** `nat 2 set-chain; ipvs 12 add-virtual-server, 3 set (1 refused)`. */
export function operationsText(operations: PassSnapshot['operations']): string {
  return Object.entries(operations)
    .map(([kind, counts]) => `${kind} ${Object.entries(counts).map(countText).join(', ')}`)
    .join('; ')
}

function countText([name, { applied, refused, unanswered }]: readonly [string, OperationCount]): string {
  const failed = [
    ...(refused > 0 ? [`${refused} refused`] : []),
    ...(unanswered > 0 ? [`${unanswered} unanswered`] : []),
  ]
  return `${applied} ${name}${failed.length === 0 ? '' : ` (${failed.join(', ')})`}`
}

// Numbers as people read them.
import type { PassSnapshot } from '../inspect/index.js'

/** `45s`, `12m`, `3h7m`, `4d2h`. */
export function duration(seconds: number): string {
  const [minutes, hours, days] = [seconds / 60, seconds / 3600, seconds / 86_400].map(Math.floor)
  if (days !== undefined && days > 0) return `${days}d${(hours ?? 0) % 24}h`
  if (hours !== undefined && hours > 0) return `${hours}h${(minutes ?? 0) % 60}m`
  return seconds >= 60 ? `${minutes}m` : `${seconds}s`
}

/** `12 add-virtual-server, 3 set (1 refused)`. */
export function operationsText(operations: PassSnapshot['operations']): string {
  const counts = Object.values(operations).flatMap((kind) => Object.entries(kind))
  return counts
    .map(([name, { applied, refused, unanswered }]) => {
      const failed = [
        ...(refused > 0 ? [`${refused} refused`] : []),
        ...(unanswered > 0 ? [`${unanswered} unanswered`] : []),
      ]
      return `${applied} ${name}${failed.length === 0 ? '' : ` (${failed.join(', ')})`}`
    })
    .join(', ')
}

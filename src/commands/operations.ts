// The operations of a pass as people read them.
import type { PassSnapshot } from '../inspect/index.js'
import type { Known } from './shape.js'

type Operations = NonNullable<Known<PassSnapshot>['operations']>
type OperationCount = Operations[string][string]

/** `nat 2 set-chain; ipvs 12 add-virtual-server, 3 set (1 refused)`. */
export function operationsText(operations: Operations): string {
  return Object.entries(operations)
    .map(([kind, counts]) => `${kind} ${Object.entries(counts).map(countText).join(', ')}`)
    .join('; ')
}

function countText([name, { applied, refused = 0, unanswered = 0 }]: readonly [
  string,
  OperationCount,
]): string {
  const failed = [
    ...(refused > 0 ? [`${refused} refused`] : []),
    ...(unanswered > 0 ? [`${unanswered} unanswered`] : []),
  ]
  return `${applied ?? '-'} ${name}${failed.length === 0 ? '' : ` (${failed.join(', ')})`}`
}

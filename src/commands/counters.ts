// The columns of `--counters`.
import type { ServiceRow } from '../inspect/index.js'
import type { Option } from './command.js'

type Counters = NonNullable<ServiceRow['counters']>

export const countersOption: Option = {
  name: 'counters',
  help: 'read the counters of the kernel too',
}

export const counterHeadings = [
  'CONNECTIONS',
  'ACTIVE',
  'INACTIVE',
  'PACKETS IN',
  'PACKETS OUT',
  'BYTES IN',
  'BYTES OUT',
] as const

/** Blank: this mode has no such counter. */
export function counterCells(counters: Counters = {}): readonly (string | number)[] {
  return [
    counters.connections ?? '',
    counters.activeConnections ?? '',
    counters.inactiveConnections ?? '',
    counters.packetsIn ?? '',
    counters.packetsOut ?? '',
    counters.bytesIn ?? '',
    counters.bytesOut ?? '',
  ]
}

/** For descriptions. */
export const countersText =
  'With --counters it shows how many connections and how much traffic there were, instead of the other columns. A blank counter does not exist in this proxy mode (docs/operations.md, section Counters).'

// The option --counters.
import type { Option } from './command.js'

export const countersOption: Option = {
  name: 'counters',
  help: 'read the counters of the kernel too',
}

/** For descriptions. */
export const countersText =
  'With --counters it shows how many connections and how much traffic there were, instead of the other columns. A counter shown as - does not exist in this proxy mode, or the kernel has no object for the row now (docs/operations.md, section Counters).'

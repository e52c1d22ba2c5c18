// The option --counters.
import type { Option } from './command.js'

export const countersOption: Option = {
  name: 'counters',
  help: 'read the counters of the kernel too',
}

/** For descriptions. */
export const countersText =
  'With --counters it shows how many connections and how much traffic there were, instead of the other columns. A blank counter does not exist in this proxy mode (docs/operations.md, section Counters).'

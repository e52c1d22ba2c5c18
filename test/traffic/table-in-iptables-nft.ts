// The differences of the traffic table in iptables mode of the flavour nft, each with its reason. docs/iptables-nft.md has them for
// operators.
import { caseIn, type Differences } from './table-differences.js'
import type { TrafficGroup } from './table/index.js'

/** By the names of cases. */
const differences: Differences = {
  "connections, UDP flows and affinity go on over a takeover from kube-proxy's rules": {
    reason:
      "the table of the Services does not have the clients that the rules of kube-proxy's iptables mode remember",
    instead: (check) => (check.kind === 'affinity' ? [] : [check]),
  },
}

/** The groups as iptables mode of the flavour nft has to meet them. */
export function inIptablesNft(groups: readonly TrafficGroup[]): readonly TrafficGroup[] {
  return groups.map((group) => ({
    ...group,
    cases: group.cases.flatMap((row) => caseIn(row, differences[row.name])),
  }))
}

import type { IpFamily } from '../../address.js'

/** The actions of policy routing rules. `table`: look into a routing table. */
export const ruleActions = ['table', 'goto', 'nop', 'blackhole', 'unreachable', 'prohibit'] as const

/** A policy routing rule of any program, as far as it concerns the packet mark. Its other conditions are left out. */
export interface PolicyRule {
  readonly family: IpFamily
  readonly priority: number
  readonly mark: number
  /** The bits of the mark that the rule compares; 0: it does not look at the mark. */
  readonly markMask: number
  /** True: the rule takes the packets that do not meet its conditions. */
  readonly isInverted: boolean
  readonly action: (typeof ruleActions)[number] | 'other'
  /** The routing table of the action `table`. */
  readonly table: number
}

/** The routing tables that have a name on every node (linux/rtnetlink.h). */
const tableNames: ReadonlyMap<number, string> = new Map([
  [253, 'default'],
  [254, 'main'],
  [255, 'local'],
])
const everyBit = 0xffffffff

/** The rule in the syntax of `ip rule`, without its other conditions: `100: fwmark 0x4000/0x4000 lookup 100`. */
export function describePolicyRule(rule: PolicyRule): string {
  const { priority, mark, markMask, isInverted, action, table } = rule
  const mask = markMask === everyBit ? '' : `/0x${markMask.toString(16)}`
  const target = action === 'table' ? `lookup ${tableNames.get(table) ?? table}` : action
  return `${priority}: ${isInverted ? 'not ' : ''}fwmark 0x${mark.toString(16)}${mask} ${target}`
}

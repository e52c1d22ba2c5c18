// The difference between two listings of a table of x_tables, in the syntax of `iptables-restore --noflush`.
import type { XtListedChain, XtListing } from '../../kernel/index.js'
import type { KernelOperation, OperationTool } from './operation.js'

/** A table, and the tool of its family and flavour. */
export interface ListedTable {
  readonly tool: OperationTool
  readonly table: string
}

/**
 * The commands that turn `before` into `after`, in an order that iptables-restore accepts: rules jump only to chains that exist, and a
 * chain is deleted after the jumps to it.
 */
export function diffListings(
  before: XtListing,
  after: XtListing,
  { tool, table }: ListedTable,
): readonly KernelOperation[] {
  const former = new Map(before.map((chain) => [chain.chain, chain]))
  const latter = new Map(after.map((chain) => [chain.chain, chain]))
  const operation = (effect: KernelOperation['effect'], object: string, text: string): KernelOperation => ({
    tool,
    effect,
    object: `${table} ${object}`,
    table,
    text,
  })
  const added = after.filter(({ chain, policy }) => !former.has(chain) && policy === undefined)
  const removed = before.filter(({ chain, policy }) => !latter.has(chain) && policy === undefined)
  const made = added.map(({ chain }) => operation('add', chain, `:${chain} - [0:0]`))
  const emptied = removed.filter(({ rules }) => rules.length > 0)
  const flushed = emptied.map(({ chain }) => operation('remove', chain, `-F ${chain}`))
  const edits = after.flatMap((chain) =>
    diffChain(former.get(chain.chain)?.rules ?? [], chain).map(({ effect, text }, index) =>
      operation(effect, `${chain.chain} ${index}`, text),
    ),
  )
  const deleted = removed.map(({ chain }) => operation('remove', chain, `-X ${chain}`))
  return [...made, ...flushed, ...edits, ...deleted]
}

interface Edit {
  readonly effect: 'add' | 'remove'
  readonly text: string
}

/** Rules that are equal at the head and at the tail of the chain stay. The others are deleted by their numbers, and inserted. */
function diffChain(before: readonly string[], { chain, rules }: XtListedChain): readonly Edit[] {
  const shorter = Math.min(before.length, rules.length)
  let head = 0
  while (head < shorter && before[head] === rules[head]) head++
  let tail = 0
  while (tail < shorter - head && before.at(-1 - tail) === rules.at(-1 - tail)) tail++
  const deleted = before.slice(head, before.length - tail)
  const inserted = rules.slice(head, rules.length - tail)
  return [
    ...deleted.map((rule): Edit => ({ effect: 'remove', text: deletion(chain, rule, head + 1) })),
    ...inserted.map((rule, index): Edit => {
      const place = tail === 0 ? `-A ${chain}` : `-I ${chain} ${head + index + 1}`
      return { effect: 'add', text: `${place} ${rule}` }
    }),
  ]
}

/** A rule of another form is deleted by its number. */
function deletion(chain: string, rule: string, number: number): string {
  return rule.startsWith('(') ? `-D ${chain} ${number}` : `-D ${chain} ${rule}`
}

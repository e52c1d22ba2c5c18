/** The tool in whose syntax an operation is printed. */
export type OperationTool =
  | 'nft'
  | 'iptables-legacy'
  | 'ip6tables-legacy'
  | 'iptables-nft'
  | 'ip6tables-nft'
  | 'ipset'
  | 'ipvsadm'
  | 'ip'
  | 'sysctl'
  /** These tools show state that ends with the agent, or flows that come and go. */
  | 'conntrack'
  | 'ports'
  | 'relay'

/** A change of the kernel that a call made, or would make. */
export interface KernelOperation {
  readonly tool: OperationTool
  /** The effect on the object; change: the object exists before and after. */
  readonly effect: 'add' | 'remove' | 'change'
  /** Identity of the object: operations on one object have the same identity. */
  readonly object: string
  /** The table of x_tables; absent for other tools. */
  readonly table?: string
  /** One command of the tool, without the tool's name where the tool reads commands from a file. `ports` and `relay` have no tool. */
  readonly text: string
}

/** Whether the operation changes state that stays in the kernel without the agent, and that no packet changes. */
export function isLasting({ tool }: Pick<KernelOperation, 'tool'>): boolean {
  return tool !== 'conntrack' && tool !== 'ports' && tool !== 'relay'
}

/** Leaves out operations on objects that are absent before the first and after the last operation, such as probes. */
export function withoutProbes(operations: readonly KernelOperation[]): readonly KernelOperation[] {
  const ends = new Map<string, { readonly first: KernelOperation; last: KernelOperation }>()
  for (const operation of operations) {
    const known = ends.get(identityOf(operation))
    if (known === undefined) ends.set(identityOf(operation), { first: operation, last: operation })
    else known.last = operation
  }
  return operations.filter((operation) => {
    const { first, last } = ends.get(identityOf(operation)) ?? { first: operation, last: operation }
    return first.effect !== 'add' || last.effect !== 'remove'
  })
}

function identityOf({ tool, object }: KernelOperation): string {
  return `${tool} ${object}`
}

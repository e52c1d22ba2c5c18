import type { OperationKind } from '../../engine/index.js'
import type { XtOp } from '../../kernel/index.js'
import type { IptablesTable } from './desired.js'

/** Operations of iptables mode, as a pass counts and prints them. */
export const chainOperations: Readonly<Record<IptablesTable, OperationKind<XtOp>>> = {
  nat: { name: 'nat', describe: describeChainOp, isMetered: false },
  filter: { name: 'filter', describe: describeChainOp, isMetered: false },
}

/** Counts of the operations that were handed to a table since the kernel last took it. The addon keeps the operations. */
export class StagedOps {
  readonly counts = new Map<XtOp['op'], number>()
  length = 0
  rules = 0

  add(ops: readonly XtOp[]): void {
    this.length += ops.length
    for (const op of ops) {
      this.counts.set(op.op, (this.counts.get(op.op) ?? 0) + 1)
      this.rules += op.op === 'remove-chain' ? 0 : op.rules.length
    }
  }

  at(): undefined {
    return undefined
  }
}

/** `KUBE-SVC-ABC: 3 rules`. */
function describeChainOp(op: XtOp): string {
  return op.op === 'remove-chain' ? op.chain : `${op.chain}: ${op.rules.length} rules`
}

import type { NodeGate } from '../../src/engine/testing.js'
import type { NodeTracker } from '../../src/node/index.js'

/** A node whose facts are always sufficient. */
export function openGate(node: Pick<NodeTracker, 'apply'>): NodeGate {
  return { note: (event) => node.apply(event), mayProceed: () => true, open: () => {}, hasEnded: false }
}

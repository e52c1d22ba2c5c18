import type { NfChainKey, NfOp, NfSetKey, NfTableKey } from './nftables.js'

/** `ip` or `ip6`, as nft(8) calls the families. */
export function describeFamily({ family }: NfTableKey): string {
  return family === 'ipv4' ? 'ip' : 'ip6'
}

/** `ip kube-proxy` */
export function describeTable(key: NfTableKey): string {
  return `${describeFamily(key)} ${key.table}`
}

export function describeChain(key: NfChainKey): string {
  return `${describeTable(key)} ${key.chain}`
}

export function describeSet(key: NfSetKey): string {
  return `${describeTable(key)} ${key.set}`
}

/** The operation and its object, for errors: `add rule` and `ip kube-proxy services`. */
export function describeNfOp(op: NfOp): { readonly operation: string; readonly object: string } {
  const operation = op.op.replace('-', ' ')
  if ('table' in op) return { operation, object: describeTable(op.table) }
  if ('chain' in op) return { operation, object: describeChain(op.chain) }
  if ('rule' in op) return { operation, object: describeChain(op.rule) }
  if ('set' in op) return { operation, object: describeSet(op.set) }
  if ('elements' in op) return { operation, object: describeSet(op.elements.set) }
  return { operation, object: `${describeTable(op.counter)} ${op.counter.counter}` }
}

// Names of sets and their entries in errors and logs.
import { familyOf, type IpFamily } from '../../address.js'
import type { IpsetEntry, IpsetOp } from './ipset.js'
import { hostPrefixLength } from '../records.js'

function describeNetwork({ secondAddress, prefixLength }: IpsetEntry): string {
  if (secondAddress === undefined) return ''
  const isHost = prefixLength === undefined || prefixLength === hostPrefixLength(familyOf(secondAddress))
  return `,${secondAddress}${isHost ? '' : `/${prefixLength}`}`
}

/** The entry's identity in its set, as the ipset tool prints it: `10.96.0.10,tcp:80`, `10.0.0.0/8`, `30080`. */
export function describeIpsetEntry(entry: IpsetEntry): string {
  const { address, protocol, port, secondAddress, prefixLength } = entry
  if (address === undefined) return `${port}`
  if (port !== undefined) return `${address},${protocol}:${port}${describeNetwork(entry)}`
  const isHost = prefixLength === undefined || prefixLength === hostPrefixLength(familyOf(address))
  return isHost || secondAddress !== undefined ? address : `${address}/${prefixLength}`
}

/** The object of the operation: `KUBE-CLUSTER-IP`, `KUBE-CLUSTER-IP 10.96.0.10,tcp:80`, `A with B`. */
export function describeIpsetOp(op: IpsetOp): string {
  switch (op.op) {
    case 'create-set':
      return `${op.set.name} ${op.set.type}`
    case 'destroy-set':
    case 'flush-set':
      return op.name
    case 'swap-sets':
      return `${op.name} with ${op.other}`
    case 'rename-set':
      return `${op.name} to ${op.to}`
    case 'add-entry':
    case 'delete-entry':
      return `${op.set.name} ${describeIpsetEntry(op.entry)}`
  }
}

/** Unknown for an operation that only names its set. */
export function familyOfIpsetOp(op: IpsetOp): IpFamily | 'none' {
  return 'set' in op && op.set.type !== 'bitmap:port' ? op.set.family : 'none'
}

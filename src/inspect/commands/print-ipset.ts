// Operations on sets in the syntax of `ipset restore`.
import { describeIpsetEntry, type IpsetEntry, type IpsetOp, type IpsetSettings } from '../../kernel/index.js'
import type { KernelOperation } from './operation.js'

function operation(effect: KernelOperation['effect'], object: string, text: string): KernelOperation {
  return { tool: 'ipset', effect, object, text }
}

export function printIpsetOp(op: IpsetOp): KernelOperation {
  switch (op.op) {
    case 'create-set':
      return operation('add', op.set.name, `create ${printSettings(op.set)}`)
    case 'destroy-set':
      return operation('remove', op.name, `destroy ${op.name}`)
    case 'flush-set':
      return operation('change', op.name, `flush ${op.name}`)
    case 'swap-sets':
      return operation('change', op.name, `swap ${op.name} ${op.other}`)
    case 'rename-set':
      return operation('change', op.name, `rename ${op.name} ${op.to}`)
    case 'add-entry': {
      const object = `${op.set.name} ${describeIpsetEntry(op.entry)}`
      return operation('add', object, `add ${op.set.name} ${printIpsetEntry(op.entry)} -exist`)
    }
    case 'delete-entry': {
      const object = `${op.set.name} ${describeIpsetEntry(op.entry)}`
      return operation('remove', object, `del ${object} -exist`)
    }
  }
}

function printSettings({
  name,
  type,
  family,
  maxElements,
  hashSize,
  hasMarks,
  hasComments,
}: IpsetSettings): string {
  const size =
    type === 'bitmap:port'
      ? 'range 0-65535'
      : `family ${family === 'ipv4' ? 'inet' : 'inet6'} hashsize ${hashSize} maxelem ${maxElements}`
  return `${name} ${type} ${size}${printExtensions({ hasMarks, hasComments })}`
}

/** The extensions of a set, each after a blank, as `ipset save` prints them. */
export function printExtensions({
  hasMarks,
  hasComments,
}: Pick<IpsetSettings, 'hasMarks' | 'hasComments'>): string {
  return `${hasComments ? ' comment' : ''}${hasMarks ? ' skbinfo' : ''}`
}

function hex(value: number): string {
  return `0x${value.toString(16)}`
}

/** `10.96.0.10,tcp:80 skbmark 0x2a/0x3fff`. */
export function printIpsetEntry(entry: IpsetEntry): string {
  const { mark, comment } = entry
  const marks = mark === undefined ? '' : ` skbmark ${hex(mark.value)}/${hex(mark.mask)}`
  return `${describeIpsetEntry(entry)}${marks}${comment === undefined ? '' : ` comment "${comment}"`}`
}

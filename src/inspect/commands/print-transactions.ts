// Transactions as commands of the usual tools. Pure.
import type { IpFamily } from '../../address.js'
import {
  describePlace,
  describeRelayOp,
  type FlowTransaction,
  type KernelTransaction,
  type LinkTransaction,
  type PortOp,
  type RelayOp,
  type SysctlTransaction,
  type XtFlavour,
  type XtTransaction,
} from '../../kernel/index.js'
import { diffListings } from './diff-listings.js'
import { type KernelOperation, type OperationTool, withoutProbes } from './operation.js'
import { printIpsetOp } from './print-ipset.js'
import { printIpvsOp } from './print-ipvs.js'
import { NftPrinter } from './print-nft.js'
import { printRouteOp } from './print-route.js'

const tools = {
  legacy: { ipv4: 'iptables-legacy', ipv6: 'ip6tables-legacy' },
  nft: { ipv4: 'iptables-nft', ipv6: 'ip6tables-nft' },
} as const satisfies Readonly<Record<XtFlavour, Readonly<Record<IpFamily, OperationTool>>>>

/**
 * Prints what the transactions change. The tables of x_tables come first, each as the difference between its listing before the first transaction
 * and after the last one. Settings that the process may not write are left out.
 */
export function printTransactions(transactions: readonly KernelTransaction[]): readonly KernelOperation[] {
  const printer = new NftPrinter()
  const tables = new Map<string, readonly [first: XtTransaction, last: XtTransaction]>()
  const operations: KernelOperation[] = []
  for (const transaction of transactions) {
    if (transaction.part === 'xtables') {
      const { place, flavour } = transaction
      const key = `${flavour} ${place.family} ${place.table}`
      tables.set(key, [tables.get(key)?.[0] ?? transaction, transaction])
    } else for (const operation of printOne(transaction, printer)) operations.push(operation)
  }
  const changes = [...tables.values()].flatMap(([{ place, flavour, before }, { after }]) =>
    diffListings(before, after, { tool: tools[flavour][place.family], table: place.table }),
  )
  return [...changes, ...withoutProbes(operations)]
}

/** The settings that the process may not write, as sysctl(8) takes them: `-w NAME=VALUE`. */
export function refusedSettings(transactions: readonly KernelTransaction[]): readonly string[] {
  const refused = transactions.flatMap((each) => (each.part === 'sysctl' && each.isRefused ? [each] : []))
  return [...new Set(refused.map(settingText))]
}

function printOne(
  transaction: Exclude<KernelTransaction, XtTransaction>,
  printer: NftPrinter,
): readonly KernelOperation[] {
  switch (transaction.part) {
    case 'nftables':
      return printer.print(transaction.ops)
    case 'ipset':
      return transaction.ops.map(printIpsetOp)
    case 'ipvs':
      return transaction.ops.map(printIpvsOp)
    case 'ipvs-timeouts': {
      const { tcpSeconds, tcpFinSeconds, udpSeconds } = transaction.timeouts
      const text = `--set ${tcpSeconds} ${tcpFinSeconds} ${udpSeconds}`
      return [{ tool: 'ipvsadm', effect: 'change', object: 'time-outs', text }]
    }
    case 'routes': {
      const names = new Map(transaction.links.map(({ index, name }) => [index, name]))
      return transaction.ops.map((op) => printRouteOp(op, (index) => names.get(index) ?? `if${index}`))
    }
    case 'links':
      return [printLink(transaction)]
    case 'sysctl':
      return transaction.isRefused ? [] : [printSetting(transaction)]
    case 'conntrack':
      return printFlows(transaction)
    case 'ports':
      return transaction.ops.map(printPortOp)
    case 'relay':
      return transaction.ops.map(printRelayOp)
  }
}

function printLink({ op, name }: LinkTransaction): KernelOperation {
  const object = `link ${name}`
  switch (op) {
    case 'add-dummy':
      return { tool: 'ip', effect: 'add', object, text: `link add ${name} type dummy` }
    case 'set-up':
      return { tool: 'ip', effect: 'change', object, text: `link set ${name} up` }
    case 'remove':
      return { tool: 'ip', effect: 'remove', object, text: `link del ${name}` }
  }
}

function settingText({ path, value }: SysctlTransaction): string {
  return `-w ${path.includes('.') ? path : path.replaceAll('/', '.')}=${value}`
}

function printSetting(transaction: SysctlTransaction): KernelOperation {
  return { tool: 'sysctl', effect: 'change', object: transaction.path, text: settingText(transaction) }
}

/** Flows of the frontends to other places than their backends. */
function printFlows({ family, frontends }: FlowTransaction): readonly KernelOperation[] {
  return frontends.map(({ protocol, address, port }) => {
    const destination = address === undefined ? '' : ` --orig-dst ${address}`
    const text = `-D -f ${family} -p ${protocol}${destination} --orig-port-dst ${port}`
    return { tool: 'conntrack', effect: 'remove', object: `${family} ${protocol} ${address} ${port}`, text }
  })
}

function printPortOp({ op, place }: PortOp): KernelOperation {
  const name = describePlace(place)
  const effect = op === 'hold' ? 'add' : 'remove'
  return { tool: 'ports', effect, object: `${place.family} ${name}`, text: `${op} ${place.family} ${name}` }
}

function printRelayOp(op: RelayOp): KernelOperation {
  const object = describeRelayOp(op)
  const effect = op.op.startsWith('remove') ? 'remove' : 'add'
  return { tool: 'relay', effect, object, text: `${op.op.replace('-', ' ')} ${object}` }
}

// The lab of pipeline-lab.ts in nftables mode, or in iptables mode of the flavour nft: the content of the tables, and the transactions
// that wrote it.
import type { IpFamily } from '../../src/address.js'
import type { ConfigInput } from '../../src/config/index.js'
import { NfElements, type NfOp, type NfSet, printTransaction } from '../../src/kernel/index.js'
import { type ModelKernel, ModelNftables, type ModelNftNamespace, openModelKernel } from '../model/index.js'
import { PipelineLab } from './pipeline-lab.js'

export interface NftModeLabOptions {
  /** Tables that another program, or a former run, left. */
  readonly nftNamespace?: ModelNftNamespace
  readonly kernel?: ModelKernel
  readonly config?: ConfigInput
  /** nftables by default. */
  readonly mode?: 'nftables' | 'iptables'
}

export class NftModeLab extends PipelineLab {
  constructor({ nftNamespace, kernel, config = {}, mode = 'nftables' }: NftModeLabOptions = {}) {
    const opened = kernel ?? openModelKernel(nftNamespace === undefined ? {} : { nftNamespace })
    super({ kernel: opened, flavour: 'nft', config: { ...config, mode } })
  }

  get namespace(): ModelNftNamespace {
    return this.kernel.nftables.namespace
  }

  /** Number of transactions so far. */
  get writes(): number {
    return this.kernel.nftables.transactions.length
  }

  /** The operations of all transactions since this number of writes, as nft writes them. */
  writtenSince(writes: number): readonly string[] {
    const texts = this.kernel.nftables.transactions.slice(writes).map((each) => printTransaction(each))
    return texts.flatMap((text) => text.trimEnd().split('\n'))
  }

  /** Sends a transaction of another program. */
  async asOther(...ops: readonly NfOp[]): Promise<void> {
    const other = new ModelNftables(this.namespace)
    const { failures } = await other.apply(ops)
    for (const { error } of failures) throw error
    await other.close()
  }
}

/** Lines of the IPv4 table with all of these texts. */
export function find(lab: NftModeLab, ...texts: readonly string[]): readonly string[] {
  const lines = nftLines(lab.namespace).filter((line) => line.includes(' ip kube-proxy'))
  return lines.filter((line) => texts.every((text) => line.includes(text)))
}

/** IPv4 addresses of the endpoints in the maps `service-endpoint-INDEX`, sorted. */
export function endpointsOf(lab: NftModeLab, vip: string): readonly string[] {
  return find(lab, 'add element', ' service-endpoint-', vip)
    .map((line) => / : ([\d.]+) /u.exec(line)?.[1] ?? '')
    .toSorted()
}

/** All that the tables of both families hold, as sorted commands: equal states are equal lists. */
export function nftLines(namespace: ModelNftNamespace): readonly string[] {
  return (['ipv4', 'ipv6'] as const).flatMap((family) => linesOf(namespace, family)).toSorted()
}

function linesOf(namespace: ModelNftNamespace, family: IpFamily): readonly string[] {
  const tables = [...namespace.tables[family].values()]
  return tables.flatMap(({ state, chains, sets }) => {
    const ops: NfOp[] = [{ op: 'add-table', table: state }]
    for (const { chain, rules } of chains.values()) {
      ops.push({ op: 'add-chain', chain })
      for (const rule of rules) ops.push({ op: 'add-rule', rule })
    }
    for (const { set, elements } of sets.values()) {
      ops.push({ op: 'add-set', set })
      const groups = isInterval(set) ? [[...elements.values()]] : [...elements.values()].map((one) => [one])
      for (const group of groups.filter(({ length }) => length > 0)) {
        const some = new NfElements(set)
        for (const element of group) element.addTo(some)
        ops.push({ op: 'add-elements', elements: some })
      }
    }
    const known = [...sets.values()].map(({ set }) => set)
    // The place of a rule counts.
    return ops.map((op, index) => {
      const text = printTransaction([op], known).trimEnd()
      return op.op === 'add-rule' ? `${text} # ${placeOf(ops, index)}` : text
    })
  })
}

/** Start and end of an interval are two elements. */
function isInterval({ flags = [] }: NfSet): boolean {
  return flags.includes('interval')
}

/** Index of the rule in its chain. */
function placeOf(ops: readonly NfOp[], index: number): number {
  return index - ops.slice(0, index).findLastIndex(({ op }) => op === 'add-chain') - 1
}

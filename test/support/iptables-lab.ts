// The lab of pipeline-lab.ts in iptables mode, with the content of the tables and the order of their writes.
import { constants } from 'node:os'
import type { IpFamily } from '../../src/address.js'
import type { ConfigInput } from '../../src/config/index.js'
import { KernelError } from '../../src/errors.js'
import type { XtRule } from '../../src/kernel/index.js'
import {
  type ModelKernel,
  type ModelXtables,
  type ModelXtNamespace,
  openModelKernel,
} from '../model/index.js'
import { PipelineLab } from './pipeline-lab.js'

type Table = 'nat' | 'filter'

export interface IptablesLabOptions {
  /** Tables with objects of another program or of a former run. */
  readonly xtNamespace?: ModelXtNamespace
  readonly kernel?: ModelKernel
  readonly config?: ConfigInput
}

export class IptablesLab extends PipelineLab {
  /** `filter`, `nat`: IPv4 tables that received operations since the last call, in order. */
  readonly #written: Table[] = []

  constructor({ xtNamespace, kernel, config = {} }: IptablesLabOptions = {}) {
    const opened = kernel ?? openModelKernel(xtNamespace === undefined ? {} : { xtNamespace })
    super({ kernel: opened, config: { ...config, mode: 'iptables' } })
    for (const table of ['nat', 'filter'] as const) {
      const xtables = opened.xtables('ipv4', table)
      const apply = xtables.apply.bind(xtables)
      xtables.apply = async (ops, options) => {
        this.#written.push(table)
        return await apply(ops, options)
      }
    }
  }

  /** Tables of the batches since the last call, in order. */
  takeWritten(): readonly Table[] {
    return this.#written.splice(0)
  }

  /** Whole-table replacements of all tables so far. */
  get writes(): number {
    return everyTable
      .map(([family, table]) => this.kernel.xtNamespace.table(family, table).writes)
      .reduce((sum, writes) => sum + writes, 0)
  }
}

const everyTable = (['ipv4', 'ipv6'] as const).flatMap((family) =>
  (['filter', 'nat'] as const).map((table): readonly [IpFamily, Table] => [family, table]),
)

/** Every rule of every table, with chains sorted by name. Equal states have equal lists. */
export function ruleLines(namespace: ModelXtNamespace): readonly string[] {
  return everyTable.flatMap(([family, table]) => {
    const kernel = namespace.table(family, table)
    return [...kernel.chains]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([chain, rules]) => {
        const place = `${family} ${table} ${chain}`
        return [place, ...rules.map((rule) => `${place} ${kernel.text(rule)}`)]
      })
  })
}

/** Lines of the IPv4 tables that contain the text. */
export function linesWith(namespace: ModelXtNamespace, text: string): readonly string[] {
  return ruleLines(namespace).filter((line) => line.startsWith('ipv4') && line.includes(text))
}

export function jumpTo(chain: string, rest: Partial<XtRule> = {}): XtRule {
  return { ...rest, target: { kind: 'jump', chain } }
}

/** Makes removals of another mode's leftovers fail, as if another program held the lock. Call the result to end this. */
export function refusePruning(xtables: ModelXtables): () => void {
  const apply = xtables.apply.bind(xtables)
  xtables.apply = async (ops, options) => {
    if (options?.prune === undefined) return await apply(ops, options)
    const { family, table } = xtables
    const errno = constants.errno.EAGAIN
    throw new KernelError({ errno, subsystem: 'xtables', operation: 'apply', family, object: table })
  }
  return () => {
    xtables.apply = apply
  }
}

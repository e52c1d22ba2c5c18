// The x_tables of flavour nft on the model of nf_tables, with another program that changes them.
import type { IpFamily } from '../../src/address.js'
import type { IpsetSettings, Nftables, NfOp, XtRule, XtTableName } from '../../src/kernel/index.js'
import { baseChain } from '../../src/kernel/xtables/nft/base-chains.js'
import { NftXtables } from '../../src/kernel/xtables/nft/nft-xtables.js'
import { findSets, RuleCodec } from '../../src/kernel/xtables/nft/rules.js'
import { xtHooks } from '../../src/kernel/index.js'
import { ModelNftables, ModelNftNamespace, openModelKernel } from '../model/index.js'
import { ruleKinds, setName } from './xtables-kinds.js'
import type { OtherProgram, XtSubject } from './xtables-subjects.js'

type Place = { readonly family: IpFamily; readonly table: XtTableName }

/** The sets that rules of xtables-kinds.ts name. */
const settings: readonly IpsetSettings[] = (['ipv4', 'ipv6'] as const).map((family) => ({
  name: setName[family],
  type: 'hash:ip,port',
  family,
  maxElements: 65_536,
  hashSize: 1024,
  hasMarks: true,
  hasComments: false,
}))

export async function openModelNftSubject(): Promise<XtSubject> {
  const nftNamespace = new ModelNftNamespace()
  const { ipset } = openModelKernel()
  await ipset.apply(settings.map((set) => ({ op: 'create-set', set })))
  return {
    flavour: 'nft',
    open: () => {
      const nftables = new ModelNftables(nftNamespace)
      const opened: NftXtables[] = []
      return {
        xtables: (family, table) => {
          const made = new NftXtables({ family, table }, nftables, ipset)
          opened.push(made)
          return made
        },
        close: async () => {
          await Promise.all([...opened.map((table) => table.close()), nftables.close()])
        },
      }
    },
    other: (family, table) => {
      const kinds = ruleKinds(family, table).map(({ rule }) => rule)
      const codec = findSets(kinds, family, ipset).then((sets) => new RuleCodec(family, sets))
      return new ModelProgram(new ModelNftables(nftNamespace), { family, table }, codec)
    },
    close: async () => {},
  }
}

/** Changes a table as iptables-nft does. */
class ModelProgram implements OtherProgram {
  readonly #nftables: Nftables
  readonly #place: Place
  readonly #codec: Promise<RuleCodec>

  constructor(nftables: Nftables, place: Place, codec: Promise<RuleCodec>) {
    this.#nftables = nftables
    this.#place = place
    this.#codec = codec
  }

  addChain(chain: string): Promise<void> {
    return this.#apply({ op: 'add-chain', chain: { ...this.#place, chain } })
  }

  async append(chain: string, rule: XtRule): Promise<void> {
    const { expressions } = (await this.#codec).encode(rule)
    await this.#apply(...this.#baseChain(chain), {
      op: 'add-rule',
      rule: { ...this.#place, chain, expressions },
    })
  }

  async prepend(chain: string, rule: XtRule): Promise<void> {
    const { expressions } = (await this.#codec).encode(rule)
    await this.#apply(...this.#baseChain(chain), {
      op: 'insert-rule',
      rule: { ...this.#place, chain, expressions },
    })
  }

  async deleteRule(chain: string, index: number): Promise<void> {
    const rules = await this.#nftables.rules({ ...this.#place, chain })
    const handle = rules[index]?.handle ?? 0
    await this.#apply({ op: 'delete-rule', rule: { ...this.#place, chain }, handle })
  }

  flush(chain: string): Promise<void> {
    return this.#apply({ op: 'flush-chain', chain: { ...this.#place, chain } })
  }

  removeChain(chain: string): Promise<void> {
    return this.#apply({ op: 'delete-chain', chain: { ...this.#place, chain } })
  }

  async list(): Promise<Readonly<Record<string, readonly string[]>>> {
    const codec = await this.#codec
    const chains = await this.#nftables.chains(this.#place)
    const rules = await this.#nftables.rules(this.#place)
    return Object.fromEntries(
      chains.map(({ chain }) => [
        chain,
        rules.filter((rule) => rule.chain === chain).map((rule) => codec.textOf(rule) ?? '?'),
      ]),
    )
  }

  #baseChain(chain: string): readonly NfOp[] {
    const hook = xtHooks[this.#place.table].find((name) => name === chain)
    if (hook === undefined) return []
    return [{ op: 'add-chain', chain: { ...this.#place, chain, hook: baseChain(this.#place.table, hook) } }]
  }

  async #apply(...ops: readonly NfOp[]): Promise<void> {
    const { failures } = await this.#nftables.apply([{ op: 'add-table', table: this.#place }, ...ops])
    for (const { error } of failures) throw error
  }
}

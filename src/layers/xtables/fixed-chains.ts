// The fixed chains of iptables mode in the tables that all programs share: what is desired, as a value, and the operations to it.
import { isDeepStrictEqual } from 'node:util'
import type { KernelError } from '../../errors.js'
import type { XtHook, XtOp, XtRefusal, XtRule } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { DesiredFrontend, IptablesTable, Skeleton } from './desired.js'
import { DispatchTree } from './dispatch-tree.js'
import { dispatchChains, standInFor } from './names.js'
import type { TableSource } from './tables.js'

type Rules<Name extends string> = ReadonlyMap<Name, readonly XtRule[]>

/** Our part of one table. */
interface TableContent {
  /** The chains of the skeleton. One that is not desired any more stays: KUBE-FIREWALL is kubelet's too (F-102). */
  readonly skeleton: Rules<string>
  /** The dispatch chains and their buckets, which are ours alone. */
  readonly dispatch: Rules<string>
  readonly hooks: Rules<XtHook>
}

const nothing: TableContent = { skeleton: new Map(), dispatch: new Map(), hooks: new Map() }

/** The skeleton of a mode, and the rules of single frontends: those that let health checks in. */
export class FixedChains implements TableSource {
  #skeleton: Skeleton | undefined
  readonly #frontends = new Map<ServicePortKey, readonly DesiredFrontend[]>()
  #isBeside: boolean
  /** The content that the tables have by `take`. The kernel's side keeps it, also if the kernel refuses it. */
  readonly #handed: Record<IptablesTable, TableContent> = { nat: nothing, filter: nothing }
  readonly #changed = new Set<IptablesTable>()

  /** `isBeside`: as in `IptablesLedger`. */
  constructor({ isBeside }: { readonly isBeside: boolean }) {
    this.#isBeside = isBeside
  }

  get isBeside(): boolean {
    return this.#isBeside
  }

  /** Replaces the chains, hooks and tails. */
  setSkeleton(skeleton: Skeleton): void {
    this.#skeleton = skeleton
    this.#changeAll()
  }

  /** Replaces the frontends of a service port. Equal ones change nothing: a change of its endpoints costs the same with many checks. */
  claim(route: ServicePortKey, frontends: readonly DesiredFrontend[]): void {
    if (isDeepStrictEqual(this.#frontends.get(route) ?? [], frontends)) return
    this.#frontends.delete(route)
    if (frontends.length > 0) this.#frontends.set(route, frontends)
    this.#changeAll()
  }

  /** All objects are known: our chains replace those of the former owner. */
  standAlone(): void {
    this.#isBeside = false
    this.#changeAll()
  }

  take(table: IptablesTable): readonly XtOp[] {
    if (this.#skeleton === undefined || !this.#changed.delete(table)) return []
    const desired = contentOf(table, this.#skeleton, [...this.#frontends], this.#isBeside)
    const ops = difference(this.#handed[table], desired)
    this.#handed[table] = desired
    return ops
  }

  leaveOut(
    table: IptablesTable,
    refusals: readonly XtRefusal[],
  ): ReadonlyMap<ServicePortKey, KernelError> | undefined {
    const owners = new Map<ServicePortKey, KernelError>()
    for (const { chain, rule, error } of refusals) {
      const refused = this.#handed[table].dispatch.get(chain)?.[rule]
      for (const [route, frontends] of this.#frontends)
        if (frontends.some(({ rules }) => rules.some((each) => each === refused))) owners.set(route, error)
    }
    for (const route of owners.keys()) this.claim(route, [])
    return owners.size > 0 ? owners : undefined
  }

  countRules(table: IptablesTable): number {
    const parts = Object.values(this.#handed[table])
    return parts.flatMap((part) => [...part.values()]).reduce((sum, rules) => sum + rules.length, 0)
  }

  #changeAll(): void {
    this.#changed.add('nat').add('filter')
  }
}

/** The desired content of a table. `isBeside`: chains of our own names stand in for the dispatch chains. */
function contentOf(
  table: IptablesTable,
  skeleton: Skeleton,
  claims: readonly (readonly [ServicePortKey, readonly DesiredFrontend[]])[],
  isBeside: boolean,
): TableContent {
  const dispatches = Object.values(dispatchChains).filter((dispatch) => dispatch.table === table)
  const names = new Map<string, string>(
    dispatches.map((dispatch) => [dispatch.chain, isBeside ? standInFor(dispatch) : dispatch.chain]),
  )
  const renamed = (rules: readonly XtRule[]): readonly XtRule[] =>
    rules.map((rule) => {
      const chain = rule.target.kind === 'jump' ? names.get(rule.target.chain) : undefined
      return chain === undefined ? rule : { ...rule, target: { kind: 'jump', chain } }
    })
  const chains = new Map<string, readonly XtRule[]>()
  for (const dispatch of dispatches) {
    const tail = skeleton.tails.find((each) => each.dispatch === dispatch)?.rules ?? []
    const tree = new DispatchTree({ table, chain: names.get(dispatch.chain) ?? '' }, renamed(tail))
    for (const [route, frontends] of claims)
      for (const each of frontends) if (each.dispatch === dispatch) tree.set(each.frontend, each.rules, route)
    for (const { chain, rules } of tree.take().set) chains.set(chain, rules)
  }
  const fixed = skeleton.chains.filter((each) => each.table === table)
  const hooks = skeleton.hooks.filter((hook) => hook.table === table)
  return {
    skeleton: new Map(fixed.map(({ chain, rules }) => [chain, rules])),
    dispatch: chains,
    hooks: new Map(hooks.map(({ chain, rules }) => [chain, renamed(rules)])),
  }
}

/** The operations from one content to the other. */
function difference(before: TableContent, after: TableContent): readonly XtOp[] {
  const removed = [...before.dispatch.keys()].filter((chain) => !after.dispatch.has(chain))
  const set = [...changes(before.skeleton, after.skeleton), ...changes(before.dispatch, after.dispatch)]
  return [
    ...set.map(([chain, rules]): XtOp => ({ op: 'set-chain', chain, rules })),
    ...removed.map((chain): XtOp => ({ op: 'remove-chain', chain })),
    ...changes(before.hooks, after.hooks).map(([chain, rules]): XtOp => ({ op: 'set-hook', chain, rules })),
  ]
}

function changes<Name extends string>(
  before: Rules<Name>,
  after: Rules<Name>,
): readonly (readonly [Name, readonly XtRule[]])[] {
  return [...after].filter(([name, rules]) => !isDeepStrictEqual(before.get(name), rules))
}

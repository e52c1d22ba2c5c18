import { isDeepStrictEqual } from 'node:util'
import { BugError, type KernelError } from '../../errors.js'
import type { XtHook, XtOp, XtRefusal, XtRule } from '../../kernel/index.js'
import { Holdings } from '../objects/index.js'
import type { ServicePortKey } from '../../model/index.js'
import { addressOf, describeFrontend, type Frontend } from '../../routing/index.js'
import type {
  DesiredChain,
  DesiredFrontend,
  DesiredRoute,
  DispatchChain,
  IptablesTable,
  Skeleton,
} from './desired.js'
import { DispatchTree, type RulePlace } from './dispatch-tree.js'
import { dispatchChains, standInFor } from './names.js'
import { ChainTable, type OwnChain } from './chain-table.js'

interface TableChain {
  readonly table: IptablesTable
  readonly chain: OwnChain
}

interface Dispatch {
  readonly dispatch: DispatchChain
  readonly table: IptablesTable
  /** The name of the base chain in the table. */
  readonly chain: string
  readonly tree: DispatchTree
  /** The chains of the tree that the table has. */
  readonly present: Set<string>
}

interface RefusedFrontend {
  readonly wanted: Pick<DesiredFrontend, 'dispatch' | 'frontend'>
  /** undefined: its route was removed. */
  readonly owner: ServicePortKey | undefined
  readonly error: KernelError
}

const nothing: DesiredRoute = { chains: [], frontends: [] }

/**
 * All of our state in the tables nat and filter of one family: the routes of frontends and chains, and the operations that the
 * tables do not have yet. Work is proportional to the changes. A rule of filter for a frontend counts as a refusal, and stays until
 * `dropRefusals` when it is not needed any more: nat rewrites a served packet before filter sees it, so an unneeded refusal does no
 * harm, while a missing one makes a client wait for a time-out.
 */
export class IptablesLedger {
  readonly #frontendsOf = new Holdings<ServicePortKey, DesiredFrontend>()
  /** The ports of a Service share its health check port: the rules of each, by the name of the frontend. */
  readonly #healthChecks = new Map<string, Map<ServicePortKey, DesiredFrontend>>()
  /** Number of frontends without health check ports. */
  #frontends = 0
  readonly #chains: Readonly<Record<IptablesTable, ChainTable>> = {
    nat: new ChainTable(),
    filter: new ChainTable(),
  }
  readonly #dispatches = new Map<string, Dispatch>()
  readonly #holdings = new Holdings<ServicePortKey, TableChain>()
  /** Chains of routes to which a chain of the former owner may still lead. They are empty, and are removed together with it. */
  readonly #emptied = new Map<string, TableChain>()
  /** Names of frontends that filter refuses by operations that `take` has returned. */
  readonly #sentRefusals = new Set<string>()
  /** Names of frontends that filter refuses with the next `take`. */
  readonly #newRefusals = new Set<string>()
  /** Frontends that filter still refuses without need, by their names. */
  readonly #spentRefusals = new Map<string, DesiredFrontend>()
  #skeleton: Skeleton | undefined
  #isBeside: boolean

  /**
   * `isBeside`: base chains of a former owner exist and stay, as they serve objects that are not known yet. Ours stand beside them
   * under other names, and packets meet ours first.
   */
  constructor({ isBeside }: { readonly isBeside: boolean }) {
    this.#isBeside = isBeside
    for (const dispatch of Object.values(dispatchChains)) this.#open(dispatch)
  }

  get isBeside(): boolean {
    return this.#isBeside
  }

  /** Sets the chains and hooks of the mode itself. An unchanged part is not sent again. */
  setSkeleton(skeleton: Skeleton): void {
    const former = this.#skeleton
    this.#skeleton = skeleton
    for (const { table, chain, rules } of skeleton.chains) this.#chains[table].setChanged(chain, rules)
    for (const { dispatch, rules } of skeleton.tails)
      this.#dispatchOf(dispatch).tree.setTail(rules.map((rule) => this.#redirect(dispatch.table, rule)))
    for (const hook of skeleton.hooks) {
      const { table, chain } = hook
      const before = former?.hooks.find((other) => other.table === table && other.chain === chain)
      if (!isDeepStrictEqual(before, hook)) this.#setHook(table, chain, hook.rules)
    }
  }

  /** Replaces all claims of the route; undefined releases it. Throws BugError, and changes nothing, when a chain has another owner. */
  claim(route: ServicePortKey, desired: DesiredRoute | undefined): void {
    const { chains, frontends } = desired ?? nothing
    this.#claimChains(route, chains)
    const former = this.#frontendsOf.replace(route, frontends)
    this.#frontends += countFrontends(frontends) - countFrontends(former)
    this.#dispatch(route, frontends)
    if (former.length > 0) this.#undispatch(route, former, new Set(frontends.map(nameOf)))
  }

  /**
   * Releases the routes that own these rules of a table, in both tables, until they are claimed again. Returns them, each with an
   * error; undefined: all rules belong to the skeleton, and nothing changed.
   */
  leaveOut(
    table: IptablesTable,
    refusals: readonly XtRefusal[],
  ): ReadonlyMap<ServicePortKey, KernelError> | undefined {
    const owners = new Map<ServicePortKey, KernelError>()
    const frontends = this.#dispatched(table, refusals)
    for (const { chain, error } of refusals) {
      const owner = this.#chains[table].claimed(chain)?.owner
      if (owner !== undefined) owners.set(owner, error)
    }
    for (const { owner, error } of frontends) if (owner !== undefined) owners.set(owner, error)
    for (const route of owners.keys()) this.claim(route, undefined)
    // A refused rule was never in force, so its refusal need not stay until nat serves, even if the route was removed before.
    const spent = frontends.filter(({ wanted }) => this.#dropRefusal(nameOf(wanted)))
    return owners.size + spent.length > 0 ? owners : undefined
  }

  /** Operations on chains of routes and of the skeleton since the last call; `take` returns the jumps to them. */
  takeChains(table: IptablesTable): readonly XtOp[] {
    return this.#chains[table].take()
  }

  /** All operations since the last call, which the caller hands to the table. */
  take(table: IptablesTable): readonly XtOp[] {
    const chains = this.#chains[table]
    for (const dispatch of this.#dispatches.values()) {
      if (dispatch.table !== table) continue
      const { set, removed } = dispatch.tree.take()
      for (const { chain, rules } of set) {
        chains.set(chain, rules)
        dispatch.present.add(chain)
      }
      for (const chain of removed) {
        chains.remove(chain)
        dispatch.present.delete(chain)
      }
    }
    if (table === 'filter') {
      for (const name of this.#newRefusals) this.#sentRefusals.add(name)
      this.#newRefusals.clear()
    }
    return chains.take()
  }

  get hasSpentRefusals(): boolean {
    return this.#spentRefusals.size > 0
  }

  /** nat serves all frontends that it should: filter need not refuse them any more. */
  dropRefusals(): void {
    for (const name of this.#spentRefusals.keys()) this.#dropRefusal(name)
  }

  /** All objects are known: our base chains replace those of the former owner. Walks all frontends, once. */
  standAlone(): void {
    if (!this.#isBeside) return
    this.#isBeside = false
    const former = [...this.#dispatches.values()]
    this.#dispatches.clear()
    for (const { table, present } of former) for (const chain of present) this.#chains[table].remove(chain)
    for (const { table, chain } of this.#emptied.values()) this.#chains[table].remove(chain.id)
    this.#emptied.clear()
    for (const dispatch of Object.values(dispatchChains)) this.#open(dispatch)
    this.#forgetSpent()
    for (const [route, frontends] of this.#frontendsOf.entries())
      for (const { dispatch, frontend, rules } of frontends)
        this.#dispatchOf(dispatch).tree.set(frontend, rules, route)
    const { hooks = [], tails = [] } = this.#skeleton ?? {}
    for (const { table, chain, rules } of hooks) this.#setHook(table, chain, rules)
    for (const { dispatch, rules } of tails) this.#dispatchOf(dispatch).tree.setTail(rules)
  }

  /** Number of our rules in the table, once it has all operations. */
  countRules(table: IptablesTable): number {
    return this.#chains[table].rules
  }

  /** Our chains of table nat, as the last `take` left them. */
  natChains(): Iterable<string> {
    return this.#chains.nat.names()
  }

  /** The rule in nat that leads packets of the frontend to the route; undefined: there is none. */
  natPlaceOf(frontend: Frontend, route: ServicePortKey): RulePlace | undefined {
    for (const { table, tree } of this.#dispatches.values()) {
      const place = table === 'nat' ? tree.placeOf(frontend, route) : undefined
      if (place !== undefined) return place
    }
    return undefined
  }

  /** Numbers of objects that routes claim, by kind. */
  get sizes(): Readonly<Record<'chain' | 'frontend', number>> {
    return {
      chain: this.#chains.nat.claimedCount + this.#chains.filter.claimedCount,
      frontend: this.#frontends + this.#healthChecks.size,
    }
  }

  #setHook(table: IptablesTable, chain: XtHook, rules: readonly XtRule[]): void {
    this.#chains[table].setHook(
      chain,
      rules.map((rule) => this.#redirect(table, rule)),
    )
  }

  #claimChains(route: ServicePortKey, wanted: readonly DesiredChain[]): void {
    for (const { table, chain } of wanted) {
      const owner = this.#chains[table].claimed(chain)?.owner
      if (owner !== undefined && owner !== route)
        throw new BugError(`chain ${chain} of ${route} has the name of one of ${owner}`)
    }
    const owned = wanted.map(({ table, chain, rules }) => {
      if (this.#isBeside) this.#emptied.delete(chainId(table, chain))
      return { table, chain: this.#chains[table].claim(chain, route, rules) }
    })
    for (const former of this.#holdings.replace(route, owned)) {
      const { table, chain } = former
      if (owned.some((own) => own.chain === chain)) continue
      if (this.#isBeside) this.#emptied.set(chainId(table, chain.id), former)
      this.#chains[table].release(chain, { isKept: this.#isBeside })
    }
  }

  /** Removes the rules of these frontends that the route still has, except those of `kept`, by name. */
  #undispatch(route: ServicePortKey, former: readonly DesiredFrontend[], kept: ReadonlySet<string>): void {
    for (const desired of former) {
      const name = nameOf(desired)
      const { tree } = this.#dispatchOf(desired.dispatch)
      if (kept.has(name)) continue
      const other = this.#unshare(route, name)
      // Otherwise the rules of another route have replaced these.
      if (tree.holderOf(desired.frontend) !== route) continue
      if (other !== undefined) {
        tree.set(desired.frontend, other[1].rules, other[0])
        continue
      }
      this.#newRefusals.delete(name)
      if (this.#sentRefusals.has(name)) this.#spentRefusals.set(name, desired)
      else tree.remove(desired.frontend)
    }
  }

  #dispatch(route: ServicePortKey, frontends: readonly DesiredFrontend[]): void {
    for (const desired of frontends) {
      const { dispatch, frontend, rules } = desired
      if (dispatch.table === 'filter') this.#refuse(nameOf(desired))
      if (frontend.kind === 'health-check') this.#share(route, desired)
      this.#dispatchOf(dispatch).tree.set(frontend, rules, route)
    }
  }

  #share(route: ServicePortKey, desired: DesiredFrontend): void {
    const name = nameOf(desired)
    const sharers = this.#healthChecks.get(name)
    if (sharers === undefined) this.#healthChecks.set(name, new Map([[route, desired]]))
    else sharers.set(route, desired)
  }

  /** Returns another route that shares the health check port, with its rules; undefined: none does. */
  #unshare(route: ServicePortKey, name: string): readonly [ServicePortKey, DesiredFrontend] | undefined {
    const sharers = this.#healthChecks.get(name)
    if (sharers?.delete(route) !== true) return undefined
    const [other] = sharers
    if (other === undefined) this.#healthChecks.delete(name)
    return other
  }

  #refuse(name: string): void {
    this.#spentRefusals.delete(name)
    if (!this.#sentRefusals.has(name)) this.#newRefusals.add(name)
  }

  /** False: the refusal is still needed, or does not exist. */
  #dropRefusal(name: string): boolean {
    const desired = this.#spentRefusals.get(name)
    if (desired === undefined) return false
    this.#dispatchOf(desired.dispatch).tree.remove(desired.frontend)
    this.#sentRefusals.delete(name)
    return this.#spentRefusals.delete(name)
  }

  /** The frontends whose rules in dispatch chains were refused. Walks all frontends. */
  #dispatched(table: IptablesTable, refusals: readonly XtRefusal[]): readonly RefusedFrontend[] {
    const refused = new Map<string, XtRefusal[]>()
    for (const refusal of refusals) {
      const ofChain = refused.get(refusal.chain)
      if (ofChain === undefined) refused.set(refusal.chain, [refusal])
      else ofChain.push(refusal)
    }
    const found: RefusedFrontend[] = []
    for (const { dispatch, tree } of this.#dispatches.values()) {
      if (dispatch.table !== table) continue
      for (const { chain, rules } of tree.chains()) {
        for (const { rule, error } of refused.get(chain) ?? []) {
          const frontend = frontendOf(dispatch, rules[rule])
          if (frontend === undefined) continue
          const wanted = { dispatch, frontend }
          const isSpent = this.#spentRefusals.has(nameOf(wanted))
          found.push({ wanted, owner: isSpent ? undefined : tree.holderOf(frontend), error })
        }
      }
    }
    return found
  }

  #forgetSpent(): void {
    for (const name of this.#spentRefusals.keys()) this.#sentRefusals.delete(name)
    this.#spentRefusals.clear()
  }

  #open(dispatch: DispatchChain): void {
    const { table } = dispatch
    const chain = this.#isBeside ? standInFor(dispatch) : dispatch.chain
    const tree = new DispatchTree({ table, chain })
    this.#dispatches.set(chainId(table, dispatch.chain), { dispatch, table, chain, tree, present: new Set() })
  }

  #dispatchOf({ table, chain }: DispatchChain): Dispatch {
    const dispatch = this.#dispatches.get(chainId(table, chain))
    if (dispatch === undefined) throw new BugError(`${table} ${chain} is no dispatch chain`)
    return dispatch
  }

  /** The rule, with a jump to a dispatch chain replaced by a jump to the chain that stands in for it. */
  #redirect(table: IptablesTable, rule: XtRule): XtRule {
    const { target } = rule
    if (!this.#isBeside || target.kind !== 'jump') return rule
    const dispatch = this.#dispatches.get(chainId(table, target.chain))
    return dispatch === undefined ? rule : { ...rule, target: { kind: 'jump', chain: dispatch.chain } }
  }
}

/** The number of different frontends without health check ports. The rules of one frontend follow each other. */
function countFrontends(desired: readonly DesiredFrontend[]): number {
  let count = 0
  let last: Frontend | undefined
  for (const { frontend } of desired) {
    if (frontend.kind === 'health-check') continue
    if (last === undefined || !isSameFrontend(frontend, last)) count++
    last = frontend
  }
  return count
}

function isSameFrontend(a: Frontend, b: Frontend): boolean {
  return a.kind === b.kind && a.protocol === b.protocol && a.port === b.port && addressOf(a) === addressOf(b)
}

function chainId(table: IptablesTable, chain: string): string {
  return `${table} ${chain}`
}

function nameOf({
  dispatch,
  frontend,
}: {
  readonly dispatch: DispatchChain
  readonly frontend: Frontend
}): string {
  return `${dispatch.table} ${dispatch.chain} ${describeFrontend(frontend)}`
}

/** The frontend of a rule in a dispatch chain. Undefined: the rule leads to a bucket, whose rules are refused themselves. */
function frontendOf(dispatch: DispatchChain, rule: XtRule | undefined): Frontend | undefined {
  if (rule?.protocol === undefined || rule.destinationPorts === undefined) return undefined
  const { protocol, destination } = rule
  const [port] = rule.destinationPorts
  if (destination !== undefined) return { kind: 'address', address: destination.address, protocol, port }
  if (dispatch === dispatchChains.healthChecks) return { kind: 'health-check', protocol: 'tcp', port }
  return { kind: 'node-port', protocol, port }
}

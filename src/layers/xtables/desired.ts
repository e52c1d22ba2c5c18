// The desired objects of one route, and of the mode as a whole, in the tables.
import type { XtHook, XtRule } from '../../kernel/index.js'
import type { Frontend } from '../../routing/index.js'

/** Tables that iptables mode uses. */
export type IptablesTable = 'nat' | 'filter'

export interface DesiredChain {
  readonly table: IptablesTable
  readonly chain: string
  readonly rules: readonly XtRule[]
}

/**
 * A base chain whose rules are found by frontend (dispatchChains in names.ts): KUBE-SERVICES and KUBE-NODEPORTS of both tables,
 * KUBE-EXTERNAL-SERVICES and KUBE-PROXY-FIREWALL of filter. Bucket chains lead to the rule; a packet never walks all rules.
 */
export interface DispatchChain {
  readonly table: IptablesTable
  readonly chain: string
}

/** The rules for packets to one frontend. Two routes that claim one frontend conflict. */
export interface DesiredFrontend {
  readonly dispatch: DispatchChain
  readonly frontend: Frontend
  /** In order; each of them matches the frontend itself (destination address, protocol, port). */
  readonly rules: readonly XtRule[]
}

/** All desired objects of one route. */
export interface DesiredRoute {
  readonly chains: readonly DesiredChain[]
  readonly frontends: readonly DesiredFrontend[]
}

/** The objects that the mode needs for any set of routes: base chains, and the rules in the kernel's own chains that lead to them. */
export interface Skeleton {
  readonly chains: readonly DesiredChain[]
  readonly hooks: readonly {
    readonly table: IptablesTable
    readonly chain: XtHook
    readonly rules: readonly XtRule[]
  }[]
  /** Rules of a dispatch chain that come after its frontends. */
  readonly tails: readonly { readonly dispatch: DispatchChain; readonly rules: readonly XtRule[] }[]
}

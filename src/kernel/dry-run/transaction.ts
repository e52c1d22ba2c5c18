// Transactions: what one call hands to a part of the kernel, as a value. The kernel took it, or a dry run in its place.
import type { IpFamily } from '../../address.js'
import type { ConntrackFrontend } from '../conntrack/conntrack.js'
import type { IpsetOp } from '../ipset/ipset.js'
import type { IpvsOp, IpvsTimeouts } from '../ipvs/ipvs.js'
import type { NfTransaction } from '../nftables/nftables.js'
import type { PortOp } from '../ports/ports.js'
import type { RelayOp } from '../relay/relay.js'
import type { Link, RouteOp } from '../route/routes.js'
import type { XtPlace } from '../xtables/encode.js'
import type { XtListing } from '../xtables/listing.js'
import type { XtChange } from '../xtables/listing-editor.js'
import type { XtFlavour } from '../xtables/xtables.js'

/** The changes of one table of x_tables, and the table before and after them. */
export interface XtTransaction extends XtChange {
  readonly part: 'xtables'
  readonly place: XtPlace
  readonly flavour: XtFlavour
  readonly before: XtListing
  readonly after: XtListing
}

/** The operations of a batch that were taken. Refused ones are not among them. */
interface OpsOf<Part extends string, Op> {
  readonly part: Part
  readonly ops: readonly Op[]
}

export interface RouteTransaction extends OpsOf<'routes', RouteOp> {
  readonly links: readonly Pick<Link, 'name' | 'index'>[]
}

export interface LinkTransaction {
  readonly part: 'links'
  readonly op: 'add-dummy' | 'set-up' | 'remove'
  readonly name: string
}

export interface SysctlTransaction {
  readonly part: 'sysctl'
  readonly path: string
  readonly value: string
  /** The process may not write the setting. */
  readonly isRefused: boolean
}

/** Deletes flows of the frontends to other places than their backends. */
export interface FlowTransaction {
  readonly part: 'conntrack'
  readonly family: IpFamily
  readonly frontends: readonly ConntrackFrontend[]
}

export type KernelTransaction =
  | XtTransaction
  | { readonly part: 'nftables'; readonly ops: NfTransaction }
  | OpsOf<'ipset', IpsetOp>
  | OpsOf<'ipvs', IpvsOp>
  | { readonly part: 'ipvs-timeouts'; readonly timeouts: IpvsTimeouts }
  | RouteTransaction
  | LinkTransaction
  | SysctlTransaction
  | FlowTransaction
  | OpsOf<'ports', PortOp>
  | OpsOf<'relay', RelayOp>

/** Takes a transaction. */
export type TakeTransaction = (transaction: KernelTransaction) => void

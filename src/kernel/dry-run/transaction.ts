// Transactions: what one call hands to a part of the kernel, as a value.
import type { XtPlace } from '../xtables/encode.js'
import type { XtChange } from '../xtables/listing-editor.js'
import type { XtFlavour } from '../xtables/xtables.js'

export interface XtTransaction extends XtChange {
  readonly part: 'xtables'
  readonly place: XtPlace
  readonly flavour: XtFlavour
}

export type KernelTransaction = XtTransaction

/** Takes a transaction in place of the kernel. */
export type TakeTransaction = (transaction: KernelTransaction) => void

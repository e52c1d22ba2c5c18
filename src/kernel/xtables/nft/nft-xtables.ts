import { constants } from 'node:os'
import type { IpFamily } from '../../../address.js'
import { KernelError } from '../../../errors.js'
import type { Ipset } from '../../ipset/ipset.js'
import type { Nftables } from '../../nftables/nftables.js'
import { describeXtTable } from '../describe.js'
import type { XtPlace } from '../encode.js'
import type { XtChainSummary, XtDrift, XtOutcome, XtRefusal, XtTableName, Xtables } from '../xtables.js'

/** A table of x_tables that nf_tables holds, as iptables-nft writes it. */
export class NftXtables implements Xtables {
  readonly family: IpFamily
  readonly table: XtTableName
  readonly nftables: Nftables
  readonly ipset: Ipset

  constructor({ family, table }: XtPlace, nftables: Nftables, ipset: Ipset) {
    this.family = family
    this.table = table
    this.nftables = nftables
    this.ipset = ipset
  }

  load(): Promise<void> {
    return this.#refuse('load')
  }

  stage(): Promise<void> {
    return this.#refuse('stage')
  }

  apply(): Promise<XtOutcome> {
    return this.#refuse('apply')
  }

  refusals(): Promise<readonly XtRefusal[]> {
    return this.#refuse('refusals')
  }

  check(): Promise<boolean> {
    return this.#refuse('check')
  }

  compare(): Promise<XtDrift> {
    return this.#refuse('compare')
  }

  chains(): Promise<readonly XtChainSummary[]> {
    return this.#refuse('chains')
  }

  packets(): Promise<readonly (readonly number[])[]> {
    return this.#refuse('packets')
  }

  async close(): Promise<void> {}

  async #refuse(operation: string): Promise<never> {
    throw new KernelError({
      errno: constants.errno.ENOTSUP,
      subsystem: 'nftables',
      operation,
      family: this.family,
      object: describeXtTable(this.family, this.table),
    })
  }
}

import { formatCidr, type Cidr, type IpFamily } from '../address.js'
import type { KubernetesObject, ObjectEvent } from '../source/index.js'

/** The networks of all ServiceCIDRs, of one IP family: the addresses in them are cluster IPs or unused. */
export class ServiceCidrs {
  readonly #family: IpFamily
  /** By name of the ServiceCIDR. */
  readonly #networks = new Map<string, readonly Cidr[]>()
  #isListed = false
  /** The networks as last returned; undefined: they may have changed since. */
  #sorted: readonly Cidr[] | undefined

  constructor(family: IpFamily) {
    this.#family = family
  }

  /** Takes in an event of no object: all ServiceCIDRs may be listed now. */
  apply(event: ObjectEvent): void {
    const isListing =
      event.type === 'service-cidrs-listed' || (event.type === 'synced' && event.withServiceCidrs)
    if (!isListing) return
    this.#isListed = true
    this.#sorted = undefined
  }

  set({ name, cidrs }: Extract<KubernetesObject, { readonly kind: 'ServiceCIDR' }>): void {
    this.#networks.set(
      name,
      cidrs.filter(({ family }) => family === this.#family),
    )
    this.#sorted = undefined
  }

  remove(name: string): void {
    if (this.#networks.delete(name)) this.#sorted = undefined
  }

  /** Each network once, sorted by its text; undefined: not all ServiceCIDRs have been read yet, and an earlier run may have known more. */
  get networks(): readonly Cidr[] | undefined {
    if (!this.#isListed) return undefined
    return (this.#sorted ??= this.#sort())
  }

  #sort(): readonly Cidr[] {
    const byText = new Map([...this.#networks.values()].flat().map((cidr) => [formatCidr(cidr), cidr]))
    return [...byText].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, cidr]) => cidr)
  }
}

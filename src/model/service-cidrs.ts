import { formatCidr, type Cidr, type IpFamily } from '../address.js'
import type { KubernetesObject, ObjectEvent } from '../source/index.js'

/** The networks of all ServiceCIDRs: the addresses in them are cluster IPs or unused. */
export class ServiceCidrs {
  /** By name of the ServiceCIDR. */
  readonly #networks = new Map<string, readonly Cidr[]>()
  #isListed = false
  /** The networks of each family as last returned; absent: they may have changed since. */
  #sorted: Partial<Record<IpFamily, readonly Cidr[]>> = {}

  /** Takes in an event of no object: all ServiceCIDRs may be listed now. */
  apply(event: ObjectEvent): void {
    const isListing =
      event.type === 'service-cidrs-listed' || (event.type === 'synced' && event.withServiceCidrs)
    if (!isListing) return
    this.#isListed = true
    this.#sorted = {}
  }

  set({ name, cidrs }: Extract<KubernetesObject, { readonly kind: 'ServiceCIDR' }>): void {
    this.#networks.set(name, cidrs)
    this.#sorted = {}
  }

  remove(name: string): void {
    if (this.#networks.delete(name)) this.#sorted = {}
  }

  /**
   * The networks of the family, each once, sorted by its text: another array after each change. undefined: not all ServiceCIDRs have been
   * read yet, and an earlier run may have known more.
   */
  networks(family: IpFamily): readonly Cidr[] | undefined {
    if (!this.#isListed) return undefined
    return (this.#sorted[family] ??= this.#sort(family))
  }

  #sort(family: IpFamily): readonly Cidr[] {
    const ofFamily = [...this.#networks.values()].flat().filter((cidr) => cidr.family === family)
    const byText = new Map(ofFamily.map((cidr) => [formatCidr(cidr), cidr]))
    return [...byText].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, cidr]) => cidr)
  }
}

import type { ServicePortKey } from '../model/index.js'

/** kube-proxy's large cluster: above so many endpoints. */
const largeAbove = 1000

/** A cluster whose size goes up and down around the threshold must not have all of its rules written again each time. */
const smallBelow = 800

/** How many endpoints all service ports have together, and whether rules carry comments with so many. */
export class ClusterSize {
  readonly #endpoints = new Map<ServicePortKey, number>()
  #total = 0
  #isLarge = false

  get isLarge(): boolean {
    return this.#isLarge
  }

  /** 0 endpoints: none, or no such service port any more. */
  put(port: ServicePortKey, endpoints: number): void {
    this.#total += endpoints - (this.#endpoints.get(port) ?? 0)
    if (endpoints === 0) this.#endpoints.delete(port)
    else this.#endpoints.set(port, endpoints)
    this.#isLarge = this.#total > (this.#isLarge ? smallBelow : largeAbove)
  }
}

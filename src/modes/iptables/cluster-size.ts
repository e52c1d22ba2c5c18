/** A cluster with more endpoints than this is large, as in kube-proxy. */
const largeAbove = 1000

/** A large cluster is small again at this size. If the size varies around `largeAbove`, the rules are not all written each time. */
const smallBelow = 800

/** Decides by the number of all endpoints whether the cluster is large: rules of Services then carry no comments. */
export class ClusterSize {
  #isLarge = false

  get isLarge(): boolean {
    return this.#isLarge
  }

  update(endpoints: number): void {
    this.#isLarge = endpoints > (this.#isLarge ? smallBelow : largeAbove)
  }
}

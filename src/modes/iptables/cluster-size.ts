/** A cluster with more endpoints than this is large, as in kube-proxy. */
const largeAbove = 1000

/** The lower threshold: a cluster whose size goes up and down around `largeAbove` must not have all of its rules written each time. */
const smallBelow = 800

/** Decides by the number of all endpoints whether rules carry comments. */
export class ClusterSize {
  #isLarge = false

  get isLarge(): boolean {
    return this.#isLarge
  }

  update(endpoints: number): void {
    this.#isLarge = endpoints > (this.#isLarge ? smallBelow : largeAbove)
  }
}

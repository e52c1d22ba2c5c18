/** kube-proxy's large cluster: above so many endpoints. */
const largeAbove = 1000

/** A cluster whose size goes up and down around the threshold must not have all of its rules written again each time. */
const smallBelow = 800

/** Whether rules carry comments with so many endpoints in all. */
export class ClusterSize {
  #isLarge = false

  get isLarge(): boolean {
    return this.#isLarge
  }

  update(endpoints: number): void {
    this.#isLarge = endpoints > (this.#isLarge ? smallBelow : largeAbove)
  }
}

/** A node that the parser has ended. `kind`: null for an alias. */
interface EndedNode {
  readonly result: unknown
  readonly kind: unknown
}

/** A node whose end the parser has not reached. */
interface OpenNode {
  values: number
  /** undefined: it has no ended node, or several ones. */
  only: EndedNode | undefined
  isBare: boolean
}

// The bounds of go.yaml.in/yaml/v2 (decode.go), and so of kubectl and kube-proxy: nearly all values of a small file may come from aliases,
// but only a tenth of those of a large one.
const smallest = { aliased: 100, values: 1000 }
const small = { values: 400_000, share: 0.99 }
const large = { values: 4_000_000, share: 0.1 }

/**
 * Counts the values of a file as if each alias (`*name`) were written out. An alias costs the parser nothing, but each use costs those who
 * read the values.
 */
export class AliasCount {
  /** Values of the lists and mappings that have ended. An alias has the list or the mapping of its anchor itself. */
  readonly #counted = new Map<unknown, number>()
  readonly #open: OpenNode[] = []
  #values = 0
  #aliased = 0

  begin(): void {
    this.#open.push({ values: 1, only: undefined, isBare: true })
  }

  /**
   * Returns the problem once there are more values than Kubernetes accepts, and for an alias that contains itself.
   */
  end({ result, kind }: EndedNode): string | undefined {
    const { values, only } = this.#open.pop() ?? { values: 1, only: undefined }
    // The parser opens a node twice if it may be the first field of a mapping.
    const isSameAgain = only !== undefined && Object.is(only.result, result) && only.kind === kind
    const isAlias = kind === null && typeof result === 'object' && result !== null
    const own = isSameAgain ? values - 1 : isAlias ? this.#counted.get(result) : values
    if (own === undefined) return 'an alias contains itself'
    const parent = this.#open.at(-1)
    if (parent !== undefined) {
      parent.values += own
      parent.only = parent.isBare ? { result, kind } : undefined
      parent.isBare = false
    }
    if (isSameAgain) return undefined
    if (typeof result === 'object') this.#counted.set(result, own)
    this.#values += isAlias ? own : 1
    this.#aliased += isAlias ? own : 0
    return this.#excess()
  }

  #excess(): string | undefined {
    if (this.#aliased <= smallest.aliased || this.#values <= smallest.values) return undefined
    if (this.#aliased <= this.#values * allowedShare(this.#values)) return undefined
    return `the aliases up to here stand for ${this.#aliased} of ${this.#values} values, more than Kubernetes accepts`
  }
}

/** The part of all values that may come from aliases. */
function allowedShare(values: number): number {
  const step = (values - small.values) / (large.values - small.values)
  return small.share - (small.share - large.share) * Math.min(Math.max(step, 0), 1)
}

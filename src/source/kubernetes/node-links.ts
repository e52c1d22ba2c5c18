import type { ApiError } from '../../api/index.js'
import type { Log } from '../../log.js'
import type { ListedPart } from './listing-progress.js'
import type { Reflector } from './reflector.js'
import type { Resource } from './resources.js'

export interface NodeLinksOptions {
  /** This node's Node. */
  readonly own: Resource
  readonly open: (resource: Resource, finalStatuses: readonly number[]) => Reflector
  readonly log: Log
}

const forbidden = 403

/** Follows all Nodes, or this node's alone if the account may not list and watch all of them. */
export class NodeLinks implements ListedPart {
  readonly #options: NodeLinksOptions
  #reflector: Reflector

  constructor(options: NodeLinksOptions) {
    this.#options = options
    this.#reflector = options.open({ ...options.own, selectors: {} }, [forbidden])
  }

  get isListed(): boolean {
    return this.#reflector.isListed
  }

  get isComplete(): boolean {
    return this.#reflector.isComplete
  }

  /** Resolves when the source stops. Rejects only with an error of the receiver, or a bug. */
  async run(): Promise<ApiError | undefined> {
    const { own, open, log } = this.#options
    const refusal = await this.#reflector.run()
    if (refusal === undefined) return undefined
    log.warn(
      "Other Nodes are not read: an external address of a Service that is another Node's address becomes local. Bind the account to the role system:node-proxier",
      { err: refusal },
    )
    this.#reflector = open(own, [])
    return await this.#reflector.run()
  }
}

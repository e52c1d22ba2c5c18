import type { ApiError } from '../../api/index.js'
import type { Log } from '../../log.js'
import type { FollowedNodes } from '../objects.js'
import type { ListedPart } from './listing-progress.js'
import type { Reflector } from './reflector.js'
import type { Resource } from './resources.js'

export interface NodeLinksOptions {
  /** This node's Node. */
  readonly own: Resource
  /** Nothing is read before. */
  readonly chosen: Promise<FollowedNodes>
  readonly open: (resource: Resource, finalStatuses: readonly number[]) => Reflector
  readonly log: Log
}

const forbidden = 403

/** Follows the chosen Nodes: this node's alone also if the account may not list and watch all of them. */
export class NodeLinks implements ListedPart {
  readonly #options: NodeLinksOptions
  /** undefined: no Nodes are chosen yet. */
  #reflector: Reflector | undefined

  constructor(options: NodeLinksOptions) {
    this.#options = options
  }

  get isListed(): boolean {
    return this.#reflector?.isListed === true
  }

  get isComplete(): boolean {
    return this.#reflector?.isComplete === true
  }

  /** Resolves when the source stops. Rejects only with an error of the receiver, or a bug. */
  async run(): Promise<ApiError | undefined> {
    const { own, chosen, log } = this.#options
    if ((await chosen) === 'all') {
      const refusal = await this.#follow({ ...own, selectors: {} }, [forbidden])
      if (refusal === undefined) return undefined
      log.warn(
        "Other Nodes are not read: an external address of a Service that is another Node's address becomes local. Bind the account to the role system:node-proxier",
        { err: refusal },
      )
    }
    return await this.#follow(own, [])
  }

  async #follow(resource: Resource, finalStatuses: readonly number[]): Promise<ApiError | undefined> {
    this.#reflector = this.#options.open(resource, finalStatuses)
    return await this.#reflector.run()
  }
}

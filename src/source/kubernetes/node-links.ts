import type { FollowedNodes } from '../objects.js'
import type { ListedPart } from './listing-progress.js'
import { type LinkParts, OptionalLink } from './optional-link.js'
import type { Reflector, ReflectorOptions } from './reflector.js'
import { type Resource, resourceOfOtherNodes } from './resources.js'

export interface NodeLinksOptions extends LinkParts, Pick<ReflectorOptions, 'deliver' | 'progressed'> {
  readonly nodeName: string
  /** This node's Node. */
  readonly resource: Resource
  /** Nothing is read before. */
  readonly chosen: Promise<FollowedNodes>
}

const forbidden = 403

/**
 * Follows this node's Node, and the other ones by a link of their own if they are chosen: an account that may not list and watch all
 * Nodes costs the agent only these.
 */
export class NodeLinks implements ListedPart {
  readonly #options: NodeLinksOptions
  /** The open links; undefined: no Nodes are chosen yet. */
  #links: readonly (Reflector | OptionalLink)[] | undefined

  constructor(options: NodeLinksOptions) {
    this.#options = options
  }

  get isListed(): boolean {
    return this.#links?.every((link) => link.isListed) === true
  }

  get isComplete(): boolean {
    return this.#links?.every((link) => link.isComplete) === true
  }

  /** Resolves when the source stops. Rejects only with an error of the receiver, or a bug. */
  async run(): Promise<void> {
    const { chosen, open, resource, deliver, progressed } = this.#options
    const isAll = (await chosen) === 'all'
    const own = open({ resource, deliver, progressed })
    this.#links = isAll ? [own, this.#openOthers()] : [own]
    await Promise.all(this.#links.map(async (link) => await link.run()))
  }

  #openOthers(): OptionalLink {
    return new OptionalLink({
      ...this.#options,
      resources: [resourceOfOtherNodes(this.#options.nodeName)],
      finalStatuses: [forbidden],
      lines: {
        problemLine:
          "Other Nodes are not read; an external address of a Service that is another Node's address becomes local",
        recovery: 'Other Nodes are read',
      },
      reasonOf: () => 'the account may not list and watch nodes: bind it to the role system:node-proxier',
    })
  }
}

import { openApiClient, type ClientOptions, type Peer } from '../../api/index.js'
import type { Clock } from '../../clock.js'
import type { Log, StateReporter } from '../../log.js'
import type { FollowedNodes, ObjectEvent, Source } from '../objects.js'
import { ListingProgress } from './listing-progress.js'
import { ApiServerService } from './api-server-service.js'
import { Outage } from './outage.js'
import { NodeLinks } from './node-links.js'
import type { OpenReflector } from './optional-link.js'
import { Reflector, type ReflectorOptions } from './reflector.js'
import { resourcesOf } from './resources.js'
import { serviceCidrLink } from './service-cidr-links.js'

export interface KubernetesSourceOptions {
  readonly client: ClientOptions
  /** Name of this node's Node. */
  readonly nodeName: string
  readonly clock: Clock
  /** From 0 to below 1. */
  readonly random: () => number
  readonly log: Log
  /** Reports objects that cannot be used; their last good state stays in force. */
  readonly problems: StateReporter
  /** Reports whether the API server answers, by kind of object. */
  readonly links: StateReporter
  /** Called with an error of `deliver` after the start, or a bug. At least one kind is then no longer followed. */
  readonly onCrash: (error: unknown) => void
}

/**
 * Services, EndpointSlices and Nodes of a Kubernetes API server, and their changes; ServiceCIDRs on request. It never gives up.
 */
export class KubernetesSource implements Source {
  readonly #options: KubernetesSourceOptions
  readonly #end = new AbortController()
  #chooseNodes: (which: FollowedNodes) => void = () => undefined
  readonly #nodesChosen: Promise<FollowedNodes>
  #wantServiceCidrs: () => void = () => undefined
  readonly #serviceCidrsWanted: Promise<void>
  #noteContact: () => void = () => undefined
  #runs: readonly Promise<unknown>[] = []

  constructor(options: KubernetesSourceOptions) {
    this.#options = options
    this.#nodesChosen = new Promise((resolve) => (this.#chooseNodes = resolve))
    this.#serviceCidrsWanted = new Promise((resolve) => (this.#wantServiceCidrs = resolve))
  }

  /** Resolves after `synced` or `listed`, or when the source is stopped first. Throws the error of `deliver`. */
  async start(deliver: (events: readonly ObjectEvent[]) => void): Promise<void> {
    const { client: options, clock, onCrash } = this.#options
    const { signal } = this.#end
    let crash = onCrash
    // NB: a connection calls it, which has no reader for an error of `deliver`.
    const alive = (): void => {
      try {
        this.#noteContact()
      } catch (error) {
        crash(error)
      }
    }
    const client = await openApiClient({ ...options, alive }, clock, signal)
    if (signal.aborted) return
    await new Promise<void>((listed, fail) => {
      crash = fail
      signal.addEventListener('abort', () => listed(), { once: true })
      const outage = new Outage(this.#options)
      const open: OpenReflector = (reflector) =>
        new Reflector({ ...this.#options, client, outage, signal, ...reflector })
      this.#runs = this.#follow(open, () => client.peer, { deliver, listed })
      Promise.all(this.#runs).catch(fail)
    })
    crash = onCrash
    Promise.all(this.#runs).catch(onCrash)
  }

  #follow(
    open: OpenReflector,
    peer: () => Peer | undefined,
    { deliver, listed }: { readonly deliver: ReflectorOptions['deliver']; readonly listed: () => void },
  ): readonly Promise<unknown>[] {
    const { nodeName, log, clock } = this.#options
    const { signal } = this.#end
    const apiServerService = new ApiServerService(peer, log)
    const ends = new ConnectionEnds(peer)
    const receiver: Pick<ReflectorOptions, 'deliver' | 'progressed'> = {
      deliver: (events) => {
        const passed = [...ends.news(), ...apiServerService.pass(events)]
        if (passed.length > 0) deliver(passed)
      },
      progressed: () => {
        // A quiet watch too: it may lead to another end.
        const news = ends.news()
        if (news.length > 0) deliver(news)
        progress.look()
        if (!progress.isListed) return
        apiServerService.endFirstListing()
        listed()
      },
    }
    const links = resourcesOf(nodeName).map((resource) =>
      resource.kind === 'Node'
        ? new NodeLinks({ ...this.#options, ...receiver, resource, chosen: this.#nodesChosen, open, signal })
        : open({ ...receiver, resource }),
    )
    const progress = new ListingProgress({ parts: [...links, apiServerService], clock, log, deliver })
    this.#noteContact = () => progress.look()
    const runs: Promise<unknown>[] = links.map(async (link) => await link.run())
    return [...runs, this.#runServiceCidrs(open, deliver)]
  }

  async #runServiceCidrs(open: OpenReflector, deliver: ReflectorOptions['deliver']): Promise<void> {
    await this.#serviceCidrsWanted
    const { signal } = this.#end
    await serviceCidrLink({ ...this.#options, open, signal, deliver }).run()
  }

  followNodes(which: FollowedNodes): void {
    this.#chooseNodes(which)
  }

  followServiceCidrs(): void {
    this.#wantServiceCidrs()
  }

  async stop(): Promise<void> {
    this.#end.abort()
    this.#chooseNodes('own')
    this.#wantServiceCidrs()
    await Promise.allSettled(this.#runs)
  }
}

/** Tells when connections lead to another end. */
class ConnectionEnds {
  readonly #peer: () => Peer | undefined
  #last: Peer | undefined

  constructor(peer: () => Peer | undefined) {
    this.#peer = peer
  }

  /** An event if the end changed since the last call. */
  news(): readonly ObjectEvent[] {
    const [last, peer] = [this.#last, this.#peer()]
    if (peer === undefined || (peer.address === last?.address && peer.port === last.port)) return []
    this.#last = peer
    return [{ type: 'connected', ...peer }]
  }
}

import type { Log, StateReporter } from '../../log.js'
import type { ObjectEvent, Source } from '../objects.js'
import type { Timers } from '../timers.js'
import type { ClientOptions } from './client-options.js'
import { openApiClient } from './open-api-client.js'
import { resourcesOf } from './resources.js'

export interface KubernetesSourceOptions {
  readonly client: ClientOptions
  /** Of our Node, the only one that is read. */
  readonly nodeName: string
  readonly timers: Timers
  /** From 0 to below 1. */
  readonly random: () => number
  readonly log: Log
  /** Told of objects that cannot be used: those in force stay. */
  readonly problems: StateReporter
  /** Told whether the API server answers, by kind of object. */
  readonly links: StateReporter
}

/** Services, EndpointSlices and this node's Node of a Kubernetes API server, and their changes. It never gives up. */
export class KubernetesSource implements Source {
  readonly #options: KubernetesSourceOptions
  readonly #end = new AbortController()
  #runs: readonly Promise<void>[] = []

  constructor(options: KubernetesSourceOptions) {
    this.#options = options
  }

  /**
   * Resolves when all kinds have been listed and `synced` was delivered, or when it is stopped before. NB: what `deliver` throws is
   * caught by nobody, which ends the process.
   */
  async start(deliver: (events: readonly ObjectEvent[]) => void): Promise<void> {
    const { client: clientOptions, nodeName, ...rest } = this.#options
    const { signal } = this.#end
    const client = await openApiClient(clientOptions, rest.timers, signal)
    // Only here, as it brings the same.
    const { Reflector } = await import('./reflector.js')
    if (signal.aborted) return
    const resources = resourcesOf(nodeName)
    const unlisted = new Set(resources.map(({ kind }) => kind))
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true })
      const noteListed = (kind: (typeof resources)[number]['kind']): void => {
        if (!unlisted.delete(kind) || unlisted.size > 0) return
        deliver([{ type: 'synced' }])
        resolve()
      }
      this.#runs = resources.map(async (resource) => {
        const listed = (): void => noteListed(resource.kind)
        await new Reflector({ ...rest, resource, client, signal, deliver, listed }).run()
      })
    })
  }

  async stop(): Promise<void> {
    this.#end.abort()
    await Promise.allSettled(this.#runs)
  }
}

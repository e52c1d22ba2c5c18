// Opens the configured source on this machine.
import type { Config } from '../config/index.js'
import type { Log } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import { nodeFileSystem, openSource, type OpenedSource } from '../source/index.js'
import type { Clock } from '../clock.js'

export interface ConfiguredSourceOptions {
  readonly config: Config
  readonly nodeName: string
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Called with the error that ends the source after its start. */
  readonly onCrash: (error: unknown) => void
}

/**
 * Opens the source, and does not start it. Throws ConfigError when the folder of manifests, the kubeconfig, a file in it, or the API
 * server's address cannot be used. Call it before anything on the node changes.
 */
export async function openConfiguredSource({
  config,
  ...dependencies
}: ConfiguredSourceOptions): Promise<OpenedSource> {
  return await openSource(config, {
    ...dependencies,
    fileSystem: nodeFileSystem,
    environment: process.env,
  })
}

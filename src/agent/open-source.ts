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
 * Opens the source without starting it. Throws ConfigError if the kubeconfig, a file that it names, or the API server's address cannot be
 * used. A folder of manifests may come later. NB: call it before any change on the node.
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

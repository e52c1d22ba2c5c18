// The source that a configuration asks for, on this machine.
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
  /** Called with what ends the source after its start. */
  readonly onCrash: (error: unknown) => void
}

/**
 * Opens the source, which is not started. Throws ConfigError where the folder of manifests, the kubeconfig, a file that it names, or
 * the API server's address cannot be used: call it before anything on the node changes.
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

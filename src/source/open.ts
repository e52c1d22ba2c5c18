import { resolve } from 'node:path'
import type { Config } from '../config/index.js'
import { StateReporter, type Log } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import { openClientOptions, type ClientOptions } from '../api/index.js'
import type { Clock } from '../clock.js'
import { KubernetesSource } from './kubernetes/kubernetes-source.js'
import type { FileSystem } from './manifests/file-system.js'
import { ManifestSource } from './manifests/manifest-source.js'
import type { Source } from './objects.js'

export interface SourceDependencies {
  readonly fileSystem: FileSystem
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Pick<Metrics, 'manifestErrors' | 'apiObjectErrors' | 'apiLinksDown' | 'apiRequest'>
  /** Called with the error that ends the source after its start: an error of its receiver, or a bug. */
  readonly onCrash: (error: unknown) => void
  /** Name of this node's Node. */
  readonly nodeName: string
  /** Environment of the process: the API server of the pod's cluster, and a proxy on the way to it. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

type SourceConfig = Pick<Config, 'manifests' | 'client'>

export interface OpenedSource {
  /** Not yet started. */
  readonly source: Source
  /** Options for the API server that the source reads; undefined: it reads manifests. */
  readonly client: ClientOptions | undefined
}

/** The source that `config` asks for. Rejects with ConfigError. */
export async function openSource(
  config: SourceConfig,
  dependencies: SourceDependencies,
): Promise<OpenedSource> {
  const { manifests } = config
  if (manifests !== undefined)
    return { source: openManifests(resolve(manifests), dependencies), client: undefined }
  const client = await openClientOptions(config.client, dependencies)
  return { source: openApi(client, dependencies), client }
}

function openManifests(root: string, dependencies: SourceDependencies): Source {
  const { fileSystem, clock, log, metrics, onCrash } = dependencies
  const problems = new StateReporter({
    log,
    level: 'error',
    problemLine: 'Manifest is not applied',
    recovery: 'Manifest is applied now',
    count: (count) => metrics.manifestErrors.set(count),
  })
  return new ManifestSource({ root, fileSystem, clock, log, problems, onCrash })
}

function openApi(client: ClientOptions, dependencies: SourceDependencies): Source {
  const { clock, log, metrics, nodeName, onCrash } = dependencies
  const problems = new StateReporter({
    log,
    level: 'error',
    problemLine: 'API object is not applied',
    recovery: 'API object is applied now',
    count: (count) => metrics.apiObjectErrors.set(count),
  })
  const links = new StateReporter({
    log,
    level: 'error',
    problemLine: 'API server cannot be watched; the kernel keeps its state',
    recovery: 'API server is watched now',
    count: (count) => metrics.apiLinksDown.set(count),
  })
  log.info('Services come from an API server', { server: client.server.origin })
  return new KubernetesSource({
    client,
    nodeName,
    clock,
    random: Math.random,
    log,
    problems,
    links,
    onCrash,
  })
}

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { wantedEncodings, type Config } from '../config/index.js'
import { ConfigError } from '../errors.js'
import { StateReporter, type Log } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import { inClusterOptions, masterOptions, type ClientOptions } from './kubernetes/client-options.js'
import { environmentProxy } from './kubernetes/environment-proxy.js'
import { KubernetesSource } from './kubernetes/kubernetes-source.js'
import { throughProxy } from './kubernetes/through-proxy.js'
import type { FileSystem } from './manifests/file-system.js'
import { ManifestSource } from './manifests/manifest-source.js'
import { requireFolder } from './manifests/root-folder.js'
import type { Source } from './objects.js'
import type { Timers } from './timers.js'

export interface SourceDependencies {
  readonly fileSystem: FileSystem
  readonly timers: Timers
  readonly log: Log
  readonly metrics: Pick<Metrics, 'manifestErrors' | 'apiObjectErrors' | 'apiLinksDown' | 'apiRequest'>
  /** Told what ends the source after its start: what its taker threw, or a bug. */
  readonly onCrash: (error: unknown) => void
  /** Of our Node. */
  readonly nodeName: string
  /** Of the process: where the API server of the pod's cluster is, and a proxy on the way to it. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

type SourceConfig = Pick<Config, 'manifests' | 'client'>

export interface OpenedSource {
  /** Not yet started. */
  readonly source: Source
  /** How to reach the API server that it reads; undefined: there is none. */
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
  const encodings = wantedEncodings(config.client.clientConnection)
  const observe = dependencies.metrics.apiRequest
  const client = { ...(await clientOptions(config, dependencies)), encodings, observe }
  return { source: openApi(client, dependencies), client }
}

function openManifests(root: string, dependencies: SourceDependencies): Source {
  const { fileSystem, timers, log, metrics, onCrash } = dependencies
  requireFolder(root, fileSystem)
  const problems = new StateReporter({
    log,
    level: 'error',
    trouble: 'manifests: not in force as written',
    recovery: 'manifests: in force again',
    count: (count) => metrics.manifestErrors.set(count),
  })
  return new ManifestSource({ root, fileSystem, timers, log, problems, onCrash })
}

function openApi(client: ClientOptions, dependencies: SourceDependencies): Source {
  const { timers, log, metrics, nodeName, onCrash } = dependencies
  const problems = new StateReporter({
    log,
    level: 'error',
    trouble: 'API object: not in force',
    recovery: 'API object: in force again',
    count: (count) => metrics.apiObjectErrors.set(count),
  })
  const links = new StateReporter({
    log,
    level: 'error',
    trouble: 'API server: not followed; the kernel stays as it is',
    recovery: 'API server: followed again',
    count: (count) => metrics.apiLinksDown.set(count),
  })
  log.info('Services come from an API server', { server: client.server.origin })
  return new KubernetesSource({
    client,
    nodeName,
    timers,
    random: Math.random,
    log,
    problems,
    links,
    onCrash,
  })
}

async function clientOptions(
  { client }: SourceConfig,
  { environment, timers, log }: SourceDependencies,
): Promise<ClientOptions> {
  const path = client.clientConnection.kubeconfig
  const dependencies = { environment, readFile: readText, now: () => timers.now(), wallClockMs: Date.now }
  if (path !== '') {
    // Only here: what it takes costs tens of milliseconds.
    const { kubeconfigOptions } = await import('./kubernetes/kubeconfig.js')
    const warnings = new StateReporter({
      log,
      level: 'warn',
      trouble: 'kubeconfig',
      recovery: 'kubeconfig: as it should be now',
      count: () => undefined,
    })
    return await kubeconfigOptions({ path, master: client.master }, { ...dependencies, warnings })
  }
  if (client.master !== '') return await throughEnvironmentProxy(masterOptions(client.master), environment)
  if ((environment['KUBERNETES_SERVICE_HOST'] ?? '') === '') {
    const problem =
      'no source of Services: name a folder (--manifests) or an API server (--kubeconfig, --master), or run in a pod'
    throw new ConfigError('', problem)
  }
  return await throughEnvironmentProxy(inClusterOptions(dependencies), environment)
}

/** Rejects with ConfigError. */
async function throughEnvironmentProxy(
  options: ClientOptions,
  environment: SourceDependencies['environment'],
): Promise<ClientOptions> {
  return await throughProxy(options, environmentProxy(options.server, environment))
}

function readText(path: string): string {
  return readFileSync(path, 'utf8')
}

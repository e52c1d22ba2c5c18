import { readFileSync } from 'node:fs'
import { wantedEncodings, type Config } from '../config/index.js'
import { ConfigError } from '../errors.js'
import { StateReporter, type Log } from '../log.js'
import type { Metrics } from '../metrics/index.js'
import { inClusterOptions, masterOptions, type ClientOptions } from './client-options.js'
import { environmentProxy, type Environment } from './proxy/environment-proxy.js'
import { throughProxy } from './proxy/through-proxy.js'
import type { Clock } from '../clock.js'

export interface ClientDependencies {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Pick<Metrics, 'apiRequest'>
  /** Environment of the process: the API server of the pod's cluster, and a proxy on the way to it. */
  readonly environment: Environment
}

/**
 * The API server of the settings, and its credentials: a kubeconfig, else --master, else the service account of the pod. Rejects with
 * ConfigError when there is none of them, or the first of them cannot be used.
 */
export async function openClientOptions(
  config: Config['client'],
  dependencies: ClientDependencies,
): Promise<ClientOptions> {
  const encodings = wantedEncodings(config.clientConnection)
  const observe = dependencies.metrics.apiRequest
  // As in client-go: any text forbids it (k8s.io/apimachinery/pkg/util/net).
  const mayUseHttp2 = (dependencies.environment['DISABLE_HTTP2'] ?? '') === ''
  return { ...(await credentials(config, dependencies)), encodings, observe, mayUseHttp2 }
}

/** Reports a client certificate of the kubeconfig that has expired. */
export function openCertificateWarnings(log: Log): StateReporter {
  return new StateReporter({
    log,
    level: 'warn',
    problemLine: 'Client certificate has expired',
    recovery: 'Client certificate is valid now',
  })
}

/** Reports a kubeconfig that has changed and cannot be used. */
export function openKubeconfigWarnings(log: Log): StateReporter {
  return new StateReporter({
    log,
    level: 'warn',
    problemLine: 'Kubeconfig has changed and is not used; its earlier credentials stay in use',
    recovery: 'Kubeconfig is used as it is now',
  })
}

async function credentials(
  { master, clientConnection: { kubeconfig: path } }: Config['client'],
  { environment, clock, log }: ClientDependencies,
): Promise<ClientOptions> {
  const dependencies = { environment, readFile: readText, clock }
  if (path !== '') {
    // Imported here because its libraries take tens of milliseconds to load.
    const { kubeconfigOptions } = await import('./login/kubeconfig.js')
    const reports = { warnings: openCertificateWarnings(log), changes: openKubeconfigWarnings(log) }
    return await kubeconfigOptions({ path, master }, { ...dependencies, ...reports })
  }
  if (master !== '') return await throughEnvironmentProxy(masterOptions(master), dependencies)
  if ((environment['KUBERNETES_SERVICE_HOST'] ?? '') === '') {
    const problem =
      'no source of Services: name a folder (--manifests) or an API server (--kubeconfig, --master), or run in a pod'
    throw new ConfigError('', problem)
  }
  return await throughEnvironmentProxy(inClusterOptions(dependencies), dependencies)
}

/** Adds the proxy of the environment. Rejects with ConfigError. */
async function throughEnvironmentProxy(
  options: ClientOptions,
  { environment, clock }: Pick<ClientDependencies, 'environment' | 'clock'>,
): Promise<ClientOptions> {
  return await throughProxy(options, environmentProxy(options.server, environment), clock)
}

function readText(path: string): string {
  return readFileSync(path, 'utf8')
}

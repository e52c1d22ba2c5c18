import { resolve } from 'node:path'
import { type Config, formatConfig, type ProxyMode } from '../config/index.js'
import type { Inspected } from './inspected.js'

/** The configuration with which a command can do what the agent does. */
export interface ConfigurationSnapshot {
  /** The active mode. */
  readonly mode: ProxyMode
  /** Name of the node. */
  readonly node: string
  /** KubeProxyConfiguration and ViaductConfiguration, as YAML, with absolute paths. The kubeconfig is named, not included. */
  readonly documents: string
}

export function configuration({
  config,
  mode,
  node,
}: Pick<Inspected, 'config' | 'mode' | 'node'>): ConfigurationSnapshot {
  return { mode, node: node.facts.name, documents: formatConfig(withAbsolutePaths(config)) }
}

/** A command may have another working directory than the agent. */
function withAbsolutePaths(config: Config): Config {
  const { client, controlSocket, manifests } = config
  const { clientConnection } = client
  const { kubeconfig } = clientConnection
  return {
    ...config,
    ...(controlSocket === undefined ? {} : { controlSocket: resolve(controlSocket) }),
    ...(manifests === undefined ? {} : { manifests: resolve(manifests) }),
    client: {
      ...client,
      clientConnection: { ...clientConnection, kubeconfig: kubeconfig && resolve(kubeconfig) },
    },
  }
}

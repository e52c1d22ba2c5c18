import { formatConfig, type ProxyMode } from '../config/index.js'
import type { Inspected } from './inspected.js'

/** The configuration with which a command can do what the agent does. */
export interface ConfigurationSnapshot {
  /** The active mode. */
  readonly mode: ProxyMode
  /** Name of the node. */
  readonly node: string
  /** KubeProxyConfiguration and ViaductConfiguration, as YAML. The kubeconfig is named, not included. */
  readonly documents: string
}

export function configuration({ config, mode, node }: Inspected): ConfigurationSnapshot {
  return { mode, node: node.facts.name, documents: formatConfig(config) }
}

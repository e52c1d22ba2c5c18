// A configuration as the text of a file.
import { dump } from 'js-yaml'
import type { Config, ProxyMode } from './config.js'
import { documentKinds, kubeProxyConfiguration, type DocumentKind } from './documents.js'
import type { Json } from './field.js'

/**
 * Both documents, with every field that is not at the kernel's choice; readConfig reads them as the same configuration. A text has
 * quotes only where a reader of YAML would take it for something else without them.
 */
export function formatConfig(config: Config): string {
  return documentKinds
    .map((kind) => dump(documentOf(kind, config), { lineWidth: -1, quotingType: '"' }))
    .join('---\n')
}

/** The KubeProxyConfiguration that is in force where `mode` runs (F-097): fields as kube-proxy's own encoding has them. */
export function effectiveConfiguration(config: Config, mode: ProxyMode): Readonly<Record<string, unknown>> {
  return documentOf(kubeProxyConfiguration, { ...config, mode })
}

interface Mapping {
  [key: string]: Json | Mapping
}

function documentOf({ apiVersion, kind, fields }: DocumentKind, config: Config): Mapping {
  const document: Mapping = { apiVersion, kind }
  for (const { path, show } of fields()) {
    const value = show(config)
    if (value !== undefined) put(document, path.split('.'), value)
  }
  return document
}

function put(mapping: Mapping, [name = '', ...rest]: readonly string[], value: Json): void {
  if (rest.length === 0) {
    mapping[name] = value
    return
  }
  const inner = mapping[name]
  const next = isInner(inner) ? inner : {}
  mapping[name] = next
  put(next, rest, value)
}

function isInner(value: Mapping[string] | undefined): value is Mapping {
  return typeof value === 'object' && !Array.isArray(value)
}

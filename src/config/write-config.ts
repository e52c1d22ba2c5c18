// A configuration as the text of a file.
import type { Config, ProxyMode } from './config.js'
import { documentKinds, kubeProxyConfiguration, type DocumentKind } from './documents.js'
import type { Json } from './field.js'

/** Both documents, with every field that is not at the kernel's choice; readConfig reads them as the same configuration. */
export function formatConfig(config: Config): string {
  return documentKinds.map((kind) => `${formatMapping(documentOf(kind, config)).join('\n')}\n`).join('---\n')
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

/** Lines of YAML, whose values are JSON. Names of fields need no quotes. */
function formatMapping(mapping: Mapping): readonly string[] {
  return Object.entries(mapping).flatMap(([name, value]) => {
    if (!isInner(value) || Object.keys(value).length === 0) return [`${name}: ${formatValue(value)}`]
    return [`${name}:`, ...formatMapping(value).map((line) => `  ${line}`)]
  })
}

// Letters that JSON leaves alone, and YAML does not take, or takes for the end of a line.
const unprintable = /[\u007F-\u009F\u2028\u2029\uFEFF\uFFFE\uFFFF]/gu

function formatValue(value: Mapping[string]): string {
  return JSON.stringify(value).replace(
    unprintable,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

// A configuration as the text of a file.
import { dump } from 'js-yaml'
import { apiVersions, documents } from './documents.js'
import { valueAt, withValueAt } from './places.js'
import type { AnySetting, Document } from './setting.js'
import type { ProxyMode } from './settings-traffic.js'
import { settings, type Config } from './settings.js'
import { kubernetesSchema } from './yaml-scalars.js'

/**
 * Both documents, with every field except those that the kernel decides. readConfig reads the same configuration from them. A text has
 * quotes only if YAML would read it as another type without them.
 */
export function formatConfig(config: Config): string {
  return documents
    .map((kind) =>
      dump(documentOf(kind, config), { lineWidth: -1, quotingType: '"', schema: kubernetesSchema }),
    )
    .join('---\n')
}

/** The KubeProxyConfiguration in force while `mode` runs (F-097), with the fields of kube-proxy's own encoding. */
export function effectiveConfiguration(config: Config, mode: ProxyMode): Readonly<Record<string, unknown>> {
  return documentOf('KubeProxyConfiguration', { ...config, mode })
}

/** All fields in the order of the table; those of `kind` at their path. */
function documentOf(kind: Document, config: Config): Readonly<Record<string, unknown>> {
  let document: Readonly<Record<string, unknown>> = { apiVersion: apiVersions[kind], kind }
  for (const setting of settings.filter((one) => one.document === kind)) {
    const value = shownIn(config, setting)
    if (value !== undefined)
      document = withValueAt(document, setting.field.split('.'), setting.type.write(value))
  }
  return document
}

/** The input that stands for the value in `config`; undefined: none does. */
export function shownIn(config: Config, { place, initial, show, use }: AnySetting): unknown {
  const value = valueAt(config, place)
  const isDefault = use === 'none' && value === undefined
  return isDefault ? initial : show(value, (key) => valueAt(config, key.split('.')))
}

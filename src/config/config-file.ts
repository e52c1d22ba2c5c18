// A configuration file: from its bytes to ConfigInput, and from a configuration to its text.
import { isUtf8 } from 'node:buffer'
import { dump } from 'js-yaml'
import { ConfigError } from '../errors.js'
import { takeField, settings, type ConfigInput, valueAt, withValueAt, type Config } from './settings.js'
import { parseYaml, kubernetesSchema } from './parse-yaml.js'
import type { AnySetting, Document } from './setting.js'
import { fileRefusal, isMapping, kindOf } from './value-types.js'
import type { ProxyMode } from './settings-traffic.js'

/**
 * Reads YAML or JSON: one KubeProxyConfiguration, and at most one ViaductConfiguration. As in kube-proxy, an unknown field has no
 * effect, and the last one of a repeated field counts. `ignoredFields` names both; with `isStrict` they are errors. Throws
 * ConfigError, whose path is `file` and whose message names the field, for every other error, except values that resolveConfig
 * validates.
 */
export function readConfig(file: string, bytes: Uint8Array, { isStrict = false } = {}): ConfigInput {
  const problems: ConfigError[] = []
  const report = (problem: ConfigError): void => void problems.push(problem)
  try {
    if (!isUtf8(bytes)) throw new ConfigError('', 'must be UTF-8 text')
    const found = new Map<Document, Readonly<Record<string, unknown>>>()
    const texts = parseYaml(Buffer.from(bytes).toString('utf8'), report)
    for (const [index, document] of texts.entries()) {
      const place = { number: index + 1, isFirst: found.size === 0 }
      addDocument(found, document, place, report)
    }
    if (!found.has('KubeProxyConfiguration')) {
      throw new ConfigError('', 'must hold a KubeProxyConfiguration, kubeproxy.config.k8s.io/v1alpha1')
    }
    let input: ConfigInput = {}
    for (const [kind, document] of found) input = new DocumentReader(kind, report).read(input, document)
    const ignoredFields = problems.map(({ message }) => message)
    if (isStrict && ignoredFields.length > 0) throw new ConfigError('', ignoredFields.join('; '))
    return ignoredFields.length === 0 ? input : { ...input, ignoredFields }
  } catch (error) {
    if (error instanceof ConfigError) throw new ConfigError(file, error.message)
    throw error
  }
}

/** The place of a document in its file. */
interface Place {
  /** From 1. */
  readonly number: number
  /** Whether no document with content comes before it. */
  readonly isFirst: boolean
}

/** Adds a document to those of known kinds. As in kube-proxy, only the first one must be of a known kind: others are reported. */
function addDocument(
  found: Map<Document, Readonly<Record<string, unknown>>>,
  document: unknown,
  { number, isFirst }: Place,
  report: (problem: ConfigError) => void,
): void {
  if (document === null || document === undefined) return
  const { apiVersion, kind } = isMapping(document) ? document : {}
  const type = documents.find((known) => known === kind && apiVersions[known] === apiVersion)
  if (type !== undefined && isMapping(document)) {
    if (found.has(type)) throw new ConfigError('', `holds more than one ${type}`)
    found.set(type, document)
    return
  }
  const isOurs = typeof apiVersion === 'string' && apiVersion.startsWith('viaduct.dev/')
  if (!isFirst && !isOurs) {
    const what = isMapping(document) ? typeText(apiVersion, kind) : kindOf(document)
    return report(new ConfigError(`document ${number}`, `is not read: ${what}`))
  }
  if (!isMapping(document)) {
    throw new ConfigError('', `must be a mapping with apiVersion and kind, not ${kindOf(document)}`)
  }
  const known = documents.map((one) => `${apiVersions[one]} ${one}`).join(' or ')
  throw new ConfigError('', `got unexpected config type: ${typeText(apiVersion, kind)}; must be ${known}`)
}

/** The type of a document, without text that can be no type: the file may be any file. */
function typeText(apiVersion: unknown, kind: unknown): string {
  return `${typeWord('apiVersion', apiVersion)}, ${typeWord('kind', kind)}`
}

function typeWord(name: string, written: unknown): string {
  if (written === undefined || written === null || written === '') return `no ${name}`
  return typeof written === 'string' && /^[\w./-]{1,100}$/u.test(written)
    ? written
    : `${name} that is no name`
}

class DocumentReader {
  readonly #document: Document
  readonly #settings: ReadonlyMap<string, AnySetting>
  /** Paths of mappings that hold fields. */
  readonly #mappings: ReadonlySet<string>
  /** Takes unknown fields. */
  readonly #report: (problem: ConfigError) => void

  constructor(document: Document, report: (problem: ConfigError) => void) {
    this.#document = document
    this.#report = report
    const known = settings.filter((one) => one.document === document)
    this.#settings = new Map(known.map((setting) => [setting.field, setting]))
    this.#mappings = new Set(known.flatMap(({ field }) => pathsAbove(field)))
  }

  /** `input` with all fields of `mapping`, which is at `above`; null counts as absent, as in kube-proxy. */
  read(
    input: ConfigInput,
    mapping: Readonly<Record<string, unknown>>,
    above: readonly string[] = [],
  ): ConfigInput {
    let result = input
    for (const [name, written] of Object.entries(mapping)) {
      const place = [...above, name.includes('.') ? JSON.stringify(name) : name]
      const path = place.join('.')
      if (path === 'apiVersion' || path === 'kind') continue
      const setting = this.#settings.get(path)
      if (setting === undefined && !this.#mappings.has(path)) {
        this.#report(this.#unknown(path))
        continue
      }
      if (written === null) continue
      if (setting !== undefined) {
        for (const inner of setting.type.unknownIn?.(path, written) ?? []) this.#report(this.#unknown(inner))
        result = takeField(result, setting, written)
      } else if (isMapping(written)) result = this.read(result, written, place)
      else throw fileRefusal(path, 'a mapping', written)
    }
    return result
  }

  #unknown(path: string): ConfigError {
    const other = settings.find(({ field, document }) => field === path && document !== undefined)?.document
    const hint = other === undefined ? '' : `; ${other} has it`
    return new ConfigError(path, `is not a field of ${this.#document}${hint}`)
  }
}

/** `a` and `a.b` of `a.b.c`. */
function pathsAbove(path: string): readonly string[] {
  const steps = path.split('.')
  return steps.slice(1).map((_, index) => steps.slice(0, index + 1).join('.'))
}

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

const apiVersions: Readonly<Record<Document, string>> = {
  KubeProxyConfiguration: 'kubeproxy.config.k8s.io/v1alpha1',
  ViaductConfiguration: 'viaduct.dev/v1alpha1',
}
const documents: readonly Document[] = ['KubeProxyConfiguration', 'ViaductConfiguration']

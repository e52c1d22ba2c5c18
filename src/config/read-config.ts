// From the bytes of a configuration file to ConfigInput.
import { isUtf8 } from 'node:buffer'
import { ConfigError } from '../errors.js'
import { takeField } from './config-input.js'
import { apiVersions, documents } from './documents.js'
import { parseYaml } from './parse-yaml.js'
import type { AnySetting, Document } from './setting.js'
import { settings, type ConfigInput } from './settings.js'
import { fileRefusal, isMapping } from './value-types.js'

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
    for (const document of texts) addDocument(found, document)
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

function addDocument(found: Map<Document, Readonly<Record<string, unknown>>>, document: unknown): void {
  if (document === null || document === undefined) return
  if (!isMapping(document)) throw fileRefusal('', 'a mapping with apiVersion and kind', document)
  const { apiVersion, kind } = document
  const type = documents.find((known) => known === kind && apiVersions[known] === apiVersion)
  if (type === undefined) {
    const known = documents.map((one) => `${apiVersions[one]} ${one}`).join(' or ')
    const got = `${wordOr('no apiVersion', apiVersion)}, ${wordOr('no kind', kind)}`
    throw new ConfigError('', `got unexpected config type: ${got}; must be ${known}`)
  }
  if (found.has(type)) throw new ConfigError('', `holds more than one ${type}`)
  found.set(type, document)
}

function wordOr(none: string, written: unknown): string {
  return typeof written === 'string' && written !== '' ? written : none
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

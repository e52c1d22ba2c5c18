// A configuration file's bytes as what an operator wrote.
import { isUtf8 } from 'node:buffer'
import { ConfigError } from '../errors.js'
import type { ConfigInput } from './config.js'
import { documentKinds, type DocumentKind } from './documents.js'
import { isMapping, refusal, type Field } from './field.js'
import { parseYaml } from './parse-yaml.js'

/**
 * Reads YAML or JSON: one KubeProxyConfiguration, and beside it at most one ViaductConfiguration. As in kube-proxy, a field
 * that is unknown has no effect, and of a field that is written twice the last one counts: both are in `ignoredFields`, and with
 * `isStrict` they are errors. Throws ConfigError, whose path is `file` and whose message names the field, for everything else that
 * is wrong; what a value means is looked at by resolveConfig.
 */
export function readConfig(file: string, bytes: Uint8Array, { isStrict = false } = {}): ConfigInput {
  const problems: ConfigError[] = []
  const report = (problem: ConfigError): void => void problems.push(problem)
  try {
    if (!isUtf8(bytes)) throw new ConfigError('', 'must be UTF-8 text')
    const found = new Map<DocumentKind, Readonly<Record<string, unknown>>>()
    const documents = parseYaml(Buffer.from(bytes).toString('utf8'), report)
    for (const document of documents) addDocument(found, document)
    if (![...found.keys()].some(({ kind }) => kind === 'KubeProxyConfiguration')) {
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

function addDocument(found: Map<DocumentKind, Readonly<Record<string, unknown>>>, document: unknown): void {
  if (document === null || document === undefined) return
  if (!isMapping(document)) throw refusal('', 'a mapping with apiVersion and kind', document)
  const { apiVersion, kind } = document
  const type = documentKinds.find((known) => known.kind === kind && known.apiVersion === apiVersion)
  if (type === undefined) {
    const known = documentKinds.map((one) => `${one.apiVersion} ${one.kind}`).join(' or ')
    const got = `${wordOr('no apiVersion', apiVersion)}, ${wordOr('no kind', kind)}`
    throw new ConfigError('', `got unexpected config type: ${got}; must be ${known}`)
  }
  if (found.has(type)) throw new ConfigError('', `holds more than one ${type.kind}`)
  found.set(type, document)
}

function wordOr(none: string, written: unknown): string {
  return typeof written === 'string' && written !== '' ? written : none
}

class DocumentReader {
  readonly #kind: DocumentKind
  readonly #fields: ReadonlyMap<string, Field>
  /** Paths of mappings that hold fields. */
  readonly #mappings: ReadonlySet<string>
  /** Takes fields that are unknown. */
  readonly #report: (problem: ConfigError) => void

  constructor(kind: DocumentKind, report: (problem: ConfigError) => void) {
    this.#report = report
    const fields = kind.fields()
    this.#kind = kind
    this.#fields = new Map(fields.map((field) => [field.path, field]))
    this.#mappings = new Set(fields.flatMap(({ path }) => pathsAbove(path)))
  }

  /** `input` with all fields of `mapping`, which is at `above`; a null is nothing, as in kube-proxy. */
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
      const field = this.#fields.get(path)
      if (field === undefined && !this.#mappings.has(path)) {
        this.#report(this.#unknown(path))
        continue
      }
      if (written === null) continue
      if (field !== undefined) {
        for (const inner of field.unknownIn(written)) this.#report(this.#unknown(inner))
        result = field.take(result, written)
      } else if (isMapping(written)) result = this.read(result, written, place)
      else throw refusal(path, 'a mapping', written)
    }
    return result
  }

  #unknown(path: string): ConfigError {
    const { kind } = this.#kind
    const other = documentKinds.find((one) => one.fields().some((field) => field.path === path))
    const hint = other === undefined ? '' : `; ${other.kind} has it`
    return new ConfigError(path, `is not a field of ${kind}${hint}`)
  }
}

/** `a` and `a.b` of `a.b.c`. */
function pathsAbove(path: string): readonly string[] {
  const steps = path.split('.')
  return steps.slice(1).map((_, index) => steps.slice(0, index + 1).join('.'))
}

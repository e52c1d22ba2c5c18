// YAML as Kubernetes reads it: its documents, repeated fields, the bounds of aliases, and plain scalars.
import { loadAll, YAMLException, type EventType, type State, FAILSAFE_SCHEMA, Type } from 'js-yaml'
import { ConfigError } from '../errors.js'

/**
 * Returns the documents of YAML or JSON, read as Kubernetes reads them. Calls `onRepeated` with the path and the line of each repeated
 * field; the last one counts. Without `onRepeated` a repeated field is an error. Throws what `onRepeated` throws, and ConfigError with the
 * line and the column of a syntax error. Its message has no text of the file, which may be a secret that is no YAML at all.
 */
export function parseYaml(text: string, onRepeated?: (problem: ConfigError) => void): readonly unknown[] {
  if (text.trim() === '') throw new ConfigError('', 'is empty')
  const trail = onRepeated === undefined ? undefined : new Trail(onRepeated)
  const aliases = text.includes('&') && text.includes('*') ? new AliasCount() : undefined
  const listener = (event: EventType, state: State): void => {
    trail?.follow(event, state)
    if (event === 'open') return aliases?.begin()
    const problem = aliases?.end(state)
    if (problem !== undefined) throw new ConfigError(`line ${state.line + 1}`, problem)
  }
  try {
    return loadAll(text, null, {
      schema: kubernetesSchema,
      json: onRepeated !== undefined,
      ...(trail === undefined && aliases === undefined ? {} : { listener }),
    })
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error
    // NB: an error of the whole stream has no mark.
    const { mark, reason } = error
    const where = mark === undefined ? '' : `line ${mark.line + 1}, column ${mark.column + 1}`
    throw new ConfigError(where, withoutContent(reason))
  }
}

/** The parser quotes tags, aliases and names of the file at the end of a sentence, behind one of these characters. */
function withoutContent(reason: string): string {
  return reason.replace(/ ?(?:"|!<|: ).*$/su, '')
}

/** A node whose end the parser has not reached. */
interface OpenNode {
  /** Number of ended nodes in it: keys and values in turn, or the items of a list. */
  children: number
  /** The last key, or every other item of a list. */
  last: unknown
  readonly keys: Set<unknown>
  /** Repeated keys with their lines. Only the end of the node shows whether it is a mapping; in a list these are items. */
  readonly repeated: { readonly key: string; readonly line: number }[]
}

/** The position of the parser in its document. The parser itself knows only the line. */
class Trail {
  readonly #onRepeated: (problem: ConfigError) => void
  readonly #open: OpenNode[] = []

  constructor(onRepeated: (problem: ConfigError) => void) {
    this.#onRepeated = onRepeated
  }

  follow(event: EventType, { result, kind, line }: Pick<State, 'result' | 'kind' | 'line'>): void {
    if (event === 'open') {
      this.#open.push({ children: 0, last: undefined, keys: new Set(), repeated: [] })
      return
    }
    const ended = this.#open.pop()
    if (ended !== undefined && kind === 'mapping') this.#report(ended)
    const parent = this.#open.at(-1)
    if (parent === undefined) return
    if (parent.children % 2 === 0) {
      parent.last = result
      if (parent.keys.has(result)) parent.repeated.push({ key: String(result), line: line + 1 })
      parent.keys.add(result)
    }
    parent.children++
  }

  /** Reports the repeated keys of the mapping that has just ended. */
  #report({ repeated }: OpenNode): void {
    for (const { key, line } of repeated)
      this.#onRepeated(new ConfigError(this.#pathOf(key), `is written twice (line ${line})`))
  }

  /** Path of a field of that mapping. A node without ended children is a list at its first item, or the same node again. */
  #pathOf(key: string): string {
    const steps = this.#open
      .filter(({ children }) => children > 0)
      .map(({ children, last }) => (typeof last === 'string' ? last : `[${children}]`))
    return [...steps, key].join('.').replaceAll('.[', '[')
  }
}

/** A node that the parser has ended. `kind`: null for an alias. */
interface EndedNode {
  readonly result: unknown
  readonly kind: unknown
}

/** A node whose end the parser has not reached. */
interface CountedNode {
  values: number
  /** undefined: it has no ended node, or several ones. */
  only: EndedNode | undefined
  isBare: boolean
}

// The bounds of go.yaml.in/yaml/v2 (decode.go), and so of kubectl and kube-proxy: nearly all values of a small file may come from aliases,
// but only a tenth of those of a large one.
const smallest = { aliased: 100, values: 1000 }
const small = { values: 400_000, share: 0.99 }
const large = { values: 4_000_000, share: 0.1 }

/**
 * Counts the values of a file as if each alias (`*name`) were written out. An alias costs the parser nothing, but each use costs those who
 * read the values.
 */
class AliasCount {
  /** Values of the lists and mappings that have ended. An alias has the list or the mapping of its anchor itself. */
  readonly #counted = new Map<unknown, number>()
  readonly #open: CountedNode[] = []
  #values = 0
  #aliased = 0

  begin(): void {
    this.#open.push({ values: 1, only: undefined, isBare: true })
  }

  /**
   * Returns the problem once there are more values than Kubernetes accepts, and for an alias that contains itself.
   */
  end({ result, kind }: EndedNode): string | undefined {
    const { values, only } = this.#open.pop() ?? { values: 1, only: undefined }
    // The parser opens a node twice if it may be the first field of a mapping.
    const isSameAgain = only !== undefined && Object.is(only.result, result) && only.kind === kind
    const isAlias = kind === null && typeof result === 'object' && result !== null
    const own = isSameAgain ? values - 1 : isAlias ? this.#counted.get(result) : values
    if (own === undefined) return 'an alias contains itself'
    const parent = this.#open.at(-1)
    if (parent !== undefined) {
      parent.values += own
      parent.only = parent.isBare ? { result, kind } : undefined
      parent.isBare = false
    }
    if (isSameAgain) return undefined
    if (typeof result === 'object') this.#counted.set(result, own)
    this.#values += isAlias ? own : 1
    this.#aliased += isAlias ? own : 0
    return this.#excess()
  }

  #excess(): string | undefined {
    if (this.#aliased <= smallest.aliased || this.#values <= smallest.values) return undefined
    if (this.#aliased <= this.#values * allowedShare(this.#values)) return undefined
    return `the aliases up to here stand for ${this.#aliased} of ${this.#values} values, more than Kubernetes accepts`
  }
}

/** The part of all values that may come from aliases. */
function allowedShare(values: number): number {
  const step = (values - small.values) / (large.values - small.values)
  return small.share - (small.share - large.share) * Math.min(Math.max(step, 0), 1)
}

// Plain scalars: YAML 1.1 with octal numbers of YAML 1.2, no sexagesimal ones, and dates as text. Source: go.yaml.in/yaml/v2 resolve.go,
// which sigs.k8s.io/yaml uses for kube-proxy's file, manifests and kubeconfigs.
interface Scalar {
  readonly tag: 'null' | 'bool' | 'int' | 'float'
  readonly value: null | boolean | number
}

const words: ReadonlyMap<string, Scalar> = new Map([
  ...wordsOf('true True TRUE yes Yes YES on On ON y Y', { tag: 'bool', value: true }),
  ...wordsOf('false False FALSE no No NO off Off OFF n N', { tag: 'bool', value: false }),
  ...wordsOf('null Null NULL ~', { tag: 'null', value: null }),
  ...wordsOf('.inf .Inf .INF +.inf +.Inf +.INF', { tag: 'float', value: Infinity }),
  ...wordsOf('-.inf -.Inf -.INF', { tag: 'float', value: -Infinity }),
  ...wordsOf('.nan .NaN .NAN', { tag: 'float', value: NaN }),
  ['', { tag: 'null', value: null }],
])

function wordsOf(texts: string, scalar: Scalar): readonly [string, Scalar][] {
  return texts.split(' ').map((text) => [text, scalar])
}

/** By the first character: what a scalar that is not text may be. Most scalars of a manifest are text, and each is asked about six types. */
const hints: ReadonlyMap<number, 'word' | 'number' | 'dot'> = new Map([
  ...[...Buffer.from('~YyNnTtFfOo')].map((code) => [code, 'word'] as const),
  ...[...Buffer.from('+-0123456789')].map((code) => [code, 'number'] as const),
  ['.'.charCodeAt(0), 'dot'],
])
const number = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/u
// Numbers that begin with a dot go through strconv.ParseFloat of Go alone: underscores stand only between digits.
const fraction = /^\.\d+(?:_\d+)*(?:[eE][-+]?\d+(?:_\d+)*)?$/u

/** undefined: the scalar is text. */
function resolveScalar(text: string): Scalar | undefined {
  const hint = hints.get(text.charCodeAt(0))
  if (hint === undefined) return text === '' ? words.get('') : undefined
  const word = words.get(text)
  if (word !== undefined || hint === 'word') return word
  if (hint === 'dot') return fraction.test(text) ? floatOf(text.replaceAll('_', '')) : undefined
  const digits = text.replaceAll('_', '')
  return wholeOf(digits) ?? (number.test(digits) ? floatOf(digits) : undefined)
}

/** The ways to write a whole number, each with its prefix in JavaScript. */
const wholeNumbers: readonly (readonly [RegExp, string])[] = [
  [/^[-+]?(?<digits>0|[1-9]\d*)$/u, ''],
  [/^[-+]?0[oO]?(?<digits>[0-7]+)$/u, '0o'],
  [/^[-+]?0[xX](?<digits>[\da-fA-F]+)$/u, '0x'],
  [/^[-+]?0[bB](?<digits>[01]+)$/u, '0b'],
]

/** Numbers of 64 bits, as in Go; undefined for others. */
function wholeOf(text: string): Scalar | undefined {
  for (const [pattern, prefix] of wholeNumbers) {
    const digits = pattern.exec(text)?.groups?.['digits']
    if (digits === undefined) continue
    const size = Number(`${prefix}${digits}`)
    if (text.startsWith('-')) return size > 2 ** 63 ? undefined : { tag: 'int', value: 0 - size }
    return size >= 2 ** 64 ? undefined : { tag: 'int', value: size }
  }
  return undefined
}

/** undefined: too large for a floating-point number. */
function floatOf(text: string): Scalar | undefined {
  const value = Number(text)
  return Number.isFinite(value) ? { tag: 'float', value } : undefined
}

/** The type of the scalars with these tags; the first one is its name. */
function scalarType(name: Scalar['tag'], predicate: (value: unknown) => boolean, tags = [name]): Type {
  return new Type(`tag:yaml.org,2002:${name}`, {
    kind: 'scalar',
    // NB: null is a scalar without content.
    resolve: (text: string | null) => {
      const scalar = resolveScalar(text ?? '')
      return scalar !== undefined && tags.includes(scalar.tag)
    },
    construct: (text: string | null) => resolveScalar(text ?? '')?.value,
    predicate,
    represent: String,
  })
}

const isDate = (text: string): boolean =>
  hints.get(text.charCodeAt(0)) === 'number' && /^\d{4}-\d\d?-\d\d?/u.test(text)
const isNumber = (value: unknown): value is number => typeof value === 'number'

/** The scalars of Kubernetes, and merge keys (`<<`), for reading and for writing: a text that would be read as another type gets quotes. */
export const kubernetesSchema = FAILSAFE_SCHEMA.extend({
  implicit: [
    scalarType('null', (value) => value === null),
    scalarType('bool', (value) => typeof value === 'boolean'),
    scalarType('int', (value) => isNumber(value) && Number.isInteger(value)),
    // As in Go, a whole number may have the tag `!!float`.
    scalarType('float', (value) => isNumber(value) && !Number.isInteger(value), ['float', 'int']),
    // A date is text, with quotes when it is written: other programs read it as a date.
    new Type('tag:yaml.org,2002:timestamp', {
      kind: 'scalar',
      resolve: (text: string | null) => isDate(text ?? ''),
    }),
    new Type('tag:yaml.org,2002:merge', { kind: 'scalar', resolve: (text) => text === '<<' }),
  ],
  explicit: [
    new Type('tag:yaml.org,2002:binary', {
      kind: 'scalar',
      resolve: (text) => text !== null,
      construct: (text: string) => Buffer.from(text, 'base64').toString('utf8'),
    }),
  ],
})

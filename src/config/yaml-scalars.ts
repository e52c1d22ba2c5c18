// Plain scalars of YAML as Kubernetes resolves them: YAML 1.1 with octal numbers of YAML 1.2, no sexagesimal ones, and dates as text.
// Source: go.yaml.in/yaml/v2 resolve.go, which sigs.k8s.io/yaml uses for kube-proxy's file, manifests and kubeconfigs.
import { FAILSAFE_SCHEMA, Type } from 'js-yaml'

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

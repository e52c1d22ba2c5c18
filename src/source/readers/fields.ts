// Types of the fields of Kubernetes objects, and the messages for fields that have another type.
import {
  FormatRegistry,
  KindGuard,
  Type,
  type SchemaOptions,
  type Static,
  type TObject,
  type TProperties,
  type TSchema,
} from '@sinclair/typebox'
import { TypeCompiler, type TypeCheck, type ValueError } from '@sinclair/typebox/compiler'
import { familyOf, parseCidr, parseIpAddress, type IpFamily } from '../../address.js'
import { isMapping, type FieldProblem } from '../../api/index.js'
import { type Labels, readLabels, schedulingAnnotations, type SchedulingAnnotations } from '../objects.js'

/** Options of a schema that accepts only `what`, for its message. */
export function expected(what: string): SchemaOptions & { readonly expected: string } {
  return { expected: what }
}

/** A mapping with these fields. Other fields are ignored. */
export function mapping<P extends TProperties>(fields: P): TObject<P> {
  return Type.Object(fields, expected('a mapping'))
}

export const text = Type.String(expected('text (quote it)'))
/** DNS label (RFC 1123): namespaces. */
export const dnsLabel = matching('[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?', 'up to 63 of a-z, 0-9 and "-"')
/** DNS label or nothing. */
const portNameText = '(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)?'
export const portName = Type.Optional(matching(portNameText, 'up to 63 of a-z, 0-9 and "-"'))
/** DNS subdomain: names of objects. */
export const objectName = matching(
  '[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?',
  'up to 253 of a-z, 0-9, "-" and "."',
)
export const labels = Type.Optional(
  Type.Unsafe<Readonly<Record<string, string>>>(
    Type.Object({}, { ...expected('a mapping'), additionalProperties: text }),
  ),
)
export const annotations = labels
export const protocol = Type.Optional(oneOf('TCP', 'UDP', 'SCTP'))
export const flag = Type.Optional(Type.Boolean(expected('true or false')))
export const trafficPolicy = Type.Optional(oneOf('Cluster', 'Local'))

export const metadata = { name: objectName, namespace: Type.Optional(dnsLabel), labels }

function matching(pattern: string, what: string) {
  return Type.String({ ...expected(what), pattern: `^${pattern}$` })
}

/** One of these words. */
export function oneOf<const W extends string>(...words: readonly [W, ...W[]]) {
  const last = words.at(-1)
  const what = words.length === 1 ? words[0] : `${words.slice(0, -1).join(', ')} or ${last}`
  return Type.Unsafe<W>(
    Type.Union(
      words.map((word) => Type.Literal(word)),
      expected(what),
    ),
  )
}

export function wholeNumber(from: number, to: number) {
  return Type.Integer({ ...expected(`a whole number from ${from} to ${to}`), minimum: from, maximum: to })
}

export function list<S extends TSchema>(item: S) {
  return Type.Optional(Type.Array(item, expected('a list')))
}

/** A copy without spare capacity. All empty and absent lists share one list. */
export function kept<T>(items: readonly T[] | undefined): readonly T[] {
  return items === undefined || items.length === 0 ? none : items.slice()
}

const none: readonly never[] = []

/** Unix milliseconds; undefined for a value that is no time, as in kube-proxy. */
export function timeOf(written: unknown): number | undefined {
  const ms = typeof written === 'string' ? Date.parse(written) : NaN
  return Number.isNaN(ms) ? undefined : ms
}

/** The labels that are read. All objects without any share one object. */
export function keptLabels(written: Readonly<Record<string, string>> | undefined): Labels {
  if (written === undefined) return noLabels
  let found = noLabels
  for (const label of keptLabelNames) {
    const value = written[label]
    if (value !== undefined) found = { ...found, [label]: value }
  }
  return found
}

const noLabels: Labels = {}
const keptLabelNames = Object.values(readLabels)

/** The scheduling annotations. All Services without any share one object. */
export function keptScheduling(written: Readonly<Record<string, string>> | undefined): SchedulingAnnotations {
  if (written === undefined) return noAnnotations
  const { scheduler, schedulerFlags, weights } = schedulingAnnotations
  if (!(scheduler in written || schedulerFlags in written || weights in written)) return noAnnotations
  return {
    scheduler: written[scheduler],
    schedulerFlags: written[schedulerFlags],
    weights: written[weights],
  }
}

const noAnnotations: SchedulingAnnotations = {}

const names = { ipv4: 'an IPv4 address', ipv6: 'an IPv6 address' }
for (const family of ['ipv4', 'ipv6'] as const) {
  FormatRegistry.Set(family, (written) => {
    const parsed = parseIpAddress(written)
    return parsed !== undefined && familyOf(parsed) === family
  })
}
FormatRegistry.Set(
  'cluster-ip',
  (written) => written === '' || written === 'None' || parseIpAddress(written) !== undefined,
)

/** An address of the API. IPv4 may have leading zeros (F-004); the text stays as written. */
export function address(family: IpFamily) {
  return Type.String({ ...expected(names[family]), format: family })
}

FormatRegistry.Set('network', (written) => parseCidr(written) !== undefined)
export const network = Type.String({
  ...expected('a network such as 10.96.0.0/16 or fd00:10:96::/112'),
  format: 'network',
})

/** A clusterIP: also empty (none yet) or "None" (headless). */
export const clusterIP = Type.String({ ...expected('an IP address, "" or None'), format: 'cluster-ip' })

/** Reads a document by a schema. Returns its fields, also those that the schema does not name, or all wrong fields. */
export type FieldsReader<S extends TSchema> = (
  document: unknown,
) => { readonly fields: Static<S> } | { readonly problems: readonly FieldProblem[] }

/** The reader for `schema`, which is compiled at the first call. A null field counts as absent, as in the API server. */
export function fieldsBy<S extends TSchema>(schema: S): FieldsReader<S> {
  let compiled: TypeCheck<S> | undefined
  return (document) => {
    compiled ??= TypeCompiler.Compile(schema)
    if (compiled.Check(document)) return { fields: document }
    const fields = withoutNulls(schema, document)
    return compiled.Check(fields) ? { fields } : { problems: problemsOf(compiled.Errors(fields)) }
  }
}

/**
 * Returns the value without the null fields that the schema names. A null in a list or in a map of texts stays, and is a problem. The
 * schema limits the depth, since a document may be deep or contain itself.
 */
function withoutNulls(schema: TSchema, value: unknown): unknown {
  if (Array.isArray(value) && KindGuard.IsArray(schema))
    return value.map((item) => withoutNulls(schema.items, item))
  if (!isMapping(value) || !KindGuard.IsObject(schema)) return value
  const fields = { ...value }
  for (const [key, inner] of Object.entries(schema.properties)) {
    const field = value[key]
    if (field === null) delete fields[key]
    else if (field !== undefined) fields[key] = withoutNulls(inner, field)
  }
  return fields
}

// Keeps the first problem of each field.
function problemsOf(errors: Iterable<ValueError>): FieldProblem[] {
  const problems = new Map<string, string>()
  for (const { path, value, schema } of errors) {
    if (!problems.has(path)) problems.set(path, problemOf(value, schema))
  }
  return [...problems].map(([path, problem]) => ({ path: dottedPath(path), problem }))
}

function problemOf(value: unknown, schema: TSchema): string {
  if (value === undefined) return 'is missing'
  if (Array.isArray(value) && value.length === 0 && schema['minItems'] !== undefined)
    return 'must hold an address'
  return `must be ${String(schema['expected'])}, not ${show(value)}`
}

// The longest name of an object, so that valid names are never cut.
const longestShown = 253

/** A text from an object, cut to a length that fits a log line. */
export function cut(written: string): string {
  return written.length <= longestShown ? written : `${written.slice(0, longestShown)}…`
}

function show(value: unknown): string {
  if (typeof value === 'string') return `the text ${JSON.stringify(cut(value))}`
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object' && value !== null) return 'a mapping'
  return String(value)
}

/** A JSON pointer (RFC 6901) as people write it: `ports[0].name`, `labels["app.example/on"]`. */
function dottedPath(pointer: string): string {
  let dotted = ''
  for (const step of pointer.split('/').slice(1)) {
    const key = cut(step.replaceAll('~1', '/').replaceAll('~0', '~'))
    if (/^\d+$/u.test(key)) dotted += `[${key}]`
    else if (/^\w+$/u.test(key)) dotted += dotted === '' ? key : `.${key}`
    else dotted += `[${JSON.stringify(key)}]`
  }
  return dotted
}

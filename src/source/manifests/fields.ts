// What the fields of Kubernetes objects may hold, and sentences for those that hold something else.
import * as v from 'valibot'
import { familyOf, parseIpAddress, type IpFamily } from '../../address.js'
import { type Labels, readLabels, schedulingAnnotations, type SchedulingWish } from '../objects.js'

/** One wrong field: where (dotted) and what would be right. */
export interface FieldProblem {
  readonly path: string
  readonly problem: string
}

type Message = (issue: v.BaseIssue<unknown>) => string

/** Message of a schema that accepts only `what`. */
export function expected(what: string): Message {
  return ({ input }) =>
    input === undefined ? `is missing: must be ${what}` : `must be ${what}, not ${show(input)}`
}

function show(value: unknown): string {
  if (typeof value === 'string') return `the text ${JSON.stringify(value)}`
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object' && value !== null) return 'a mapping'
  return String(value)
}

/** A mapping with these fields; others are ignored, as Kubernetes objects have many that we do not read. */
export function mapping<E extends v.ObjectEntries>(entries: E): v.ObjectSchema<E, Message> {
  // valibot asks the mapping, not the field, for the message of a field that is absent: `expected` is then its quoted name.
  return v.object(entries, (issue) =>
    issue.expected?.startsWith('"') ? 'is missing' : expected('a mapping')(issue),
  )
}

const labelText = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/u
const portNameText = /^(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)?$/u
const subdomainText = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/u

export const text = v.string(expected('text (quote it)'))
/** DNS label (RFC 1123): namespaces. */
export const dnsLabel = matching(labelText, 'up to 63 of a-z, 0-9 and "-"')
/** DNS label or nothing: one pattern, as a union makes an issue for every name that is not empty. */
export const portName = matching(portNameText, 'up to 63 of a-z, 0-9 and "-"')
/** DNS subdomain: names of objects. */
export const objectName = matching(subdomainText, 'up to 253 of a-z, 0-9, "-" and "."')
export const labels = v.nullish(v.record(v.string(), text, expected('a mapping')))
export const annotations = labels
export const protocol = v.nullish(v.picklist(['TCP', 'UDP', 'SCTP'], expected('TCP, UDP or SCTP')))
export const flag = v.boolean(expected('true or false'))
export const trafficPolicy = v.nullish(v.picklist(['Cluster', 'Local'], expected('Cluster or Local')))

export const metadata = mapping({
  name: objectName,
  namespace: v.nullish(dnsLabel),
  labels,
})

function matching(pattern: RegExp, what: string) {
  const message = expected(what)
  return v.pipe(
    v.string(message),
    v.check((input) => pattern.test(input), message),
  )
}

export function wholeNumber(from: number, to: number) {
  const message = expected(`a whole number from ${from} to ${to}`)
  return v.pipe(
    v.number(message),
    v.check((input) => Number.isInteger(input) && input >= from && input <= to, message),
  )
}

export function list<S extends v.GenericSchema>(item: S) {
  return v.nullish(v.array(item, expected('a list')))
}

/** A list to keep: without the room to grow that its reading left, and one for all when it is empty or absent, as most are. */
export function kept<T>(items: readonly T[] | null | undefined): readonly T[] {
  return items === null || items === undefined || items.length === 0 ? none : items.slice()
}

const none: readonly never[] = []

/** The labels that are read; one object for all who have none of them. */
export function keptLabels(written: Readonly<Record<string, string>> | null | undefined): Labels {
  if (written === null || written === undefined) return noLabels
  let found = noLabels
  for (const label of Object.values(readLabels)) {
    const value = written[label]
    if (value !== undefined) found = { ...found, [label]: value }
  }
  return found
}

const noLabels: Labels = {}

/** What annotations say of scheduling; one object for all who say nothing. */
export function keptScheduling(written: Readonly<Record<string, string>> | null | undefined): SchedulingWish {
  if (written === null || written === undefined) return noWish
  const { scheduler, schedulerFlags, weights } = schedulingAnnotations
  if (!(scheduler in written || schedulerFlags in written || weights in written)) return noWish
  return {
    scheduler: written[scheduler],
    schedulerFlags: written[schedulerFlags],
    weights: written[weights],
  }
}

const noWish: SchedulingWish = {}

/** An address of the API: leading zeros in IPv4 are accepted (kube-proxy's F-004), the text is kept as written. */
export function address(family?: IpFamily) {
  const names = { ipv4: 'an IPv4 address', ipv6: 'an IPv6 address' }
  const message = expected(family === undefined ? 'an IP address' : names[family])
  return v.pipe(
    v.string(message),
    v.check((input) => {
      const parsed = parseIpAddress(input)
      return parsed !== undefined && (family === undefined || familyOf(parsed) === family)
    }, message),
  )
}

/** A clusterIP: also empty (none yet) or "None" (headless). */
export const clusterIP = v.pipe(
  v.string(expected('an IP address, "" or None')),
  v.check(
    (input) => input === '' || input === 'None' || parseIpAddress(input) !== undefined,
    expected('an IP address, "" or None'),
  ),
)

/** The fields of `document` by `schema`, or every field that is wrong. */
export function readFields<S extends v.GenericSchema>(
  schema: S,
  document: unknown,
): { readonly fields: v.InferOutput<S> } | { readonly problems: readonly FieldProblem[] } {
  const result = v.safeParse(schema, document)
  if (result.success) return { fields: result.output }
  const problems = result.issues.map((issue) => ({ path: dottedPath(issue.path), problem: issue.message }))
  return { problems }
}

function dottedPath(path: v.BaseIssue<unknown>['path']): string {
  let dotted = ''
  for (const { key } of path ?? []) {
    if (typeof key === 'number') dotted += `[${key}]`
    else if (typeof key === 'string' && /^\w+$/u.test(key)) dotted += dotted === '' ? key : `.${key}`
    else dotted += `[${JSON.stringify(key)}]`
  }
  return dotted
}

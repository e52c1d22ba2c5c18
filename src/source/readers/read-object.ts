// Chooses the reader of a Kubernetes object by its type, and names the object in messages.
import type { KubernetesObject } from '../objects.js'
import { readEndpointSlice } from './endpoint-slice.js'
import { isMapping, type FieldProblem } from '../../api/index.js'
import { cut } from './fields.js'
import { readNode } from './node.js'
import { readService } from './service.js'
import { readServiceCidr } from './service-cidr.js'

/** Reads a parsed JSON or YAML document. Returns the object with the API server's defaults, or its problems. */
export type ObjectReader = (document: unknown) => KubernetesObject | readonly FieldProblem[]

/** Readers by `apiVersion kind`. */
export const objectReaders: Readonly<Record<string, ObjectReader>> = {
  'v1 Service': readService,
  'discovery.k8s.io/v1 EndpointSlice': readEndpointSlice,
  'v1 Node': readNode,
  'networking.k8s.io/v1 ServiceCIDR': readServiceCidr,
  'networking.k8s.io/v1beta1 ServiceCIDR': readServiceCidr,
}

/** Whether objects of the kind have no namespace. */
export function isClusterScoped(kind: string): boolean {
  return kind === 'Node' || kind === 'ServiceCIDR'
}

export function isProblems(
  value: KubernetesObject | readonly FieldProblem[],
): value is readonly FieldProblem[] {
  return Array.isArray(value)
}

type ObjectIdentity = Pick<KubernetesObject, 'kind' | 'namespace' | 'name'>

/** The identity of an object in the API, as a key. */
export function objectKey(object: ObjectIdentity): string {
  return `${object.kind} ${object.namespace}/${object.name}`
}

/** The key of an object with these problems; undefined: one of them is about its name or namespace. */
export function keyOfRefused(
  document: unknown,
  kind: string,
  problems: readonly FieldProblem[],
): string | undefined {
  if (problems.some(({ path }) => identityPaths.has(path))) return undefined
  const { name, namespace } = metadataOf(document)
  if (name === undefined) return undefined
  const isScoped = isClusterScoped(kind)
  return isScoped ? `${kind} /${name}` : `${kind} ${namespace ?? defaultNamespace}/${name}`
}

/** Problems at these fields leave it open which object is meant. */
const identityPaths: ReadonlySet<string> = new Set(['', 'metadata', 'metadata.name', 'metadata.namespace'])

const defaultNamespace = 'default'

/**
 * `Service shop/web`, or only the kind if the document has no readable name. Of other kinds it is not known whether they have a
 * namespace: these get one only if it is written.
 */
export function describeDocument(document: unknown, kind: string): string {
  const { name, namespace } = metadataOf(document)
  if (name === undefined) return kind
  const isRead = kind === 'Service' || kind === 'EndpointSlice'
  const space = isClusterScoped(kind) ? undefined : (namespace ?? (isRead ? defaultNamespace : undefined))
  return space === undefined ? `${kind} ${cut(name)}` : `${kind} ${cut(space)}/${cut(name)}`
}

/** `Service shop/web`, `Node n`. */
export function describeObject({ kind, namespace, name }: ObjectIdentity): string {
  return isClusterScoped(kind) ? `${kind} ${name}` : `${kind} ${namespace}/${name}`
}

function metadataOf(document: unknown): {
  readonly name?: string | undefined
  readonly namespace?: string | undefined
} {
  const metadata = isMapping(document) ? document['metadata'] : undefined
  if (!isMapping(metadata)) return {}
  return { name: textOf(metadata['name']), namespace: textOf(metadata['namespace']) }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** Further problems are only counted. */
const mostProblems = 5

/** The problems of one object or file in one line. */
export function joinProblems(problems: readonly string[]): string {
  const named = problems.slice(0, mostProblems)
  const more = problems.length - named.length
  return named.join('; ') + (more > 0 ? `; and ${more} more` : '')
}

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

/** The identity of an object in the API, as a key. */
export function objectKey(object: Pick<KubernetesObject, 'kind' | 'namespace' | 'name'>): string {
  return `${object.kind} ${object.namespace}/${object.name}`
}

/** `Service shop/web`, or only the kind if the document has no readable name. */
export function describeDocument(document: unknown, kind: string): string {
  const metadata = isMapping(document) ? document['metadata'] : undefined
  if (!isMapping(metadata) || typeof metadata['name'] !== 'string') return kind
  const name = cut(metadata['name'])
  if (isClusterScoped(kind)) return `${kind} ${name}`
  const namespace = typeof metadata['namespace'] === 'string' ? metadata['namespace'] : 'default'
  return `${kind} ${cut(namespace)}/${name}`
}

/** Further problems are only counted. */
const mostProblems = 5

/** The problems of one object or file in one line. */
export function joinProblems(problems: readonly string[]): string {
  const named = problems.slice(0, mostProblems)
  const more = problems.length - named.length
  return named.join('; ') + (more > 0 ? `; and ${more} more` : '')
}

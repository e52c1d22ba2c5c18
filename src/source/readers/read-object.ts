// Kubernetes objects as the API and manifests write them: which reader reads which, and their names in messages.
import type { KubernetesObject } from '../objects.js'
import { readEndpointSlice } from './endpoint-slice.js'
import { isMapping, type FieldProblem } from '../../api/index.js'
import { cut } from './fields.js'
import { readNode } from './node.js'
import { readService } from './service.js'

/** Reads a document as JSON or YAML give it: the object with the API server's defaults, or what is wrong with it. */
export type ObjectReader = (document: unknown) => KubernetesObject | readonly FieldProblem[]

/** Readers by `apiVersion kind`. */
export const objectReaders: Readonly<Record<string, ObjectReader>> = {
  'v1 Service': readService,
  'discovery.k8s.io/v1 EndpointSlice': readEndpointSlice,
  'v1 Node': readNode,
}

export function isProblems(
  value: KubernetesObject | readonly FieldProblem[],
): value is readonly FieldProblem[] {
  return Array.isArray(value)
}

/** Equal for objects that are the same one in the API. */
export function objectKey(object: Pick<KubernetesObject, 'kind' | 'namespace' | 'name'>): string {
  return `${object.kind} ${object.namespace}/${object.name}`
}

/** `Service shop/web`, for a document that may be wrong; without a name only the kind. */
export function describeDocument(document: unknown, kind: string): string {
  const metadata = isMapping(document) ? document['metadata'] : undefined
  if (!isMapping(metadata) || typeof metadata['name'] !== 'string') return kind
  const name = cut(metadata['name'])
  if (kind === 'Node') return `${kind} ${name}`
  const namespace = typeof metadata['namespace'] === 'string' ? metadata['namespace'] : 'default'
  return `${kind} ${cut(namespace)}/${name}`
}

/** Further problems are only counted. */
const mostProblems = 5

/** The problems of one thing in one line. */
export function joinProblems(problems: readonly string[]): string {
  const named = problems.slice(0, mostProblems)
  const more = problems.length - named.length
  return named.join('; ') + (more > 0 ? `; and ${more} more` : '')
}

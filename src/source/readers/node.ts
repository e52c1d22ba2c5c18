import { Type } from '@sinclair/typebox'
import type { NodeObject } from '../objects.js'
import * as f from './fields.js'
import type { FieldProblem } from '../../api/index.js'

const NodeDocument = f.mapping({
  metadata: f.mapping({ name: f.objectName, labels: f.labels, deletionTimestamp: Type.Optional(f.text) }),
  spec: Type.Optional(
    f.mapping({
      podCIDR: Type.Optional(f.text),
      podCIDRs: f.list(f.text),
      taints: f.list(f.mapping({ key: f.text })),
    }),
  ),
  status: Type.Optional(
    // Addresses of some types, such as Hostname, are not IP addresses.
    f.mapping({ addresses: f.list(f.mapping({ type: f.text, address: f.text })) }),
  ),
})

const readFields = f.fieldsBy(NodeDocument)

/** Returns a v1 Node, or its problems. The namespace is empty, since Nodes have none. */
export function readNode(document: unknown): NodeObject | readonly FieldProblem[] {
  const reading = readFields(document)
  if ('problems' in reading) return reading.problems
  const { metadata, spec, status } = reading.fields
  const written = f.kept(spec?.podCIDRs)
  const one = spec?.podCIDR ?? ''
  return {
    kind: 'Node',
    namespace: '',
    name: metadata.name,
    labels: f.keptLabels(metadata.labels),
    addresses: f.kept(status?.addresses),
    podCIDRs: written.length > 0 || one === '' ? written : [one],
    taintKeys: f.kept(spec?.taints).map(({ key }) => key),
    deleted: metadata.deletionTimestamp !== undefined,
  }
}

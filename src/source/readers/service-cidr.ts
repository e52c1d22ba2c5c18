import { Type } from '@sinclair/typebox'
import { parseCidr } from '../../address.js'
import type { FieldProblem } from '../../api/index.js'
import type { ServiceCidr } from '../objects.js'
import * as f from './fields.js'

const ServiceCidrDocument = f.mapping({
  metadata: f.mapping({ name: f.objectName }),
  spec: f.mapping({ cidrs: Type.Array(f.network, f.expected('a list of networks')) }),
})

const readFields = f.fieldsBy(ServiceCidrDocument)

/** Returns a networking.k8s.io/v1 or v1beta1 ServiceCIDR, or its problems. The namespace is empty, since ServiceCIDRs have none. */
export function readServiceCidr(document: unknown): ServiceCidr | readonly FieldProblem[] {
  const reading = readFields(document)
  if ('problems' in reading) return reading.problems
  const { metadata, spec } = reading.fields
  const cidrs = spec.cidrs.map(parseCidr).filter((cidr) => cidr !== undefined)
  const [first, second] = cidrs
  const isPair = cidrs.length === 2 && first?.family !== second?.family
  if (cidrs.length !== 1 && !isPair)
    return [{ path: 'spec.cidrs', problem: 'must be one network, or one of each IP family' }]
  return { kind: 'ServiceCIDR', namespace: '', name: metadata.name, cidrs }
}

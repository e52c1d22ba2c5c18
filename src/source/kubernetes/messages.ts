// The messages and fields of the Kubernetes API that are read. The numbers are those of generated.proto beside the Go types
// (k8s.io/api/{core/v1,discovery/v1,networking/v1}, k8s.io/apimachinery/pkg/{apis/meta/v1,runtime}). The names, and which zero
// values are omitted, follow the json tags of those types.
import { readLabels, schedulingAnnotations } from '../objects.js'
import { lastChangeAnnotation, serviceNameLabel } from '../readers/endpoint-slice.js'
import { message, protobufFields } from '../../api/index.js'

/** On the bookmark that ends the objects of a streamed list (KEP-3157). */
export const initialEventsEnd = 'k8s.io/initial-events-end'

const keptLabels = new Set<string>([...Object.values(readLabels), serviceNameLabel])
const keptAnnotations = new Set<string>([
  ...Object.values(schedulingAnnotations),
  lastChangeAnnotation,
  initialEventsEnd,
])

const { anyCommonText, anyText, anyWhole, commonText, many, one, text, texts, whole } = protobufFields

const metadata = one(
  'metadata',
  message({
    1: text('name'),
    3: commonText('namespace'),
    5: text('uid'),
    6: text('resourceVersion'),
    8: { name: 'creationTimestamp', read: 'time' },
    9: { name: 'deletionTimestamp', read: 'presence' },
    11: { name: 'labels', read: 'map', keys: keptLabels },
    12: { name: 'annotations', read: 'map', keys: keptAnnotations },
  }),
)

export const serviceMessage = message({
  1: metadata,
  2: one(
    'spec',
    message({
      1: many(
        'ports',
        message({
          1: commonText('name'),
          2: commonText('protocol'),
          3: anyWhole('port'),
          5: whole('nodePort'),
        }),
      ),
      3: text('clusterIP'),
      4: commonText('type'),
      5: texts('externalIPs'),
      7: commonText('sessionAffinity'),
      9: texts('loadBalancerSourceRanges'),
      11: commonText('externalTrafficPolicy'),
      12: whole('healthCheckNodePort'),
      14: one(
        'sessionAffinityConfig',
        message({ 1: one('clientIP', message({ 1: anyWhole('timeoutSeconds') })) }),
      ),
      18: texts('clusterIPs'),
      19: texts('ipFamilies'),
      22: anyCommonText('internalTrafficPolicy'),
    }),
  ),
  3: one(
    'status',
    message({
      1: one(
        'loadBalancer',
        message({ 1: many('ingress', message({ 1: text('ip'), 3: anyCommonText('ipMode') })) }),
      ),
    }),
  ),
})

const names = message({ 1: anyCommonText('name') })

export const endpointSliceMessage = message({
  1: metadata,
  2: many(
    'endpoints',
    message({
      1: texts('addresses'),
      2: one(
        'conditions',
        message({
          1: { name: 'ready', read: 'flag' },
          2: { name: 'serving', read: 'flag' },
          3: { name: 'terminating', read: 'flag' },
        }),
      ),
      6: anyCommonText('nodeName'),
      8: one('hints', message({ 1: many('forZones', names), 2: many('forNodes', names) })),
    }),
  ),
  3: many('ports', message({ 1: anyCommonText('name'), 2: anyCommonText('protocol'), 3: anyWhole('port') })),
  4: anyCommonText('addressType'),
})

export const serviceCidrMessage = message({ 1: metadata, 2: one('spec', message({ 1: texts('cidrs') })) })

export const nodeMessage = message({
  1: metadata,
  2: one(
    'spec',
    message({
      1: text('podCIDR'),
      5: many('taints', message({ 1: anyCommonText('key') })),
      7: texts('podCIDRs'),
    }),
  ),
  3: one(
    'status',
    message({ 5: many('addresses', message({ 1: anyCommonText('type'), 2: anyText('address') })) }),
  ),
})

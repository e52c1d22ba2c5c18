// Messages that every kind of object shares: the envelope, lists, watch events and Status. Field numbers: generated.proto beside the
// Go types (k8s.io/apimachinery/pkg/{apis/meta/v1,runtime}).
import { message } from './protobuf.js'
import { anyCommonText, commonText, many, one, text, whole } from './protobuf-fields.js'

/** runtime.Unknown: the content of a body after its four magic bytes. */
export const unknownMessage = message({
  1: one('typeMeta', message({ 1: commonText('apiVersion'), 2: commonText('kind') })),
  2: { name: 'raw', read: 'bytes' },
})

/** A list. Its items are read one by one, so that a malformed item does not affect the others. */
export const listMessage = message({
  1: one('metadata', message({ 2: text('resourceVersion'), 3: text('continue') })),
  2: { name: 'items', read: 'views' },
})

export const watchEventMessage = message({
  1: anyCommonText('type'),
  2: one('object', message({ 1: { name: 'raw', read: 'bytes' } })),
})

export const statusMessage = message({
  3: text('message'),
  4: text('reason'),
  5: one(
    'details',
    message({ 4: many('causes', message({ 1: text('reason') })), 5: whole('retryAfterSeconds') }),
  ),
  6: whole('code'),
})

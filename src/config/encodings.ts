import { ConfigError } from '../errors.js'
import type { ClientConnection } from './settings.js'

/** An encoding of the Kubernetes API. */
export type ApiEncoding = 'protobuf' | 'json'

const encodings: Readonly<Record<string, readonly ApiEncoding[]>> = {
  'application/vnd.kubernetes.protobuf': ['protobuf'],
  'application/json': ['json'],
  '*/*': ['protobuf', 'json'],
}

/**
 * The encodings to request, in order of preference: those of `acceptContentTypes`. If it is blank: that of `contentType`, and JSON after
 * protobuf. Throws ConfigError.
 */
export function wantedEncodings({
  acceptContentTypes,
  contentType,
}: ClientConnection): readonly ApiEncoding[] {
  if (acceptContentTypes === '') {
    const [encoding] = encodingsIn('clientConnection.contentType', contentType)
    return encoding === 'json' ? ['json'] : ['protobuf', 'json']
  }
  return encodingsIn('clientConnection.acceptContentTypes', acceptContentTypes)
}

/** Reads media types as in a header Accept; their parameters have no effect. */
function encodingsIn(field: string, mediaTypes: string): readonly ApiEncoding[] {
  const found = mediaTypes.split(',').flatMap((written) => {
    const mediaType = written.replace(/;.*/u, '').trim().toLowerCase()
    const named = Object.hasOwn(encodings, mediaType) ? encodings[mediaType] : undefined
    if (named !== undefined) return named
    const problem = `must be of ${Object.keys(encodings).join(', ')}, not ${JSON.stringify(written.trim())}`
    throw new ConfigError(field, problem)
  })
  return [...new Set(found)]
}

import { ConfigError } from '../errors.js'

/** How the Kubernetes API is reached. */
export interface ClientConfig {
  readonly clientConnection: ClientConnection
  /** URL of the API server; empty: the kubeconfig's, or the cluster's that this pod runs in. */
  readonly master: string
}

/** An encoding of the Kubernetes API. */
export type ApiEncoding = 'protobuf' | 'json'

/** Names and defaults are kube-proxy's. */
export interface ClientConnection {
  /** Path; empty: the service account of the pod. */
  readonly kubeconfig: string
  /** Media types for the header Accept; empty: `contentType`. */
  readonly acceptContentTypes: string
  readonly contentType: string
  /** Events per second; negative: no limit. */
  readonly qps: number
  /** Events at once. */
  readonly burst: number
}

export interface ClientInput {
  readonly clientConnection?: { readonly [K in keyof ClientConnection]?: ClientConnection[K] | undefined }
  readonly master?: string | undefined
}

const defaults: ClientConnection = {
  kubeconfig: '',
  acceptContentTypes: '',
  contentType: 'application/vnd.kubernetes.protobuf',
  qps: 5,
  burst: 10,
}

/** Blank and 0 mean the default, as in kube-proxy. Throws ConfigError. */
export function resolveClient({ clientConnection: input = {}, master = '' }: ClientInput): ClientConfig {
  const clientConnection = {
    kubeconfig: input.kubeconfig ?? defaults.kubeconfig,
    acceptContentTypes: input.acceptContentTypes ?? defaults.acceptContentTypes,
    contentType: isUnset(input.contentType) ? defaults.contentType : input.contentType,
    qps: isUnset(input.qps) ? defaults.qps : input.qps,
    burst: isUnset(input.burst) ? defaults.burst : input.burst,
  }
  if (clientConnection.burst < 0) throw new ConfigError('clientConnection.burst', 'must be non-negative')
  return { clientConnection, master }
}

const encodings: Readonly<Record<string, readonly ApiEncoding[]>> = {
  'application/vnd.kubernetes.protobuf': ['protobuf'],
  'application/json': ['json'],
  '*/*': ['protobuf', 'json'],
}

/** What is asked for, the best first. As in client-go `contentType` may give way to any other. Throws ConfigError. */
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

/** Of media types as in a header Accept, without the parameters of each. */
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

function isUnset(value: string | number | undefined): value is undefined | '' | 0 {
  return value === undefined || value === '' || value === 0
}

/** Fields that were written as something else than their default. */
export function writtenOfClient({ clientConnection, master }: ClientConfig): readonly string[] {
  const { kubeconfig, acceptContentTypes, contentType, qps, burst } = defaults
  const same: Readonly<Record<keyof ClientConnection, boolean>> = {
    kubeconfig: clientConnection.kubeconfig === kubeconfig,
    acceptContentTypes: clientConnection.acceptContentTypes === acceptContentTypes,
    contentType: clientConnection.contentType === contentType,
    qps: clientConnection.qps === qps,
    burst: clientConnection.burst === burst,
  }
  const fields = Object.entries(same).filter(([, isSame]) => !isSame)
  return [...fields.map(([name]) => `clientConnection.${name}`), ...(master === '' ? [] : ['master'])]
}

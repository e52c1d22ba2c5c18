import { ConfigError } from '../errors.js'

/** How the Kubernetes API is reached. */
export interface ClientConfig {
  readonly clientConnection: ClientConnection
  /** URL of the API server; empty: the kubeconfig's, or the cluster's that this pod runs in. */
  readonly master: string
}

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

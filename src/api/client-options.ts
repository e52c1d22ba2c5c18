// How to reach the API server, and as whom.
import type { Agent } from 'node:http'
import { isIP } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type { Clock } from '../clock.js'
import type { ApiEncoding } from '../config/index.js'
import { ConfigError } from '../errors.js'

/** For connect, TLS and the headers together. */
export const answerDeadlineMs = 10_000

/** With what a request is sent. */
export interface Login {
  /** Such as Authorization. */
  readonly headers: Readonly<Record<string, string>>
  /** Given to node:tls as it is. Without `ca` the certificates that Node brings are trusted. */
  readonly tls: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>
  /** Where the certificates come from that are trusted, for messages. */
  readonly trusted: string
  /** What opens the connection, by way of a proxy; absent: the client does. */
  readonly agent?: Agent
  /** Called when the server does not know these credentials (401): the next login may bring others. */
  readonly refused?: () => void
}

/** How one request went. */
export interface RequestReport {
  /** Of the server, with its port. */
  readonly host: string
  readonly method: string
  /** Of the answer; `<error>`, as client-go has it: there was none. */
  readonly code: string
  /** Until the headers of the answer were there, or it was given up. */
  readonly seconds: number
}

export interface ClientOptions {
  /** http: or https:; a path in it comes before those of the API. */
  readonly server: URL
  /** Asked for, the best first. Absent: protobuf, then JSON. */
  readonly encodings?: readonly ApiEncoding[]
  /**
   * For the next request: what is in files may have changed since the last one. When it rejects, the request fails and is tried
   * again. Rejects soon after `signal` aborts.
   */
  readonly login: (signal: AbortSignal) => Promise<Login>
  /** Told of every request. */
  readonly observe?: (report: RequestReport) => void
}

export const trustedWithoutAuthority = 'the certificates that Node brings'

/** A server without credentials, as kube-proxy's --master. Throws ConfigError. */
export function masterOptions(master: string): ClientOptions {
  const login = { headers: {}, tls: {}, trusted: trustedWithoutAuthority }
  return { server: parseServer('--master', master), login: async () => await Promise.resolve(login) }
}

/** `field` is for the message. Throws ConfigError. */
export function parseServer(field: string, text: string): URL {
  // As kube-proxy does: without a scheme it is http.
  const written = text.includes('://') ? text : `http://${text}`
  const server = URL.canParse(written) ? new URL(written) : undefined
  if (server !== undefined && ['http:', 'https:'].includes(server.protocol)) return server
  throw new ConfigError(field, `must be the URL of an API server, not ${JSON.stringify(text)}`)
}

export interface InClusterDependencies {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Contents of a file. Throws when it cannot be read. */
  readonly readFile: (path: string) => string
  readonly clock: Clock
}

// Kubernetes mounts them into every pod (k8s.io/client-go/rest InClusterConfig).
const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount'
// The kubelet replaces a token long before it expires; client-go's period.
const tokenPeriodMs = 60_000

/** As the service account of the pod in which we run. Throws ConfigError outside of a pod. */
export function inClusterOptions({ environment, readFile, clock }: InClusterDependencies): ClientOptions {
  const host = environment['KUBERNETES_SERVICE_HOST'] ?? ''
  const port = environment['KUBERNETES_SERVICE_PORT'] ?? ''
  if (host === '' || port === '') {
    throw new ConfigError(
      '',
      'not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set',
    )
  }
  const server = `https://${isIP(host) === 6 ? `[${host}]` : host}:${port}`
  if (!URL.canParse(server)) throw new ConfigError('KUBERNETES_SERVICE_HOST', `makes no URL: ${server}`)
  const token = new TokenFile(`${serviceAccount}/token`, { readFile, clock })
  const caFile = `${serviceAccount}/ca.crt`
  const login = (): Login => ({
    headers: { authorization: `Bearer ${token.read()}` },
    tls: { ca: readOrExplain(readFile, caFile) },
    trusted: `the certificates in ${caFile}`,
    refused: () => token.forget(),
  })
  login()
  return { server: new URL(server), login: async () => await Promise.resolve(login()) }
}

/** A token that is replaced while we run. */
export class TokenFile {
  readonly #path: string
  readonly #dependencies: Pick<InClusterDependencies, 'readFile' | 'clock'>
  #token = ''
  #readAt = Number.NEGATIVE_INFINITY

  constructor(path: string, dependencies: Pick<InClusterDependencies, 'readFile' | 'clock'>) {
    this.#path = path
    this.#dependencies = dependencies
  }

  /** The token; the file is read at most once a minute. Throws ConfigError when it cannot be read or is empty. */
  read(): string {
    const { readFile, clock } = this.#dependencies
    if (clock.now() - this.#readAt < tokenPeriodMs) return this.#token
    // Editors and echo leave a newline, which has no place in a header.
    const token = readOrExplain(readFile, this.#path).trim()
    if (token === '') throw new ConfigError(this.#path, 'is empty: must hold a token')
    this.#token = token
    this.#readAt = clock.now()
    return token
  }

  /** The next time the file is read. */
  forget(): void {
    this.#readAt = Number.NEGATIVE_INFINITY
  }
}

/** Throws ConfigError. */
export function readOrExplain(readFile: (path: string) => string, path: string): string {
  try {
    return readFile(path)
  } catch (error) {
    throw new ConfigError(path, `cannot be read: ${error instanceof Error ? error.message : String(error)}`)
  }
}

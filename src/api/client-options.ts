// The address of the API server, and the credentials for it.
import type { Agent } from 'node:http'
import { isIP } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type { Clock } from '../clock.js'
import type { ApiEncoding } from '../config/index.js'
import { codeOf, ConfigError } from '../errors.js'
import { checkUrlLogin } from './url-login.js'

/** The deadline for the connection, TLS and the headers of the answer together. */
export const answerDeadlineMs = 10_000

/** The credentials of a request. */
export interface Login {
  /** Such as Authorization. */
  readonly headers: Readonly<Record<string, string>>
  /** Options of node:tls. Without `ca`, the certificates of Node are trusted. */
  readonly tls: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized'>
  /** The origin of the trusted certificates, for messages. */
  readonly trusted: string
  /** Opens the connection through a proxy; absent: the client connects directly. */
  readonly agent?: Agent
  /** Reports that the server refused these credentials (401). The next login reads them again. */
  readonly refused?: () => void
}

/** The outcome of one request. */
export interface RequestReport {
  /** Host and port of the server. */
  readonly host: string
  readonly method: string
  /** Status of the answer. Without an answer `<error>`, as in client-go. */
  readonly code: string
  /** Time until the headers of the answer, or until the failure. */
  readonly seconds: number
}

export interface ClientOptions {
  /** The scheme is http: or https:. Its path comes before the paths of the API. */
  readonly server: URL
  /** The encodings to request, best first. Absent: protobuf, then JSON. */
  readonly encodings?: readonly ApiEncoding[]
  /**
   * The credentials for the next request; their files may have changed since the last one. When it rejects, the request fails with
   * the code `credentials`. Rejects soon after `signal` aborts.
   */
  readonly login: (signal: AbortSignal) => Promise<Login>
  /** Called after every request. */
  readonly observe?: (report: RequestReport) => void
  /** Called when the server has answered a PING: it is there, though it may have nothing to say. */
  readonly alive?: () => void
  /** Default: true. HTTP/2 also needs TLS, a server that offers it, and no proxy. */
  readonly mayUseHttp2?: boolean
}

export const trustedWithoutAuthority = 'the certificates that Node brings'

/** A server that needs no credentials, as with kube-proxy's --master. Throws ConfigError. */
export function masterOptions(master: string): ClientOptions {
  const login = { headers: {}, tls: {}, trusted: trustedWithoutAuthority }
  return { server: parseServer('--master', master), login: async () => await Promise.resolve(login) }
}

/** Reads the URL of a server. Throws ConfigError, which names `field`. */
export function parseServer(field: string, text: string): URL {
  // As in kube-proxy, the default scheme is http.
  const written = text.includes('://') ? text : `http://${text}`
  const server = URL.canParse(written) ? new URL(written) : undefined
  // NB: not the text, which may have a login.
  if (server === undefined || !['http:', 'https:'].includes(server.protocol))
    throw new ConfigError(field, 'must be the URL of an API server, such as https://192.0.2.1:6443')
  checkUrlLogin(field, server)
  return server
}

export interface InClusterDependencies {
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Contents of a file. Throws when it cannot be read. */
  readonly readFile: (path: string) => string
  readonly clock: Clock
}

// Kubernetes mounts this folder into every pod (k8s.io/client-go/rest InClusterConfig).
const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount'
// As in client-go. The kubelet replaces a token long before it expires.
const tokenPeriodMs = 60_000

/** The API server and the service account of this pod. Throws ConfigError outside of a pod. */
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
  if (!URL.canParse(server))
    throw new ConfigError(
      'KUBERNETES_SERVICE_HOST',
      'must be a host, and KUBERNETES_SERVICE_PORT its port: they make no URL',
    )
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

/** A file with a token, which the kubelet may replace at any time. */
export class TokenFile {
  readonly #path: string
  readonly #dependencies: Pick<InClusterDependencies, 'readFile' | 'clock'>
  #token = ''
  #readAt = Number.NEGATIVE_INFINITY

  constructor(path: string, dependencies: Pick<InClusterDependencies, 'readFile' | 'clock'>) {
    this.#path = path
    this.#dependencies = dependencies
  }

  /** Reads the token, from the file at most once a minute. Throws ConfigError when the file cannot be read or is empty. */
  read(): string {
    const { readFile, clock } = this.#dependencies
    if (clock.now() - this.#readAt < tokenPeriodMs) return this.#token
    // Editors and echo add a newline, which is not valid in a header.
    const token = readOrExplain(readFile, this.#path).trim()
    if (token === '') throw new ConfigError(this.#path, 'is empty: must hold a token')
    this.#token = token
    this.#readAt = clock.now()
    return token
  }

  /** Makes the next read() read the file. */
  forget(): void {
    this.#readAt = Number.NEGATIVE_INFINITY
  }
}

/** Reads a file. Throws ConfigError, which names the path. */
export function readOrExplain(readFile: (path: string) => string, path: string): string {
  try {
    return readFile(path)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new ConfigError(path, `cannot be read: ${reason}`, codeOf(error))
  }
}

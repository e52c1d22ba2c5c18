// The API server and the credentials of a kubeconfig. Loaded only where one is configured: certificates, plugins and the Kubernetes
// client take time to load (docs/adr/0016).
import type { RequestOptions } from 'node:https'
// Not the package's main module, which loads all of the package.
import { KubeConfig } from '@kubernetes/client-node/dist/config.js'
import { BugError, codeOf, ConfigError, isConfigError } from '../../errors.js'
import type { StateReporter } from '../../log.js'
import { examineAuthority, examineClientCertificate } from './certificates.js'
import {
  parseServer,
  readOrExplain,
  TokenFile,
  trustedWithoutAuthority,
  type ClientOptions,
  type InClusterDependencies,
  type Login,
} from '../client-options.js'
import { environmentProxy } from '../proxy/environment-proxy.js'
import { ExecPlugin, type ExecCredential } from './exec-plugin.js'
import { readKubeconfig, type Kubeconfig, type KubeconfigCluster, type Material } from './kubeconfig-file.js'
import { throughProxy } from '../proxy/through-proxy.js'

export interface KubeconfigDependencies extends InClusterDependencies {
  /** From `openCertificateWarnings`. */
  readonly warnings: StateReporter
  /** From `openKubeconfigWarnings`. */
  readonly changes: StateReporter
}

export interface KubeconfigChoice {
  /** The file, which is read again for each request. */
  readonly path: string
  /** URL of the server; blank: the URL in the file. */
  readonly master: string
}

/** Reads a kubeconfig. Throws ConfigError when the file, or a file that it names, cannot work without a change. */
export async function kubeconfigOptions(
  choice: KubeconfigChoice,
  dependencies: KubeconfigDependencies,
): Promise<ClientOptions> {
  const followed = new FollowedKubeconfig(choice, dependencies)
  const { server, proxy } = await followed.open()
  const options = { server, login: async (signal: AbortSignal) => await followed.login(signal) }
  return await throughProxy(options, proxy, dependencies.clock)
}

/** The way to the server, which stays as it was at the start. */
interface Way {
  readonly server: URL
  readonly proxy: URL | undefined
}

/** Credentials of a kubeconfig as it is now. While a changed file cannot be used, its last usable state counts. */
class FollowedKubeconfig {
  readonly #choice: KubeconfigChoice
  readonly #dependencies: KubeconfigDependencies
  #text = ''
  #way: Way | undefined
  #access: KubeconfigAccess | undefined

  constructor(choice: KubeconfigChoice, dependencies: KubeconfigDependencies) {
    this.#choice = choice
    this.#dependencies = dependencies
  }

  /** Reads the file for the first time. Throws ConfigError. */
  async open(): Promise<Way> {
    this.#text = readOrExplain(this.#dependencies.readFile, this.#choice.path)
    const { way, access } = await this.#read(this.#text)
    this.#way = way
    this.#access = access
    return way
  }

  async login(signal: AbortSignal): Promise<Login> {
    await this.#follow()
    if (this.#access === undefined) throw new BugError('a login before the kubeconfig was read')
    return await this.#access.login(signal)
  }

  async #follow(): Promise<void> {
    const { changes, readFile } = this.#dependencies
    const { path } = this.#choice
    let problem: string | undefined
    try {
      const text = readOrExplain(readFile, path)
      if (text !== this.#text) await this.#take(text)
    } catch (error) {
      if (!isConfigError(error)) throw error
      problem = error.message
    }
    changes.report(path, problem === undefined ? undefined : { text: problem })
  }

  /** Uses a changed file. Throws ConfigError. */
  async #take(text: string): Promise<void> {
    const { way, access } = await this.#read(text)
    // The credentials of another server must not go to this one.
    const fields = ['server', 'proxy'] as const
    const other = fields.find((field) => way[field]?.href !== this.#way?.[field]?.href)
    if (other !== undefined) {
      throw new ConfigError(
        this.#choice.path,
        `names another ${other} than at the start: restart the agent to use it`,
      )
    }
    this.#text = text
    this.#access = access
  }

  async #read(text: string): Promise<{ readonly way: Way; readonly access: KubeconfigAccess }> {
    const { path, master } = this.#choice
    const { environment } = this.#dependencies
    const kubeconfig = readKubeconfig(path, () => text)
    const { server, serverField, proxy } = kubeconfig.cluster
    if (master === '' && server === '') {
      throw new ConfigError(serverField, 'is missing: name the URL of the API server')
    }
    const url = master === '' ? parseServer(serverField, server) : parseServer('--master', master)
    const access = new KubeconfigAccess(kubeconfig, url, this.#dependencies)
    await access.check()
    // As in client-go, the proxy in the file has precedence over the environment.
    return { way: { server: url, proxy: proxy ?? environmentProxy(url, environment) }, access }
  }
}

/** Certificates and key as PEM. */
interface Certificates {
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
}

/** Credentials, read again for each request: a repaired or rotated file needs no restart. */
class KubeconfigAccess {
  readonly #kubeconfig: Kubeconfig
  readonly #dependencies: KubeconfigDependencies
  readonly #client: KubeConfig
  readonly #tokenFile: TokenFile | undefined
  readonly #plugin: ExecPlugin | undefined
  /** Certificates and key that have passed the check. */
  #examined = ''
  #certificateExpiresMs = Number.POSITIVE_INFINITY

  constructor(kubeconfig: Kubeconfig, server: URL, dependencies: KubeconfigDependencies) {
    const { cluster, user } = kubeconfig
    this.#kubeconfig = kubeconfig
    this.#dependencies = dependencies
    this.#client = openClient(kubeconfig, server)
    this.#tokenFile = user.tokenFile === '' ? undefined : new TokenFile(user.tokenFile, dependencies)
    this.#plugin =
      user.exec === undefined
        ? undefined
        : new ExecPlugin({
            ...dependencies,
            settings: user.exec,
            cluster: () => clusterInfo(cluster, server, dependencies.readFile),
          })
  }

  /** Throws ConfigError when a file that must exist at the start is invalid. */
  async check(): Promise<void> {
    this.#tokenFile?.read()
    await this.#apply({}, undefined)
  }

  async login(signal: AbortSignal): Promise<Login> {
    const credential = await this.#plugin?.credential(signal)
    const token = credential?.token ?? this.#tokenFile?.read()
    return {
      ...(await this.#apply(token === undefined ? {} : { authorization: `Bearer ${token}` }, credential)),
      refused: () => {
        this.#tokenFile?.forget()
        if (credential !== undefined) this.#plugin?.discard(credential)
      },
    }
  }

  async #apply(headers: Login['headers'], credential: ExecCredential | undefined): Promise<Login> {
    const { authority } = this.#kubeconfig.cluster
    const options: RequestOptions = { headers: { ...headers }, ...credential?.certificate }
    await this.#client.applyToHTTPSOptions(options).catch((error: unknown) => {
      throw this.#explain(error)
    })
    const { servername, rejectUnauthorized } = options
    const [ca, cert, key] = [pemOf(options.ca), pemOf(options.cert), pemOf(options.key)]
    const tls = { ca, cert, key, servername, rejectUnauthorized }
    this.#examine(tls)
    return {
      headers: headersOf(options),
      tls,
      trusted: authority === undefined ? trustedWithoutAuthority : nameOf(authority),
    }
  }

  /** An error that names the field of a file that cannot be read. */
  #explain(error: unknown): unknown {
    const { authority } = this.#kubeconfig.cluster
    const { certificate, key } = this.#kubeconfig.user
    const path: unknown = error instanceof Error && 'path' in error ? error.path : undefined
    const material = [authority, certificate, key].find(
      (named) => named !== undefined && 'file' in named && named.file === path,
    )
    if (material === undefined || !(error instanceof Error)) return error
    return new ConfigError(nameOf(material), `cannot be read: ${error.message}`, codeOf(error))
  }

  #examine({ ca, cert, key }: Certificates): void {
    const { authority } = this.#kubeconfig.cluster
    const examined = [ca, cert, key].join()
    if (examined !== this.#examined) {
      if (ca !== undefined) examineAuthority(authority === undefined ? '' : nameOf(authority), ca)
      this.#certificateExpiresMs =
        cert === undefined || key === undefined
          ? Number.POSITIVE_INFINITY
          : examineClientCertificate(this.#certificateName, cert, key)
      this.#examined = examined
    }
    const { clock, warnings } = this.#dependencies
    const isExpired = clock.unixMs() >= this.#certificateExpiresMs
    const since = isExpired ? new Date(this.#certificateExpiresMs).toISOString() : ''
    const text = `${this.#certificateName} (${since}): the server may refuse it; replace it`
    warnings.report('client certificate', isExpired ? { text } : undefined)
  }

  get #certificateName(): string {
    const { certificate, exec } = this.#kubeconfig.user
    if (certificate !== undefined) return nameOf(certificate)
    return `${exec?.field ?? ''}: the client certificate of the plugin`
  }
}

function openClient({ cluster, user }: Kubeconfig, server: URL): KubeConfig {
  const client = new KubeConfig()
  const { authority, isInsecure, tlsServerName } = cluster
  const { certificate, key, token, username, password, impersonated } = user
  client.loadFromClusterAndUser(
    {
      name: 'cluster',
      server: server.href,
      // The library requires it for http:.
      skipTLSVerify: isInsecure || server.protocol === 'http:',
      caFile: fileOf(authority),
      caData: dataOf(authority),
      tlsServerName,
    },
    {
      name: 'user',
      certFile: fileOf(certificate),
      certData: dataOf(certificate),
      keyFile: fileOf(key),
      keyData: dataOf(key),
      token,
      username,
      password,
      ...(impersonated === '' ? {} : { impersonateUser: impersonated }),
    },
  )
  return client
}

function fileOf(material: Material | undefined): string {
  return material !== undefined && 'file' in material ? material.file : ''
}

function dataOf(material: Material | undefined): string {
  return material !== undefined && 'data' in material ? material.data : ''
}

function nameOf(material: Material): string {
  return 'file' in material ? `${material.field}: ${material.file}` : material.field
}

/** Headers with names in lower case, so that none occurs twice. */
function headersOf({ headers = {}, auth }: RequestOptions): Login['headers'] {
  const written = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)])
  const basic = typeof auth === 'string' ? `Basic ${Buffer.from(auth).toString('base64')}` : undefined
  return { ...Object.fromEntries(written), ...(basic === undefined ? {} : { authorization: basic }) }
}

function pemOf(value: RequestOptions['key']): string | undefined {
  if (typeof value === 'string') return value
  return Buffer.isBuffer(value) ? value.toString('utf8') : undefined
}

/** The field `cluster` of an ExecCredential's spec. */
function clusterInfo(
  { authority, isInsecure, tlsServerName, proxy, execConfig }: KubeconfigCluster,
  server: URL,
  readFile: (path: string) => string,
): object {
  const file = fileOf(authority)
  const ca = file === '' ? dataOf(authority) : Buffer.from(readOrExplain(readFile, file)).toString('base64')
  return {
    server: server.href.replace(/\/$/u, ''),
    ...(tlsServerName === '' ? {} : { 'tls-server-name': tlsServerName }),
    ...(isInsecure ? { 'insecure-skip-tls-verify': true } : {}),
    ...(ca === '' ? {} : { 'certificate-authority-data': ca }),
    ...(proxy === undefined ? {} : { 'proxy-url': proxy.href }),
    ...(execConfig === undefined ? {} : { config: execConfig }),
  }
}

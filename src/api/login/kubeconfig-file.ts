// Reads the current context of a kubeconfig (k8s.io/client-go/tools/clientcmd/api/v1), by the rules of client-go's
// clientcmd/validation.go.
import { dirname, resolve } from 'node:path'
import { parseYaml } from '../../config/index.js'
import { ConfigError } from '../../errors.js'
import { readOrExplain } from '../client-options.js'
import { readExec, type ExecSettings } from './exec-settings.js'
import { KubeconfigFields } from './kubeconfig-fields.js'
import { parseProxy } from '../proxy/proxy-url.js'

/** A certificate or a key: a file, or base64 in the kubeconfig. */
export type Material =
  { readonly field: string; readonly file: string } | { readonly field: string; readonly data: string }

export interface KubeconfigCluster {
  /** Blank: absent. */
  readonly server: string
  /** Path of the field `server`, for messages. */
  readonly serverField: string
  readonly authority: Material | undefined
  readonly isInsecure: boolean
  /** Blank: the host of `server`. */
  readonly tlsServerName: string
  /** undefined: none. */
  readonly proxy: URL | undefined
  /** The file's configuration of the cluster for exec plugins. */
  readonly execConfig: unknown
}

/** Credentials. A blank or absent field is not used. */
export interface KubeconfigUser {
  readonly certificate: Material | undefined
  readonly key: Material | undefined
  readonly token: string
  readonly tokenFile: string
  readonly username: string
  readonly password: string
  readonly impersonated: string
  readonly exec: ExecSettings | undefined
}

export interface Kubeconfig {
  readonly cluster: KubeconfigCluster
  readonly user: KubeconfigUser
}

/** Reads a kubeconfig. Paths in it are relative to its folder. Throws ConfigError. */
export function readKubeconfig(file: string, readFile: (path: string) => string): Kubeconfig {
  const document = new KubeconfigFields(file, '', parse(file, readOrExplain(readFile, file)))
  for (const [name, expected] of [
    ['kind', 'Config'],
    ['apiVersion', 'v1'],
  ] as const) {
    const written = document.text(name)
    if (![expected, ''].includes(written)) throw document.error(name, `must be ${expected}`)
  }
  const current = document.requiredText('current-context', 'the name of one of its contexts')
  const context = entry(document, 'current-context', { list: 'contexts', name: current, inner: 'context' })
  const clusterName = context.requiredText('cluster', 'the name of one of the clusters')
  const cluster = entry(
    context,
    'cluster',
    { list: 'clusters', name: clusterName, inner: 'cluster' },
    document,
  )
  const userName = context.text('user')
  // As in client-go, a context without a user has no credentials.
  const user =
    userName === ''
      ? new KubeconfigFields(file, '', {})
      : entry(context, 'user', { list: 'users', name: userName, inner: 'user' }, document)
  const folder = dirname(resolve(file))
  return { cluster: readCluster(cluster, folder), user: readUser(user, folder) }
}

function parse(file: string, text: string): unknown {
  try {
    const [document, ...others] = parseYaml(text, (problem) => {
      throw problem
    })
    if (others.length > 0) throw new ConfigError('', 'must be one document')
    return document
  } catch (error) {
    throw error instanceof ConfigError ? new ConfigError(file, error.message) : error
  }
}

/** The entry of a list with the name that `field` of `from` holds. */
function entry(
  from: KubeconfigFields,
  field: string,
  { list, name, inner }: { list: string; name: string; inner: string },
  document = from,
): KubeconfigFields {
  const [found, ...others] = document.mappings(list).filter((item) => item.text('name') === name)
  if (found === undefined) throw from.error(field, `names ${JSON.stringify(name)}, which is not in ${list}`)
  if (others.length > 0) throw document.error(list, `has ${JSON.stringify(name)} twice`)
  const fields = found.mapping(inner)
  if (fields !== undefined) return fields
  if (inner === 'user') return new KubeconfigFields('', '', {})
  throw found.error(inner, 'is missing')
}

function readCluster(fields: KubeconfigFields, folder: string): KubeconfigCluster {
  const authority = readMaterial(fields, 'certificate-authority', folder)
  const isInsecure = fields.flag('insecure-skip-tls-verify')
  if (isInsecure && authority !== undefined) {
    throw fields.error('insecure-skip-tls-verify', 'must not be true beside a certificate-authority')
  }
  const extension = fields
    .mappings('extensions')
    .find((item) => item.text('name') === 'client.authentication.k8s.io/exec')
  return {
    server: fields.text('server'),
    serverField: fields.error('server', '').path,
    authority,
    isInsecure,
    tlsServerName: fields.text('tls-server-name'),
    proxy: readProxy(fields),
    execConfig: extension?.anything('extension'),
  }
}

function readProxy(fields: KubeconfigFields): URL | undefined {
  const text = fields.text('proxy-url')
  return text === '' ? undefined : parseProxy(fields.error('proxy-url', '').path, text)
}

function readUser(fields: KubeconfigFields, folder: string): KubeconfigUser {
  for (const name of ['as-groups', 'as-uid', 'as-user-extra']) {
    if (fields.has(name)) throw fields.error(name, 'is not supported: only `as` is')
  }
  if (fields.has('auth-provider')) {
    throw fields.error('auth-provider', 'is not supported: use exec, its replacement')
  }
  const [certificate, key] = [
    readMaterial(fields, 'client-certificate', folder),
    readMaterial(fields, 'client-key', folder),
  ]
  if ((certificate === undefined) !== (key === undefined)) {
    const missing = certificate === undefined ? 'client-certificate' : 'client-key'
    throw fields.error(missing, 'is missing: a certificate needs a key, and a key a certificate')
  }
  const [token, tokenFile] = [fields.text('token'), fields.text('tokenFile')]
  if (!/^[!-~]*$/u.test(token))
    throw fields.error('token', 'must be printable ASCII without spaces, as in a header')
  const [username, password] = [fields.text('username'), fields.text('password')]
  if (username !== '' && token + tokenFile !== '') {
    throw fields.error('username', 'must not be set beside a token: choose one way to log in')
  }
  const exec = readExec(fields, folder)
  if (exec !== undefined && token + tokenFile + username !== '') {
    throw fields.error('exec', 'must not be set beside a token or a username: choose one way to log in')
  }
  return {
    certificate,
    key,
    // As in client-go, the file has precedence.
    token: tokenFile === '' ? token : '',
    tokenFile: tokenFile === '' ? '' : resolve(folder, tokenFile),
    username,
    password,
    impersonated: fields.text('as'),
    exec,
  }
}

function readMaterial(fields: KubeconfigFields, name: string, folder: string): Material | undefined {
  const [file, dataField] = [fields.text(name), `${name}-data`]
  const data = fields.text(dataField)
  if (file !== '' && data !== '') throw fields.error(dataField, `must not be set beside ${name}`)
  if (file !== '') return { field: fields.error(name, '').path, file: resolve(folder, file) }
  if (data === '') return undefined
  if (!isBase64(data)) throw fields.error(dataField, 'must be base64')
  return { field: fields.error(dataField, '').path, data }
}

/** As in Go's decoder: full groups of four characters; line breaks do not count. */
function isBase64(text: string): boolean {
  const line = text.replace(/[\r\n]/gu, '')
  return line.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/u.test(line)
}

// Requests with the settings of a kubeconfig, and errors of invalid kubeconfigs.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ConfigError } from '../../../src/errors.js'
import type { ClientOptions, Login } from '../../../src/api/client-options.js'
import { makeCertificate } from '../../support/certificates.js'
import { KubeconfigFolder } from '../../support/kubeconfig-folder.js'

const { signal } = new AbortController()
const authority = makeCertificate()
const person = makeCertificate('person')
const server = 'https://192.0.2.1:6443'

let folder: KubeconfigFolder

beforeEach(() => {
  folder = new KubeconfigFolder()
  folder.write('ca.crt', authority.cert)
  folder.write('person.crt', person.cert)
  folder.write('person.key', person.key)
})

afterEach(() => folder.remove())

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

async function login(master = ''): Promise<Login> {
  return await (await folder.open(master)).login(signal)
}

async function authorizationOf(options: ClientOptions): Promise<string | undefined> {
  return (await options.login(signal)).headers['authorization']
}

describe('a kubeconfig', () => {
  const nothing = { ca: undefined, cert: undefined, key: undefined }
  const plain = { ...nothing, servername: undefined, rejectUnauthorized: undefined }
  const cases: readonly {
    readonly name: string
    readonly cluster?: object
    readonly user?: object
    readonly headers?: Login['headers']
    readonly tls?: Login['tls']
  }[] = [
    { name: 'without credentials' },
    {
      name: 'with a CA in a file next to it',
      cluster: { 'certificate-authority': 'ca.crt' },
      tls: { ca: authority.cert },
    },
    {
      name: 'with an inline CA',
      cluster: { 'certificate-authority-data': base64(authority.cert) },
      tls: { ca: authority.cert },
    },
    {
      name: 'with another name of the server, and without a check of the certificate',
      cluster: { 'tls-server-name': 'api.example', 'insecure-skip-tls-verify': true },
      tls: { servername: 'api.example', rejectUnauthorized: false },
    },
    {
      name: 'with a client certificate in files',
      user: { 'client-certificate': 'person.crt', 'client-key': 'person.key' },
      tls: { cert: person.cert, key: person.key },
    },
    {
      name: 'with an inline client certificate',
      user: { 'client-certificate-data': base64(person.cert), 'client-key-data': base64(person.key) },
      tls: { cert: person.cert, key: person.key },
    },
    { name: 'with a token', user: { token: 'abc' }, headers: { authorization: 'Bearer abc' } },
    {
      name: 'with a user name',
      user: { username: 'me', password: 'secret' },
      headers: { authorization: `Basic ${base64('me:secret')}` },
    },
    {
      name: 'that impersonates another user',
      user: { token: 'abc', as: 'other' },
      headers: { authorization: 'Bearer abc', 'impersonate-user': 'other' },
    },
    { name: 'with unknown fields', cluster: { news: 1 }, user: { news: [] } },
  ]
  for (const { name, cluster = {}, user = {}, headers = {}, tls = {} } of cases) {
    it(name, async () => {
      folder.describe({ server, ...cluster }, user)
      const options = await folder.open()
      assert.equal(options.server.href, `${server}/`)
      const found = await options.login(signal)
      assert.deepEqual(
        { headers: found.headers, tls: found.tls, agent: found.agent },
        { headers, tls: { ...plain, ...tls }, agent: undefined },
      )
    })
  }

  it('whose context has no user', async () => {
    folder.describe({ server }, {}, { contexts: [{ name: 'ours', context: { cluster: 'mine' } }] })
    assert.deepEqual((await login()).headers, {})
  })

  it('as YAML', async () => {
    const lines = ['current-context: a', 'contexts:', '- {name: a, context: {cluster: b}}', 'clusters:']
    folder.write('config', [...lines, '- name: b', '  cluster: {server: "http://192.0.2.1"}'].join('\n'))
    assert.equal((await folder.open()).server.href, 'http://192.0.2.1/')
  })

  it('with a server that --master replaces', async () => {
    folder.describe({ server, 'certificate-authority': 'ca.crt' }, { token: 'abc' })
    const options = await folder.open('https://198.51.100.1')
    assert.equal(options.server.href, 'https://198.51.100.1/')
    const { headers, tls } = await options.login(signal)
    assert.deepEqual([headers['authorization'], tls.ca], ['Bearer abc', authority.cert])
  })

  it('without a server, together with --master', async () => {
    folder.describe({})
    assert.equal((await folder.open('192.0.2.9:8080')).server.href, 'http://192.0.2.9:8080/')
  })

  for (const proxy of ['http://proxy:3128', 'https://proxy', 'socks5://proxy']) {
    it(`with the proxy ${proxy}, through which connections go`, async () => {
      folder.describe({ server: 'https://api.example', 'proxy-url': proxy })
      assert.ok((await login()).agent !== undefined)
    })
  }
})

describe('a token file', () => {
  it('is read once a minute, without its newline, and wins over a token', async () => {
    folder.write('token', 'old\n')
    folder.describe({ server }, { tokenFile: 'token', token: 'fixed' })
    const options = await folder.open()
    const authorization = async (): Promise<unknown> => (await options.login(signal)).headers['authorization']
    assert.equal(await authorization(), 'Bearer old')
    folder.write('token', 'new\n')
    folder.nowMs = 59_999
    assert.equal(await authorization(), 'Bearer old')
    folder.nowMs = 60_000
    assert.equal(await authorization(), 'Bearer new')
  })

  it('is read at once after the server refused its token', async () => {
    folder.write('token', 'old')
    folder.describe({ server }, { tokenFile: 'token' })
    const options = await folder.open()
    const { refused } = await options.login(signal)
    folder.write('token', 'new')
    refused?.()
    assert.equal((await options.login(signal)).headers['authorization'], 'Bearer new')
  })

  it('fails the request while it is absent', async () => {
    folder.write('token', 'old')
    folder.describe({ server }, { tokenFile: 'token' })
    const options = await folder.open()
    rmSync(folder.file('token'))
    folder.nowMs = 60_000
    await assert.rejects(options.login(signal), /token: cannot be read: ENOENT/u)
  })
})

describe('a kubeconfig that changes', () => {
  const problem = 'Kubeconfig has changed and is not used; its earlier credentials stay in use'

  it('has a renewed token, certificate or name of a token file, which the next request has', async () => {
    folder.describe({ server }, { token: 'old' })
    const options = await folder.open()
    assert.equal(await authorizationOf(options), 'Bearer old')
    folder.describe({ server }, { token: 'new' })
    assert.equal(await authorizationOf(options), 'Bearer new')
    folder.write('token', 'of the file')
    folder.describe({ server }, { tokenFile: 'token' })
    assert.equal(await authorizationOf(options), 'Bearer of the file')
    const user = { 'client-certificate-data': base64(person.cert), 'client-key-data': base64(person.key) }
    folder.describe({ server, 'certificate-authority-data': base64(authority.cert) }, user)
    const { tls } = await options.login(signal)
    assert.deepEqual([tls.ca, tls.cert], [authority.cert, person.cert])
    assert.deepEqual(folder.log, [])
  })

  const unusable = [
    { name: 'is absent', change: () => rmSync(folder.path), why: /config: cannot be read: ENOENT/u },
    { name: 'is damaged', change: () => folder.write('config', 'nonsense'), why: /config/u },
    {
      name: 'names another server',
      change: () => folder.describe({ server: 'https://192.0.2.9:6443' }, { token: 'other' }),
      why: /config: names another server than at the start: restart the agent to use it$/u,
    },
    {
      name: 'names another proxy',
      change: () => folder.describe({ server, 'proxy-url': 'http://192.0.2.8:3128' }, { token: 'other' }),
      why: /config: names another proxy than at the start/u,
    },
    {
      name: 'names a file that is absent',
      change: () => folder.describe({ server }, { tokenFile: 'no-such-file' }),
      why: /no-such-file: cannot be read/u,
    },
  ]
  for (const { name, change, why } of unusable) {
    it(`keeps its earlier credentials in use while it ${name}, and one log line says so`, async () => {
      folder.describe({ server }, { token: 'old' })
      const options = await folder.open()
      change()
      for (const _ of [1, 2]) assert.equal(await authorizationOf(options), 'Bearer old')
      assert.equal(folder.log.length, 1)
      const [line = ''] = folder.log
      assert.ok(line.startsWith(`${problem}: `), line)
      assert.match(line, why)
      folder.describe({ server }, { token: 'new' })
      assert.equal(await authorizationOf(options), 'Bearer new')
      assert.deepEqual(folder.log.slice(1), ['Kubeconfig is used as it is now'])
    })
  }
})

describe('files that a kubeconfig names', () => {
  const cluster = { server, 'certificate-authority': 'ca.crt' }
  const user = { 'client-certificate': 'person.crt', 'client-key': 'person.key' }

  it('are read again for each request, also while the kubeconfig is damaged', async () => {
    folder.describe(cluster, user)
    const options = await folder.open()
    const [otherAuthority, otherPerson] = [makeCertificate(), makeCertificate()]
    folder.write('config', 'nonsense')
    folder.write('ca.crt', otherAuthority.cert)
    folder.write('person.crt', otherPerson.cert)
    folder.write('person.key', otherPerson.key)
    const { ca, cert, key } = (await options.login(signal)).tls
    assert.deepEqual([ca, cert, key], [otherAuthority.cert, otherPerson.cert, otherPerson.key])
  })

  const damages = [
    {
      name: 'ca.crt',
      problem: /clusters\[0\]\.cluster\.certificate-authority: \/.*ca\.crt: must hold certificates/u,
    },
    {
      name: 'person.crt',
      problem: /users\[0\]\.user\.client-certificate: \/.*person\.crt: must hold certificates/u,
    },
    { name: 'person.key', problem: /person\.crt: does not match its key, which must be PEM: /u },
  ]
  for (const { name, problem } of damages) {
    it(`fail the request while ${name} is damaged`, async () => {
      folder.describe(cluster, user)
      const options = await folder.open()
      folder.write(name, 'nonsense')
      await assert.rejects(
        options.login(signal),
        (error) => error instanceof ConfigError && problem.test(error.message),
      )
      folder.write('ca.crt', authority.cert)
      folder.write('person.crt', person.cert)
      folder.write('person.key', person.key)
      assert.equal((await options.login(signal)).tls.ca, authority.cert)
    })
  }

  it('cause a log line when the client certificate has expired, and when it was replaced', async () => {
    folder.describe(cluster, user)
    const options = await folder.open()
    await options.login(signal)
    assert.deepEqual(folder.log, [])
    folder.unixMs += 2 * 24 * 60 * 60 * 1000
    await options.login(signal)
    await options.login(signal)
    assert.equal(folder.log.length, 1)
    assert.match(folder.log[0] ?? '', /^Client certificate has expired: .*: \/.*person\.crt \(20.*Z\): /u)
    folder.unixMs = Date.now()
    await options.login(signal)
    assert.deepEqual(folder.log.slice(1), ['Client certificate is valid now'])
  })
})

describe('a kubeconfig is refused', () => {
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: 'c' }
  const cases: readonly {
    readonly name: string
    readonly cluster?: object
    readonly user?: object
    readonly more?: object
    readonly master?: string
    readonly problem: RegExp
  }[] = [
    { name: 'of another kind', more: { kind: 'Pod' }, problem: /kind: must be Config$/u },
    { name: 'of another version', more: { apiVersion: 'v2' }, problem: /apiVersion: must be v1$/u },
    {
      name: 'without a current context',
      more: { 'current-context': '' },
      problem: /current-context: is missing: must be the name of one of its contexts$/u,
    },
    {
      name: 'with an absent current context',
      more: { 'current-context': 'theirs' },
      problem: /current-context: names "theirs", which is not in contexts$/u,
    },
    {
      name: 'with two contexts with the same name',
      more: { contexts: [1, 2].map(() => ({ name: 'ours', context: { cluster: 'mine' } })) },
      problem: /contexts: has "ours" twice$/u,
    },
    {
      name: 'with a context that is not a mapping',
      more: { contexts: ['ours'] },
      problem: /contexts\[0\]: must be a mapping of fields$/u,
    },
    {
      name: 'with clusters that are not a list',
      more: { clusters: {} },
      problem: /clusters: must be a list$/u,
    },
    {
      name: 'with an absent cluster',
      more: { clusters: [] },
      problem: /contexts\[1\]\.context\.cluster: names "mine", which is not in clusters$/u,
    },
    {
      name: 'with an absent user',
      more: { users: null },
      problem: /contexts\[1\]\.context\.user: names "me", which is not in users$/u,
    },
    {
      name: 'without a server',
      cluster: { server: '' },
      problem: /clusters\[0\]\.cluster\.server: is missing/u,
    },
    {
      name: 'with a server that is not a URL',
      cluster: { server: 'ftp://a' },
      problem:
        /clusters\[0\]\.cluster\.server: must be the URL of an API server, such as https:\/\/192\.0\.2\.1:6443$/u,
    },
    { name: 'with a --master that is not a URL', master: 'ftp://a', problem: /^--master: must be the URL/u },
    {
      name: 'with a CA that is not base64',
      cluster: { 'certificate-authority-data': 'abc!' },
      problem: /certificate-authority-data: must be base64$/u,
    },
    {
      name: 'with a CA that is not a certificate',
      cluster: { 'certificate-authority-data': base64('nonsense') },
      problem: /certificate-authority-data: must hold certificates as PEM$/u,
    },
    {
      name: 'with an absent CA file',
      cluster: { 'certificate-authority': 'gone.crt' },
      problem: /clusters\[0\]\.cluster\.certificate-authority: \/.*gone\.crt: cannot be read: ENOENT/u,
    },
    {
      name: 'with two CAs',
      cluster: { 'certificate-authority': 'ca.crt', 'certificate-authority-data': 'abcd' },
      problem: /certificate-authority-data: must not be set beside certificate-authority$/u,
    },
    {
      name: 'with a CA and insecure-skip-tls-verify',
      cluster: { 'certificate-authority': 'ca.crt', 'insecure-skip-tls-verify': true },
      problem: /insecure-skip-tls-verify: must not be true beside a certificate-authority$/u,
    },
    {
      name: 'with a flag that is text',
      cluster: { 'insecure-skip-tls-verify': 'yes' },
      problem: /insecure-skip-tls-verify: must be true or false$/u,
    },
    {
      name: 'with a proxy of an unknown kind',
      cluster: { 'proxy-url': 'socks4://a' },
      problem: /proxy-url: must be the URL of a proxy that begins with one of http:\/\//u,
    },
    ...['http', 'socks5'].map((scheme) => ({
      name: `with an invalid % escape in the password of a proxy (${scheme})`,
      cluster: { 'proxy-url': `${scheme}://me:50%off@proxy` },
      problem: /proxy-url: its password must be percent-encoded: a % is %25$/u,
    })),
    {
      name: 'with an invalid % escape in the user of a proxy',
      cluster: { 'proxy-url': 'http://%ff@proxy' },
      problem: /proxy-url: its username must be percent-encoded: a % is %25$/u,
    },
    {
      name: 'with a certificate without its key',
      user: { 'client-certificate': 'person.crt' },
      problem: /client-key: is missing: a certificate needs a key, and a key a certificate$/u,
    },
    {
      name: 'with a certificate and the key of another certificate',
      user: { 'client-certificate': 'person.crt', 'client-key-data': base64(authority.key) },
      problem: /person\.crt: does not match its key, .*key values mismatch/u,
    },
    {
      name: 'with a token that is a number',
      user: { token: 1 },
      problem: /users\[0\]\.user\.token: must be text/u,
    },
    {
      name: 'with a token that ends with a newline',
      user: { token: 'abc\n' },
      problem: /users\[0\]\.user\.token: must be printable ASCII without spaces/u,
    },
    {
      name: 'with an empty token file',
      user: { tokenFile: 'empty' },
      problem: /empty: is empty: must hold a token$/u,
    },
    {
      name: 'with an absent token file',
      user: { tokenFile: 'gone' },
      problem: /gone: cannot be read: ENOENT/u,
    },
    {
      name: 'with two kinds of credentials',
      user: { token: 'a', username: 'b' },
      problem: /username: must not be set beside a token/u,
    },
    {
      name: 'with a removed kind of credentials',
      user: { 'auth-provider': { name: 'gcp' } },
      problem: /auth-provider: is not supported: use exec/u,
    },
    {
      name: 'with groups to impersonate',
      user: { 'as-groups': ['g'] },
      problem: /as-groups: is not supported/u,
    },
    {
      name: 'with a plugin and a token',
      user: { exec, token: 'a' },
      problem: /exec: must not be set beside a token/u,
    },
    {
      name: 'with a plugin without a program',
      user: { exec: { ...exec, command: '' } },
      problem: /users\[0\]\.user\.exec\.command: is missing: must be a program$/u,
    },
    {
      name: 'with a plugin of an unknown version',
      user: { exec: { ...exec, apiVersion: 'client.authentication.k8s.io/v1alpha1' } },
      problem: /exec\.apiVersion: must be one of client\.authentication\.k8s\.io\/v1, .*, not .*v1alpha1$/u,
    },
    {
      name: 'with a plugin that needs a terminal',
      user: { exec: { ...exec, interactiveMode: 'Always' } },
      problem: /exec\.interactiveMode: must be Never or IfAvailable, not Always/u,
    },
    {
      name: 'with a variable without a name',
      user: { exec: { ...exec, env: [{ value: 'a' }] } },
      problem: /exec\.env\[0\]\.name: is missing/u,
    },
  ]
  for (const { name, cluster = {}, user = {}, more = {}, master = '', problem } of cases) {
    it(name, async () => {
      folder.write('empty', ' \n')
      folder.describe({ server, ...cluster }, user, more)
      await assert.rejects(folder.open(master), (error) => {
        assert.ok(error instanceof ConfigError, String(error))
        assert.match(error.message, problem)
        return master !== '' || /^\/.*\/(?:config: |empty: |gone: )/u.test(error.message)
      })
    })
  }

  const texts = [
    { name: 'that is empty', text: '', problem: /config: is empty$/u },
    { name: 'that is not YAML', text: 'a: [', problem: /config: line \d+, column \d+: /u },
    { name: 'that is not a mapping', text: 'nonsense', problem: /config: must be a mapping of fields$/u },
    {
      name: 'with a repeated field',
      text: 'kind: a\nkind: b',
      problem: /config: kind: is written twice/u,
    },
    { name: 'with two documents', text: 'a: 1\n---\nb: 2', problem: /config: must be one document$/u },
  ]
  for (const { name, text, problem } of texts) {
    it(name, async () => {
      folder.write('config', text)
      await assert.rejects(
        folder.open(),
        (error) => error instanceof ConfigError && problem.test(error.message),
      )
    })
  }

  it('that is absent', async () => {
    await assert.rejects(folder.open(), /config: cannot be read: ENOENT/u)
  })
})

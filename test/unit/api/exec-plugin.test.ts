// Credentials from an exec plugin. Each test writes its plugin.
import assert from 'node:assert/strict'
import { chmodSync, existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ConfigError } from '../../../src/errors.js'
import type { ClientOptions, Login } from '../../../src/api/client-options.js'
import { makeCertificate } from '../../support/certificates.js'
import { until } from '../../support/http.js'
import { KubeconfigFolder } from '../../support/kubeconfig-folder.js'

const { signal } = new AbortController()
const v1 = 'client.authentication.k8s.io/v1'
const server = 'https://192.0.2.1:6443'

let folder: KubeconfigFolder

beforeEach(() => {
  folder = new KubeconfigFolder()
})

afterEach(() => folder.remove())

function credential(status: object, apiVersion = v1): string {
  return JSON.stringify({ kind: 'ExecCredential', apiVersion, status })
}

/** Opens a kubeconfig with a plugin that prints `output` and records its run. */
async function open(output: string, exec: object = {}, script = ''): Promise<ClientOptions> {
  folder.write('output', output)
  folder.writeProgram(
    'plugin',
    `echo ran >> '${folder.file('runs')}'\n${script}\ncat '${folder.file('output')}'`,
  )
  folder.describe({ server }, { exec: { apiVersion: v1, command: './plugin', ...exec } })
  return await folder.open()
}

function tokenOf({ headers }: Login): string | undefined {
  return headers['authorization']
}

describe('an exec plugin', () => {
  for (const apiVersion of [v1, 'client.authentication.k8s.io/v1beta1']) {
    it(`returns a token (${apiVersion}); a relative path is relative to the kubeconfig`, async () => {
      const options = await open(credential({ token: 'abc' }, apiVersion), { apiVersion })
      assert.deepEqual(folder.lines('runs'), [])
      assert.equal(tokenOf(await options.login(signal)), 'Bearer abc')
    })
  }

  it('returns a client certificate', async () => {
    const { cert, key } = makeCertificate('person')
    const status = { clientCertificateData: cert, clientKeyData: key }
    const { headers, tls } = await (await open(credential(status))).login(signal)
    assert.deepEqual(headers, {})
    assert.deepEqual([tls.cert, tls.key], [cert.trim(), key.trim()])
  })

  it('gets its arguments and variables, those of the agent, and no input', async () => {
    const script = `{ echo "$1 $OWN $FROM_AGENT"; cat; echo "$KUBERNETES_EXEC_INFO"; } > '${folder.file('received')}'`
    const options = await open(
      credential({ token: 'abc' }),
      { args: ['one', 'two'], env: [{ name: 'OWN', value: 'own' }], interactiveMode: 'IfAvailable' },
      script,
    )
    await options.login(signal)
    const [words, info = ''] = folder.lines('received')
    assert.equal(words, 'one own yes')
    assert.deepEqual(JSON.parse(info), {
      kind: 'ExecCredential',
      apiVersion: v1,
      spec: { interactive: false },
    })
  })

  it('gets the cluster if its configuration requests it', async () => {
    const { cert } = makeCertificate()
    folder.write('ca.crt', cert)
    folder.write('output', credential({ token: 'abc' }))
    folder.writeProgram(
      'plugin',
      `echo "$KUBERNETES_EXEC_INFO" > '${folder.file('received')}'; cat '${folder.file('output')}'`,
    )
    const extensions = [
      { name: 'other', extension: 1 },
      { name: 'client.authentication.k8s.io/exec', extension: { audience: 'a' } },
    ]
    folder.describe(
      { server, 'certificate-authority': 'ca.crt', 'tls-server-name': 'api.example', extensions },
      { exec: { apiVersion: v1, command: folder.file('plugin'), provideClusterInfo: true } },
    )
    await (await folder.open()).login(signal)
    assert.deepEqual(JSON.parse(folder.lines('received').join('')).spec.cluster, {
      server,
      'tls-server-name': 'api.example',
      'certificate-authority-data': Buffer.from(cert).toString('base64'),
      config: { audience: 'a' },
    })
  })

  it('runs once for concurrent requests, and again when its credential expires', async () => {
    const expirationTimestamp = new Date(folder.unixMs + 1000).toISOString()
    const options = await open(credential({ token: 'abc', expirationTimestamp }))
    await Promise.all([options.login(signal), options.login(signal)])
    folder.unixMs += 999
    await options.login(signal)
    assert.equal(folder.lines('runs').length, 1)
    folder.write('output', credential({ token: 'new' }))
    folder.unixMs += 1
    assert.equal(tokenOf(await options.login(signal)), 'Bearer new')
    assert.equal(folder.lines('runs').length, 2)
  })

  it('does not run again if its credential has no expiry, until the server refuses it', async () => {
    const options = await open(credential({ token: 'abc' }))
    const first = await options.login(signal)
    folder.unixMs += 1e12
    await options.login(signal)
    assert.equal(folder.lines('runs').length, 1)
    folder.write('output', credential({ token: 'new' }))
    first.refused?.()
    const second = await options.login(signal)
    // The refusal belongs to an earlier request with the old token; the new token stays.
    first.refused?.()
    assert.deepEqual([tokenOf(second), tokenOf(await options.login(signal))], ['Bearer new', 'Bearer new'])
    assert.equal(folder.lines('runs').length, 2)
  })

  it('does not block the event loop while it runs', async () => {
    const options = await open(
      credential({ token: 'abc' }),
      {},
      `while [ ! -e '${folder.file('go')}' ]; do :; done`,
    )
    const login = options.login(signal)
    // The plugin ends only if the event loop runs.
    setImmediate(() => folder.write('go', ''))
    assert.equal(tokenOf(await login), 'Bearer abc')
  })

  it('is killed when the agent stops, and its request fails', async () => {
    const end = new AbortController()
    const options = await open('', {}, `echo $$ > '${folder.file('running')}'; exec sleep infinity`)
    const login = options.login(end.signal)
    const pid = (): string => folder.lines('running').join('')
    await until(() => pid() !== '')
    end.abort()
    await assert.rejects(login, ConfigError)
    await until(() => !existsSync(`/proc/${pid()}`))
  })
})

describe('an exec plugin that fails', () => {
  const cases: readonly {
    readonly name: string
    readonly output?: string
    readonly exec?: object
    readonly script?: string
    readonly problem: RegExp
  }[] = [
    {
      name: 'with a message, which may hold a secret',
      script: 'echo "refresh_token abc" >&2; echo more >&2; exit 3',
      problem:
        /exec: \/.*plugin: ended with code 3; the first line of its error message has 17 characters: run the plugin to read it$/u,
    },
    {
      name: 'without an error message',
      script: 'exit 1',
      problem: /plugin: ended with code 1, without an error message$/u,
    },
    {
      name: 'by a signal',
      script: 'kill -TERM $$',
      problem: /plugin: was ended by SIGTERM, without an error message$/u,
    },
    {
      name: 'because it does not exist',
      exec: { command: 'no-such-plugin', installHint: 'see the manual' },
      problem: /exec: no-such-plugin: is absent: install it, or correct the path \(see the manual\)$/u,
    },
    {
      name: 'with too much output',
      script: 'while :; do echo nonsense; done',
      problem: /plugin: failed: stdout maxBuffer length exceeded$/u,
    },
    {
      name: 'with output that is not JSON',
      output: 'secret',
      problem: /plugin: its standard output must be an ExecCredential in JSON$/u,
    },
    {
      name: 'with a list',
      output: '[]',
      problem: /plugin: its kind must be ExecCredential$/u,
    },
    {
      name: 'with another version than requested',
      output: credential({ token: 'a' }, 'client.authentication.k8s.io/v1beta1'),
      problem: /plugin: its apiVersion must be client\.authentication\.k8s\.io\/v1$/u,
    },
    {
      name: 'with an empty status',
      output: credential({}),
      problem: /has neither a token nor a client certificate$/u,
    },
    {
      name: 'with a certificate without its key',
      output: credential({ clientKeyData: 'a' }),
      problem: /its status must have both clientCertificateData and clientKeyData, or neither$/u,
    },
    {
      name: 'with an invalid certificate',
      output: credential({ clientKeyData: 'a', clientCertificateData: 'b' }),
      problem: /plugin: its client certificate: must hold certificates as PEM$/u,
    },
    {
      name: 'with a token that is a number',
      output: credential({ token: 1 }),
      problem: /status\.token must be text$/u,
    },
    {
      name: 'with an invalid time',
      output: credential({ token: 'a', expirationTimestamp: 'soon' }),
      problem: /status\.expirationTimestamp must be a time$/u,
    },
  ]
  for (const { name, output = '', exec, script, problem } of cases) {
    it(`${name}: the request fails, and the next request runs it again`, async () => {
      const options = await open(output, exec, script)
      for (const _ of [1, 2]) {
        await assert.rejects(options.login(signal), (error) => {
          assert.ok(error instanceof ConfigError, String(error))
          assert.match(error.message, problem)
          return true
        })
      }
      assert.equal(folder.lines('runs').length, exec === undefined ? 2 : 0)
    })
  }

  it('fails the request when its file is not executable', async () => {
    const options = await open('')
    chmodSync(folder.file('plugin'), 0o644)
    await assert.rejects(options.login(signal), /plugin: failed: spawn .*EACCES$/u)
  })
})

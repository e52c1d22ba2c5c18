import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { systemClock } from '../../../src/clock.js'
import { ConfigError } from '../../../src/errors.js'
import { inClusterOptions, masterOptions, type ClientOptions } from '../../../src/api/client-options.js'

const { signal } = new AbortController()
const folder = '/var/run/secrets/kubernetes.io/serviceaccount'

describe('masterOptions', () => {
  const servers = [
    ['https://api.example:6443', 'https://api.example:6443/'],
    ['http://127.0.0.1:8080/prefix', 'http://127.0.0.1:8080/prefix'],
    ['127.0.0.1:8080', 'http://127.0.0.1:8080/'],
  ] as const
  for (const [master, server] of servers) {
    it(`takes ${master}, without credentials`, async () => {
      const options = masterOptions(master)
      assert.equal(options.server.href, server)
      const { headers, tls } = await options.login(signal)
      assert.deepEqual({ headers, tls }, { headers: {}, tls: {} })
    })
  }
  for (const master of ['', 'ftp://a', 'https://', 'http://a:99999']) {
    it(`refuses ${JSON.stringify(master)}`, () => assert.throws(() => masterOptions(master), ConfigError))
  }
})

async function tokenOf({ login }: ClientOptions): Promise<string | undefined> {
  return (await login(signal)).headers['authorization']
}

describe('inClusterOptions', () => {
  const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' }

  function open(files: Record<string, string>, time = { now: 0 }, host = '10.96.0.1') {
    const readFile = (path: string): string => {
      const text = files[path]
      if (text === undefined) throw new Error('ENOENT')
      return text
    }
    return inClusterOptions({
      environment: { ...environment, KUBERNETES_SERVICE_HOST: host },
      readFile,
      clock: { ...systemClock, now: () => time.now },
    })
  }

  it('takes address, CA and token of the pod; the token without its newline', async () => {
    const options = open({ [`${folder}/token`]: 'abc\n', [`${folder}/ca.crt`]: 'CA' })
    assert.equal(options.server.href, 'https://10.96.0.1/')
    const { headers, tls } = await options.login(signal)
    assert.deepEqual({ headers, tls }, { headers: { authorization: 'Bearer abc' }, tls: { ca: 'CA' } })
  })

  it('puts an IPv6 address in brackets', () => {
    const options = open({ [`${folder}/token`]: 'abc', [`${folder}/ca.crt`]: 'CA' }, { now: 0 }, 'fd00::1')
    assert.equal(options.server.href, 'https://[fd00::1]/')
  })

  it('reads the token again after a minute', async () => {
    const files = { [`${folder}/token`]: 'old', [`${folder}/ca.crt`]: 'CA' }
    const time = { now: 0 }
    const options = open(files, time)
    files[`${folder}/token`] = 'new'
    time.now = 59_999
    assert.equal(await tokenOf(options), 'Bearer old')
    time.now = 60_000
    assert.equal(await tokenOf(options), 'Bearer new')
  })

  it('reads the token at once after the server refused the old one, and a replaced CA always', async () => {
    const files = { [`${folder}/token`]: 'old', [`${folder}/ca.crt`]: 'CA' }
    const options = open(files)
    const { refused } = await options.login(signal)
    files[`${folder}/token`] = 'new'
    files[`${folder}/ca.crt`] = 'CB'
    refused?.()
    const { headers, tls } = await options.login(signal)
    assert.deepEqual({ headers, tls }, { headers: { authorization: 'Bearer new' }, tls: { ca: 'CB' } })
  })

  it('fails the request, not the source, while the token cannot be read', async () => {
    const files: Record<string, string> = { [`${folder}/token`]: 'old', [`${folder}/ca.crt`]: 'CA' }
    const time = { now: 0 }
    const options = open(files, time)
    delete files[`${folder}/token`]
    time.now = 60_000
    await assert.rejects(options.login(signal), /token: cannot be read: ENOENT/u)
    files[`${folder}/token`] = 'new'
    assert.equal(await tokenOf(options), 'Bearer new')
  })

  const impossible = [
    { name: 'outside of a cluster', files: {}, host: '', problem: /^not in a cluster/u },
    { name: 'without a token', files: {}, host: 'a', problem: /token: cannot be read: ENOENT/u },
    {
      name: 'with an empty token',
      files: { [`${folder}/token`]: ' \n' },
      host: 'a',
      problem: /token: is empty/u,
    },
    {
      name: 'without a CA',
      files: { [`${folder}/token`]: 'a' },
      host: 'a',
      problem: /ca\.crt: cannot be read/u,
    },
    {
      name: 'with an invalid host',
      files: {},
      host: 'a b',
      problem:
        /^KUBERNETES_SERVICE_HOST: must be a host, and KUBERNETES_SERVICE_PORT its port: they make no URL$/u,
    },
  ]
  for (const { name, files, host, problem } of impossible) {
    it(`refuses to start ${name}`, () => {
      assert.throws(
        () => open(files, { now: 0 }, host),
        (error) => error instanceof ConfigError && problem.test(error.message),
      )
    })
  }
})

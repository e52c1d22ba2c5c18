// A source with a kubeconfig and a fake API server over TLS: problems are logged once, and their repair needs no restart.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { connect, createServer as createPlainServer } from 'node:net'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { makeCertificate } from '../../support/certificates.js'
import type { FakeApiOptions } from '../../support/fake-api-server.js'
import { KubeconfigFolder } from '../../support/kubeconfig-folder.js'
import { delays, KubernetesLab } from '../../support/kubernetes-lab.js'
import { startProxy } from '../../support/proxies.js'

const certificate = makeCertificate()
const [first, second] = [makeCertificate('first'), makeCertificate('second')]

let folder: KubeconfigFolder
let lab: KubernetesLab

beforeEach(() => {
  folder = new KubeconfigFolder()
  folder.write('ca.crt', certificate.cert)
})

afterEach(async () => {
  await lab.close()
  folder.remove()
})

function useClientCertificate({ cert, key }: { readonly cert: string; readonly key: string }): void {
  folder.write('person.crt', cert)
  folder.write('person.key', key)
}

/** Starts a source with a kubeconfig for the server. Returns a promise that resolves when all objects are listed. */
async function open(
  options: FakeApiOptions,
  { cluster = {}, user = {}, master = '' }: { cluster?: object; user?: object; master?: string } = {},
): Promise<{ readonly listed: Promise<void> }> {
  lab = new KubernetesLab({ certificate, ...options })
  await lab.server.listen()
  folder.describe({ server: lab.server.url.origin, 'certificate-authority': 'ca.crt', ...cluster }, user)
  return { listed: lab.open(await folder.open(master)) }
}

/** Waits until the source reaches the server after a repair. */
async function repaired(listed: Promise<void>): Promise<void> {
  await lab.passUntilFollowing()
  await listed
  assert.equal(lab.events.at(-1), 'synced')
  await lab.untilLogged(/^link: over$/u)
}

const person = { 'client-certificate': 'person.crt', 'client-key': 'person.key' }

describe('a kubeconfig over TLS', () => {
  it('sends its client certificate, and the new one after a replacement', async () => {
    useClientCertificate(first)
    const { listed } = await open({ clientAuthorities: [first.cert, second.cert] }, { user: person })
    await listed
    assert.deepEqual([...new Set(lab.server.clients)], ['first'])
    await lab.untilFollowing()
    useClientCertificate(second)
    const before = lab.server.clients.length
    for (const kind of ['Service', 'EndpointSlice', 'Node'] as const) lab.server.endWatches(kind)
    await lab.fire(delays.first, 3)
    await lab.until(() => lab.server.clients.length === before + 3)
    assert.deepEqual([...new Set(lab.server.clients.slice(before))], ['second'])
  })

  it('continues after an unknown client certificate was replaced', async () => {
    useClientCertificate(first)
    const { listed } = await open({ clientAuthorities: [second.cert] }, { user: person })
    await lab.untilLogged(/^link: Service: GET \/api\/v1\/services: 401 Unauthorized: Unauthorized$/u)
    useClientCertificate(second)
    await repaired(listed)
  })

  it('continues after a wrong CA was replaced, and names its file', async () => {
    folder.write('ca.crt', first.cert)
    const { listed } = await open({})
    await lab.untilLogged(
      /^link: Service: .*: the server's certificate is not trusted: self.signed certificate \(DEPTH_ZERO_SELF_SIGNED_CERT\); trusted: .*certificate-authority: \/.*ca\.crt$/u,
    )
    folder.write('ca.crt', certificate.cert)
    await repaired(listed)
  })

  it('continues after an incomplete CA was replaced', async () => {
    const { listed } = await open({})
    await listed
    await lab.untilFollowing()
    folder.write('ca.crt', '')
    await lab.breakLinks(() => lab.server.dropConnections())
    await lab.passUntil(lab.clock.now() + 4000)
    await lab.untilLogged(/^link: Service: .*ca\.crt: must hold certificates as PEM$/u)
    folder.write('ca.crt', certificate.cert)
    await lab.passUntilFollowing()
  })

  it('reports the name in the certificate if the server has another name', async () => {
    await open({}, { cluster: { 'tls-server-name': 'api.example' } })
    await lab.untilLogged(
      /^link: Service: .*: the server's certificate does not name the server: .*api\.example/u,
    )
  })

  it('does not check the certificate with insecure-skip-tls-verify', async () => {
    const cluster = { 'certificate-authority': '', 'insecure-skip-tls-verify': true }
    await (
      await open({}, { cluster })
    ).listed
  })

  it('keeps its credentials if --master names another server', async () => {
    const elsewhere = { server: 'https://192.0.2.1:6443' }
    lab = new KubernetesLab({ certificate, authorization: 'Bearer abc' })
    await lab.server.listen()
    folder.describe({ ...elsewhere, 'certificate-authority': 'ca.crt' }, { token: 'abc' })
    await lab.open(await folder.open(lab.server.url.href))
  })

  it('requests only JSON if configured', async () => {
    lab = new KubernetesLab({ certificate })
    await lab.server.listen()
    folder.describe({ server: lab.server.url.origin, 'certificate-authority': 'ca.crt' })
    await lab.open({ ...(await folder.open()), encodings: ['json'] })
    assert.deepEqual([...new Set(lab.server.headers.map(({ accept }) => accept))], ['application/json'])
  })
})

describe('an exec plugin over TLS', () => {
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: './plugin' }

  function say(token: string): void {
    const answer = { kind: 'ExecCredential', apiVersion: exec.apiVersion, status: { token } }
    folder.write('answer', JSON.stringify(answer))
    folder.writeProgram('plugin', `cat '${folder.file('answer')}'`)
  }

  it('is reported when it fails, and runs again', async () => {
    folder.writeProgram('plugin', 'echo no network >&2; exit 1')
    const { listed } = await open({ authorization: 'Bearer abc' }, { user: { exec } })
    await lab.untilLogged(
      /^link: Service: GET \/api\/v1\/services: .*exec: \/.*plugin: ended with code 1; the first line of its error message has 10 characters: run the plugin to read it$/u,
    )
    say('abc')
    await repaired(listed)
  })

  it('runs again when the server refuses its token', async () => {
    say('old')
    const { listed } = await open({ authorization: 'Bearer new' }, { user: { exec } })
    await lab.untilLogged(/^link: Service: .*: 401 Unauthorized/u)
    say('new')
    await repaired(listed)
  })
})

describe('a kubeconfig with a proxy', () => {
  for (const scheme of ['http', 'socks5'] as const) {
    it(`reaches the server through the proxy (${scheme}), with the client certificate`, async () => {
      const proxy = await startProxy(scheme)
      useClientCertificate(first)
      const cluster = { 'proxy-url': proxy.url, 'tls-server-name': 'viaduct.test' }
      const { listed } = await open({ clientAuthorities: [first.cert] }, { cluster, user: person })
      await listed
      assert.deepEqual([...new Set(proxy.asked)], [`127.0.0.1:${lab.server.port}`])
      assert.deepEqual([...new Set(lab.server.clients)], ['first'])
      proxy.close()
    })
  }

  for (const { name, host, address } of [
    { name: 'a server', host: '127.0.0.1', address: '::1' },
    { name: 'a proxy', host: '::1', address: undefined },
    { name: 'both', host: '::1', address: '::1' },
  ] as const) {
    for (const { scheme, by } of (['http', 'socks5'] as const).flatMap((proxyScheme) => [
      { scheme: 'https', by: proxyScheme },
      { scheme: 'http', by: proxyScheme },
    ])) {
      it(`reaches ${scheme} by IPv6 addresses and a proxy of ${by}: ${name}`, async () => {
        const proxy = await startProxy(by, host)
        const place = address === undefined ? {} : { address }
        lab = new KubernetesLab(scheme === 'https' ? { certificate, ...place } : place)
        await lab.server.listen()
        folder.describe({
          server: lab.server.url.origin,
          'proxy-url': proxy.url,
          ...(scheme === 'https' ? { 'certificate-authority': 'ca.crt' } : {}),
        })
        await lab.open(await folder.open())
        assert.deepEqual([...new Set(proxy.asked)], [lab.server.url.host])
        proxy.close()
      })
    }
  }

  it('checks the certificate of a proxy with the CA of the cluster and the name of the proxy', async () => {
    const asked: (string | undefined)[] = []
    const proxy = createSecureServer(certificate).on('connect', ({ url }, near) => {
      asked.push(url)
      const far = connect(lab.server.port, '127.0.0.1', () => {
        near.write('HTTP/1.1 200 OK\r\n\r\n')
        far.pipe(near).pipe(far)
      })
      for (const end of [far, near]) end.on('error', () => undefined)
    })
    await once(proxy.listen(0, '127.0.0.1'), 'listening')
    const address = proxy.address()
    assert.ok(typeof address === 'object' && address !== null)
    const cluster = {
      server: 'https://kube.example:6443',
      'tls-server-name': 'viaduct.test',
      'proxy-url': `https://127.0.0.1:${address.port}`,
    }
    const { listed } = await open({}, { cluster })
    await listed
    assert.deepEqual([...new Set(asked)], ['kube.example:6443'])
    proxy.close()
  })

  it('authenticates at the proxy, and reports its answer', async () => {
    const logins: (string | undefined)[] = []
    const proxy = createServer().on('connect', ({ headers }, socket) => {
      logins.push(headers['proxy-authorization'])
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    })
    await once(proxy.listen(0, '127.0.0.1'), 'listening')
    const address = proxy.address()
    assert.ok(typeof address === 'object' && address !== null)
    const place = `127.0.0.1:${address.port}`
    await open({}, { cluster: { 'proxy-url': `http://me:50%25off@${place}` } })
    const answer = `the proxy ${place} answers 407 Proxy Authentication Required`
    await lab.until(() => lab.log.some((line) => line.startsWith('link: ') && line.endsWith(answer)))
    assert.equal(logins[0], `Basic ${Buffer.from('me:50%off').toString('base64')}`)
    proxy.close()
  })

  it('authenticates at a SOCKS proxy', async () => {
    const proxy = await startProxy('socks5')
    const { listed } = await open({}, { cluster: { 'proxy-url': proxy.url.replace('//', '//me:50%25off@') } })
    await listed
    assert.deepEqual([...new Set(proxy.asked)], [`127.0.0.1:${lab.server.port}`])
    proxy.close()
  })

  const connects = 'does not connect: '
  for (const { answers, problem } of [
    {
      answers: [[4, 0]],
      problem: `${connects}Received invalid Socks5 initial handshake (invalid socks version)`,
    },
    {
      answers: [[5, 255]],
      problem: `${connects}Received invalid Socks5 initial handshake (no accepted authentication type)`,
    },
    {
      answers: [
        [5, 2],
        [1, 1],
      ],
      problem: `${connects}Socks5 Authentication failed`,
    },
    {
      answers: [
        [5, 0],
        [5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
      ],
      problem: `${connects}Socks5 proxy rejected connection - NotAllowed`,
    },
    { answers: [[5]], problem: `${connects}Socket closed` },
    { answers: [], problem: `${connects}Socket closed` },
  ])
    it(`reports the answer of a SOCKS proxy: ${problem} (${JSON.stringify(answers)})`, async () => {
      const proxy = createPlainServer((socket) => {
        const left = answers.map((answer) => Buffer.from(answer))
        socket.on('error', () => undefined)
        socket.on('data', () => {
          socket.write(left.shift() ?? '')
          if (left.length === 0) socket.end()
        })
      })
      await once(proxy.listen(0, '127.0.0.1'), 'listening')
      const address = proxy.address()
      assert.ok(typeof address === 'object' && address !== null)
      const place = `127.0.0.1:${address.port}`
      await open({}, { cluster: { 'proxy-url': `socks5://me:secret@${place}` } })
      const expected = `the proxy ${place} ${problem}`
      await lab.until(() => lab.log.some((line) => line.startsWith('link: ') && line.endsWith(expected)))
      proxy.close()
    })

  for (const scheme of ['http', 'socks5'] as const) {
    it(`reports an absent proxy (${scheme})`, async () => {
      await open({}, { cluster: { 'proxy-url': `${scheme}://127.0.0.1:1` } })
      await lab.untilLogged(/^link: Service: .*: connect ECONNREFUSED 127\.0\.0\.1:1$/u)
    })

    it(`checks the certificate of the server too (${scheme})`, async () => {
      const proxy = await startProxy(scheme)
      folder.write('ca.crt', first.cert)
      const { listed } = await open({}, { cluster: { 'proxy-url': proxy.url } })
      await lab.untilLogged(/^link: Service: .*: the server's certificate is not trusted: /u)
      folder.write('ca.crt', certificate.cert)
      await repaired(listed)
      proxy.close()
    })

    it(`checks the address of the server's URL (${scheme})`, async () => {
      const proxy = await startProxy(scheme)
      await open({ address: '127.0.0.2' }, { cluster: { 'proxy-url': proxy.url } })
      await lab.untilLogged(
        /^link: Service: .*: the server's certificate does not name the server: .*IP: 127\.0\.0\.2 is not in/u,
      )
      proxy.close()
    })
  }
})

// Issue 18, B4: the proxy of the environment, by the rules of client-go.
import assert from 'node:assert/strict'
import dns from 'node:dns'
import { afterEach, describe, it, mock } from 'node:test'
import { systemClock } from '../../../src/clock.js'
import { resolveConfig } from '../../../src/config/index.js'
import { ConfigError } from '../../../src/errors.js'
import { nodeFileSystem, openSource } from '../../../src/source/index.js'
import { environmentProxy, type Environment } from '../../../src/api/proxy/environment-proxy.js'
import { apiNode, apiService } from '../../support/api-documents.js'
import { FakeApiServer } from '../../support/fake-api-server.js'
import { describeEvent } from '../../support/manifest-folder.js'
import { MemoryLog } from '../../support/pipeline-lab.js'
import { startProxy } from '../../support/proxies.js'

const HTTPS_PROXY = 'http://proxy:3128'
const server = 'https://api.example.com:6443'

const rows: readonly { server?: string; environment: Environment; expected: string | undefined }[] = [
  { environment: {}, expected: undefined },
  { environment: { HTTPS_PROXY }, expected: 'http://proxy:3128/' },
  { environment: { https_proxy: 'proxy:3128' }, expected: 'http://proxy:3128/' },
  { environment: { HTTPS_PROXY: '', https_proxy: 'https://low' }, expected: 'https://low/' },
  { environment: { HTTPS_PROXY, https_proxy: 'http://low' }, expected: 'http://proxy:3128/' },
  { environment: { HTTP_PROXY: 'http://plain' }, expected: undefined },
  { environment: { ALL_PROXY: 'socks5://all', all_proxy: 'socks5://all' }, expected: undefined },
  { environment: { HTTPS_PROXY: 'socks5://proxy:1080' }, expected: 'socks5://proxy:1080' },
  {
    server: 'http://api',
    environment: { HTTPS_PROXY, HTTP_PROXY: 'http://plain' },
    expected: 'http://plain/',
  },
  { server: 'https://localhost:6443', environment: { HTTPS_PROXY }, expected: undefined },
  { server: 'https://127.1.2.3', environment: { HTTPS_PROXY }, expected: undefined },
  { server: 'https://[::1]:6443', environment: { HTTPS_PROXY }, expected: undefined },
]

const exemptions: readonly { server?: string; noProxy: string; isExempt: boolean }[] = [
  { noProxy: '*', isExempt: true },
  { noProxy: 'other, api.example.com', isExempt: true },
  { noProxy: 'API.Example.Com', isExempt: true },
  { noProxy: 'example.com', isExempt: true },
  { noProxy: '.example.com', isExempt: true },
  { noProxy: '*.example.com', isExempt: true },
  { noProxy: '.api.example.com', isExempt: false },
  { noProxy: 'ample.com', isExempt: false },
  { noProxy: 'api.example.com:6443', isExempt: true },
  { noProxy: 'api.example.com:443', isExempt: false },
  { noProxy: ':6443', isExempt: false },
  { server: 'https://api.example.com.', noProxy: 'example.com', isExempt: false },
  { noProxy: '10.0.0.0/8', isExempt: false },
  { server: 'https://10.96.0.1', noProxy: '10.96.0.0/12', isExempt: true },
  { server: 'https://10.96.0.1', noProxy: '10.97.0.0/16', isExempt: false },
  { server: 'https://10.96.0.1', noProxy: '10.96.0.1', isExempt: true },
  { server: 'https://10.96.0.1', noProxy: '10.96.0.1:443', isExempt: true },
  { server: 'https://10.96.0.1', noProxy: '10.96.0.1:6443', isExempt: false },
  { server: 'https://10.96.0.1', noProxy: '10.96.0.0/99', isExempt: false },
  { server: 'https://[fd00::1]:6443', noProxy: 'fd00::1', isExempt: true },
  { server: 'https://[fd00::1]:6443', noProxy: '[fd00::1]:6443', isExempt: true },
  { server: 'https://[fd00::1]:6443', noProxy: '[fd00::1]', isExempt: false },
  { server: 'https://[fd00::1]:6443', noProxy: 'fd00::/8', isExempt: true },
  { server: 'https://[fd00::1]:6443', noProxy: 'fe00::/8', isExempt: false },
]

function isRefusal(error: unknown): boolean {
  return (
    error instanceof ConfigError &&
    /^https_proxy: (?:must be the URL of a proxy|its password)/u.test(error.message)
  )
}

describe('the proxy of the environment', () => {
  for (const { server: to = server, environment, expected } of rows)
    it(`is ${expected} to ${to} with ${JSON.stringify(environment)}`, () => {
      assert.equal(environmentProxy(new URL(to), environment)?.href, expected)
    })

  for (const { server: to = server, noProxy, isExempt } of exemptions)
    it(`is ${isExempt ? 'not ' : ''}used to ${to} with NO_PROXY=${noProxy}`, () => {
      const expected = isExempt ? undefined : 'http://proxy:3128/'
      for (const name of ['NO_PROXY', 'no_proxy'])
        assert.equal(environmentProxy(new URL(to), { HTTPS_PROXY, [name]: noProxy })?.href, expected)
    })

  for (const written of ['socks4://proxy', 'socks5://', 'http://', 'ftp://proxy', 'http://me:50%off@proxy'])
    it(`is refused with the name of its variable: ${written}`, () => {
      assert.throws(() => environmentProxy(new URL(server), { https_proxy: written }), isRefusal)
    })
})

describe('a source whose environment names a proxy', () => {
  afterEach(() => mock.restoreAll())

  for (const scheme of ['http', 'socks5'] as const)
    it(
      `reaches the API server through the proxy, which resolves the server's name: ${scheme}`,
      { timeout: 20_000 },
      async () => {
        const api = new FakeApiServer()
        api.store.put('Node', apiNode('node-a'))
        api.store.put('Service', apiService('web', '10.96.0.1'))
        await api.listen()
        const proxy = await startProxy(scheme)
        mock.method(dns, 'lookup', (_host: string, _options: unknown, done: (...found: unknown[]) => void) =>
          done(undefined, [{ address: '127.0.0.1', family: 4 }]),
        )
        const { client } = resolveConfig({ manifests: 'none' })
        const to = `api.example:${api.port}`
        const { source } = await openSource(
          { manifests: undefined, client: { ...client, master: `http://${to}` } },
          {
            fileSystem: nodeFileSystem,
            clock: systemClock,
            log: new MemoryLog(),
            metrics: {
              manifestErrors: { set: () => assert.fail() },
              apiObjectErrors: { set: () => undefined },
              apiLinksDown: { set: () => undefined },
              apiRequest: () => undefined,
            },
            nodeName: 'node-a',
            environment: { HTTP_PROXY: proxy.url },
            onCrash: (error) => assert.fail(String(error)),
          },
        )
        const events: string[] = []
        source.followNodes?.('own')
        await source.start((batch) => void events.push(...batch.map(describeEvent)))
        await source.stop()
        await api.close()
        proxy.close()
        assert.ok(events.includes('+Service default/web 10.96.0.1'))
        assert.deepEqual([...new Set(proxy.asked)], [to])
      },
    )
})

// Real sockets on loopback.
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { resolveConfig } from '../../../src/config/index.js'
import type { EventReport } from '../../../src/event.js'
import { openMetrics } from '../../../src/metrics/index.js'
import { AgentServers } from '../../../src/server/index.js'
import { type AgentServersOptions } from '../../../src/server/testing.js'
import type { FamilyHealth } from '../../../src/engine/index.js'
import {
  ask,
  assertRefused,
  close,
  connected,
  freePort,
  occupy,
  readUntil,
  until,
  type HttpReply,
} from '../../support/http.js'
import { ManualClock } from '../../support/manual-clock.js'
import { ip, MemoryLog } from '../../support/pipeline-lab.js'

const stops: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const stop of stops.splice(0)) await stop()
})

interface Bench {
  readonly servers: AgentServers
  readonly clock: ManualClock
  readonly log: MemoryLog
  readonly events: readonly EventReport[]
  readonly healthz: number
  readonly metrics: number
}

const atOnce = Promise.resolve()
const never = new Promise<void>(() => {})

async function open(
  facts: Partial<AgentServersOptions['facts']> = {},
  config: Partial<AgentServersOptions['config']> = {},
): Promise<Bench> {
  const [healthz, metrics] = [await freePort(), await freePort()]
  const [clock, log, registry] = [new ManualClock(), new MemoryLog(), new Registry()]
  const events: EventReport[] = []
  const servers = new AgentServers({
    config: {
      ...resolveConfig({ manifests: 'm' }).servers,
      healthzBindAddress: { host: ip('127.0.0.1'), port: healthz },
      metricsBindAddress: { host: ip('127.0.0.1'), port: metrics },
      ...config,
    },
    facts: {
      families: () => [],
      isNodeEligible: () => true,
      mode: 'ipvs',
      metrics: registry,
      configuration: () => ({ kind: 'KubeProxyConfiguration', mode: 'ipvs' }),
      flags: () => ({ v: '2', 'proxy-mode': 'ipvs' }),
      startedMs: 1_700_000_000_000 - 3_723_000,
      version: '1.2.3',
      ...facts,
    },
    counts: openMetrics(registry),
    nodeName: 'node-a',
    events: { record: (event) => void events.push(event) },
    clock,
    log,
  })
  stops.push(async () => await servers.stop())
  return { servers, clock, log, events, healthz, metrics }
}

/** The manual clock starts at 2023-11-14T22:13:20Z. */
const now = '2023-11-14T22:13:20Z'

function family(name: 'ipv4' | 'ipv6', secondsAgo: number, isHealthy = true): FamilyHealth {
  return { family: name, lastUpdatedMs: 1_700_000_000_000 - secondsAgo * 1000, isHealthy }
}

describe('/healthz and /livez', () => {
  const both = [family('ipv4', 1.25), family('ipv6', 10)]
  const late = [family('ipv4', 100, false), family('ipv6', 10)]
  const fresh = `"IPv4":{"lastUpdated":"2023-11-14T22:13:18.75Z","healthy":true},"IPv6":{"lastUpdated":"2023-11-14T22:13:10Z","healthy":true}`
  const stale = `"IPv4":{"lastUpdated":"2023-11-14T22:11:40Z","healthy":false},"IPv6":{"lastUpdated":"2023-11-14T22:13:10Z","healthy":true}`
  const head = `{"lastUpdated":"${now}","currentTime":"${now}"`
  const cases = [
    {
      name: 'all families are healthy',
      families: both,
      isEligible: true,
      healthz: [200, `${head},"nodeEligible":true,"healthy":true,"status":{${fresh}}}`],
      livez: [200, `${head},"healthy":true,"status":{${fresh}}}`],
    },
    {
      name: 'the node may get no traffic',
      families: both,
      isEligible: false,
      healthz: [
        503,
        `{"lastUpdated":"2023-11-14T22:13:18.75Z","currentTime":"${now}","nodeEligible":false,"healthy":true,"status":{${fresh}}}`,
      ],
      livez: [200, `${head},"healthy":true,"status":{${fresh}}}`],
    },
    {
      name: 'a family lags',
      families: late,
      isEligible: true,
      healthz: [
        503,
        `{"lastUpdated":"2023-11-14T22:13:10Z","currentTime":"${now}","nodeEligible":true,"healthy":false,"status":{${stale}}}`,
      ],
      livez: [
        503,
        `{"lastUpdated":"2023-11-14T22:13:10Z","currentTime":"${now}","healthy":false,"status":{${stale}}}`,
      ],
    },
    {
      name: 'no family and no Node is known yet',
      families: [],
      isEligible: false,
      healthz: [
        503,
        `{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"${now}","nodeEligible":false,"healthy":true}`,
      ],
      livez: [200, `${head},"healthy":true}`],
    },
  ] as const
  for (const { name, families, isEligible, healthz, livez } of cases) {
    it(`have the same bytes as kube-proxy's pages when ${name}`, async () => {
      const bench = await open({ families: () => families, isNodeEligible: () => isEligible })
      await bench.servers.start(atOnce)
      for (const method of ['GET', 'POST', 'DELETE']) {
        const replies = [
          await ask(bench.healthz, { path: '/healthz', method }),
          await ask(bench.healthz, { path: '/livez?verbose', method }),
        ]
        assert.deepEqual(
          replies.map(({ status, body }) => [status, body]),
          [healthz, livez],
        )
        for (const { headers } of replies) {
          assert.equal(headers['content-type'], 'application/json')
          assert.equal(headers['x-content-type-options'], 'nosniff')
        }
      }
    })
  }

  it('count their replies by status code', async () => {
    let isEligible = true
    const bench = await open({ isNodeEligible: () => isEligible })
    await bench.servers.start(atOnce)
    for (const path of ['/healthz', '/healthz', '/livez']) await ask(bench.healthz, { path })
    isEligible = false
    await ask(bench.healthz, { path: '/healthz' })
    const { body } = await ask(bench.metrics, { path: '/metrics' })
    assert.deepEqual(
      body.split('\n').filter((line) => /^kubeproxy_proxy_(?:healthz|livez)_total/u.test(line)),
      [
        'kubeproxy_proxy_healthz_total{code="200"} 2',
        'kubeproxy_proxy_healthz_total{code="503"} 1',
        'kubeproxy_proxy_livez_total{code="200"} 1',
      ],
    )
  })
})

const warning =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.'

describe('the pages of the metrics server', () => {
  const plain = 'text/plain; charset=utf-8'
  const cases = [
    { path: '/proxyMode', type: plain, body: 'ipvs' },
    { path: '/healthz', type: plain, body: 'ok' },
    { path: '/healthz/ping', type: plain, body: 'ok' },
    { path: '/healthz?verbose', type: plain, body: '[+]ping ok\nhealthz check passed\n' },
    { path: '/healthz?verbose=true', type: plain, body: '[+]ping ok\nhealthz check passed\n' },
    {
      path: '/configz',
      type: 'application/json',
      body: '{"kubeproxy.config.k8s.io":{"kind":"KubeProxyConfiguration","mode":"ipvs"}}',
    },
    { path: '/flagz', type: plain, body: `\nkube-proxy flagz\n${warning}\n\nproxy-mode=ipvs\nv=2\n` },
    {
      path: '/statusz',
      type: plain,
      body: `\nkube-proxy statusz\n${warning}\n\nStarted: Tue Nov 14 21:11:17 UTC 2023\nUp: 1 hr 02 min 03 sec\nGo version: ${process.version}\nBinary version: 1.2.3\nEmulation version: 1.2.3\nPaths: /configz /flagz /healthz /healthz/ping /metrics /metrics/slis /proxyMode /statusz\n`,
    },
  ]
  for (const { path, type, body } of cases) {
    it(`include ${path}`, async () => {
      const bench = await open()
      await bench.servers.start(atOnce)
      for (const method of ['GET', 'POST', 'HEAD']) {
        const reply = await ask(bench.metrics, { path, method })
        assert.deepEqual([reply.status, reply.body], [200, method === 'HEAD' ? '' : body])
        assert.equal(reply.headers['content-type'], type)
        assert.equal(reply.headers['x-content-type-options'], 'nosniff')
        assert.equal(reply.headers['content-length'], String(Buffer.byteLength(body)))
      }
    })
  }

  it('include /metrics in the format of Prometheus', async () => {
    const bench = await open()
    await bench.servers.start(atOnce)
    const { status, headers, body } = await ask(bench.metrics, { path: '/metrics' })
    assert.equal(status, 200)
    assert.match(headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/u)
    assert.match(body, /^# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram$/mu)
  })

  it('include /metrics/slis, which DELETE resets', async () => {
    const bench = await open()
    await bench.servers.start(atOnce)
    const path = '/metrics/slis'
    const samples = async (): Promise<readonly string[]> => {
      const { headers, body } = await ask(bench.metrics, { path })
      assert.match(headers['content-type'] ?? '', /^text\/plain; version=0\.0\.4/u)
      return body.split('\n').filter((line) => line.startsWith('kubernetes_'))
    }
    assert.deepEqual(await samples(), [])
    for (const check of ['/healthz', '/healthz?verbose', '/healthz/ping'])
      await ask(bench.metrics, { path: check })
    assert.deepEqual(await samples(), [
      'kubernetes_healthcheck{name="ping",type="healthz"} 1',
      'kubernetes_healthchecks_total{name="ping",type="healthz",status="success"} 2',
    ])
    assert.deepEqual(
      [await ask(bench.metrics, { path, method: 'DELETE' })].map(({ status, body }) => [status, body]),
      [[200, 'metrics reset\n']],
    )
    assert.deepEqual(await samples(), [])
  })

  const accepts = [
    {
      accept: 'application/json;v=v1alpha1;g=config.k8s.io;as=Statusz',
      version: 'v1alpha1',
      warns: '299 - "This version of the statusz endpoint is deprecated. Please use a newer version."',
    },
    { accept: 'text/html, application/json;as=Statusz;v=v1beta1;g=config.k8s.io', version: 'v1beta1' },
  ]
  for (const { accept, version, warns } of accepts) {
    it(`include /statusz as an object for ${accept}`, async () => {
      const bench = await open()
      await bench.servers.start(atOnce)
      const reply = await ask(bench.metrics, { path: '/statusz', headers: { accept } })
      assert.equal(reply.headers['warning'], warns)
      const type = `application/json;g=config.k8s.io;v=${version};as=Statusz`
      assert.equal(reply.headers['content-type'], type)
      assert.deepEqual(JSON.parse(reply.body), {
        kind: 'Statusz',
        apiVersion: `config.k8s.io/${version}`,
        metadata: { name: 'kube-proxy' },
        startTime: '2023-11-14T21:11:17Z',
        uptimeSeconds: 3723,
        goVersion: process.version,
        binaryVersion: '1.2.3',
        emulationVersion: '1.2.3',
        paths: [
          '/configz',
          '/flagz',
          '/healthz',
          '/healthz/ping',
          '/metrics',
          '/metrics/slis',
          '/proxyMode',
          '/statusz',
        ],
      })
    })
  }

  it('include /flagz as an object, and reply 406 to other types', async () => {
    const bench = await open()
    await bench.servers.start(atOnce)
    const get = async (accept: string): Promise<HttpReply> =>
      await ask(bench.metrics, { path: '/flagz', headers: { accept } })
    const { body } = await get('application/json;v=v1beta1;g=config.k8s.io;as=Flagz')
    assert.deepEqual(Object(JSON.parse(body)).flags, { 'proxy-mode': 'ipvs', v: '2' })
    assert.equal((await get('application/json')).status, 406)
    assert.equal((await get('application/json;v=v1beta1;g=config.k8s.io;as=Statusz')).status, 406)
    assert.equal((await get('text/plain;q=0.9')).status, 200)
  })

  it('include /flagz as YAML', async () => {
    const bench = await open()
    await bench.servers.start(atOnce)
    const accept = 'application/yaml;v=v1beta1;g=config.k8s.io;as=Flagz'
    const { headers, body } = await ask(bench.metrics, { path: '/flagz', headers: { accept } })
    assert.equal(headers['content-type'], 'application/yaml;g=config.k8s.io;v=v1beta1;as=Flagz')
    assert.equal(
      body,
      "apiVersion: config.k8s.io/v1beta1\nflags:\n  proxy-mode: ipvs\n  v: '2'\nkind: Flagz\nmetadata:\n  name: kube-proxy\n",
    )
  })

  it('reply 500 when a page fails, and log the error once', async () => {
    const bench = await open({
      configuration: () => {
        throw new Error('no configuration')
      },
    })
    await bench.servers.start(atOnce)
    for (let i = 0; i < 3; i++) assert.equal((await ask(bench.metrics, { path: '/configz' })).status, 500)
    assert.deepEqual(
      bench.log.find('error', '').map(({ message }) => message),
      ['Page failed: /configz: no configuration'],
    )
  })
})

describe('a check that is written by hand gets the page', () => {
  const cookie = `Cookie: ${'x'.repeat(9000)}\r\n`
  const requests = [
    ['with lines that end with LF', 'GET /proxyMode HTTP/1.1\nHost: a\nConnection: close\n\n'],
    ['with LF and without headers', 'GET /proxyMode HTTP/1.0\n\n'],
    ['with an absolute URI', 'GET http://a:10249/proxyMode HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'],
    ['with an absolute URI and parameters', 'GET http://a/proxyMode?x=1 HTTP/1.0\r\n\r\n'],
    ['with headers of 9 KB', `GET /proxyMode HTTP/1.0\r\n${cookie}\r\n`],
  ] as const
  for (const [name, words] of requests) {
    it(name, async () => {
      const bench = await open()
      await bench.servers.start(atOnce)
      const socket = await connected(bench.metrics)
      socket.write(words)
      assert.match(await readUntil(socket, undefined), /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\nipvs$/u)
    })
  }

  it('but not with lines that end with CR alone, at which no turn ends', async () => {
    // With Node's lenient parser, 700 requests in one buffer were replied to in one turn of the event loop.
    const bench = await open()
    await bench.servers.start(atOnce)
    const socket = await connected(bench.metrics)
    socket.write('GET /proxyMode HTTP/1.1\rHost:\r\r'.repeat(700))
    assert.match(await readUntil(socket, undefined), /^HTTP\/1\.1 400 Bad Request\r\n(?:[^]*\r\n)?\r\n$/u)
  })

  it('for each of several requests with LF in one buffer', async () => {
    const bench = await open()
    await bench.servers.start(atOnce)
    const socket = await connected(bench.metrics)
    socket.write('GET /proxyMode HTTP/1.1\nHost: a\n\nGET /healthz HTTP/1.0\n\n')
    const replies = await readUntil(socket, undefined)
    assert.deepEqual(replies.match(/(?<=\r\n\r\n)(?:ipvs|ok)/gu), ['ipvs', 'ok'])
  })
})

describe("the agent's servers", () => {
  it("reply 404 to unknown paths, with Go's text", async () => {
    const bench = await open()
    await bench.servers.start(atOnce)
    const places = [
      [bench.healthz, '/'],
      [bench.healthz, '/healthz/'],
      [bench.healthz, '/metrics'],
      [bench.healthz, '//%zz?%'],
      [bench.metrics, '/'],
      [bench.metrics, '/livez'],
      [bench.metrics, '/debug/pprof'],
      [bench.metrics, '/debug/pprof/'],
      [bench.metrics, '/debug/pprof/heap'],
      [bench.metrics, '/debug/flags/v'],
    ] as const
    for (const [port, path] of places) {
      const { status, headers, body } = await ask(port, { path })
      assert.deepEqual([status, body], [404, '404 page not found\n'], path)
      assert.equal(headers['content-type'], 'text/plain; charset=utf-8')
    }
  })

  it('wait for the first sync, at most for one second', async () => {
    const bench = await open()
    const started = bench.servers.start(never)
    await bench.clock.advance(999)
    await assertRefused(bench.healthz)
    await bench.clock.advance(1)
    await started
    assert.equal((await ask(bench.healthz, { path: '/livez' })).status, 200)
    const quick = await open()
    await quick.servers.start(atOnce)
    assert.equal(quick.clock.pending, 0)
    assert.equal((await ask(quick.metrics, { path: '/proxyMode' })).status, 200)
  })

  it('are only the configured ones', async () => {
    const bench = await open({}, { healthzBindAddress: undefined })
    await bench.servers.start(atOnce)
    await assertRefused(bench.healthz)
    assert.equal((await ask(bench.metrics, { path: '/proxyMode' })).status, 200)
  })

  it('start independently when one cannot listen', async () => {
    const other = await occupy()
    const bench = await open({}, { healthzBindAddress: { host: ip('127.0.0.1'), port: other.port } })
    await bench.servers.start(atOnce)
    assert.equal((await ask(bench.metrics, { path: '/proxyMode' })).status, 200)
    assert.match(
      bench.log.find('error', 'Server cannot listen: healthz server')[0]?.message ?? '',
      /EADDRINUSE/u,
    )
    await close(other.server)
    await bench.clock.advance(5000)
    await until(() => bench.log.find('info', 'Server listens now').length === 1)
    assert.equal((await ask(other.port, { path: '/livez' })).status, 200)
  })

  it('end the agent with bindAddressHardFail when one cannot listen', async () => {
    const other = await occupy()
    const metricsBindAddress = { host: ip('127.0.0.1'), port: other.port }
    const bench = await open({}, { metricsBindAddress, bindAddressHardFail: true })
    await assert.rejects(bench.servers.start(atOnce), { name: 'ConfigError', path: 'metrics-bind-address' })
    assert.deepEqual(bench.events, [
      {
        type: 'Warning',
        reason: 'FailedToStartMetricServer',
        action: 'StartKubeProxy',
        regarding: { apiVersion: 'v1', kind: 'Node', name: 'node-a' },
        note: `listen EADDRINUSE: address already in use 127.0.0.1:${other.port}`,
      },
    ])
    await close(other.server)
  })

  it('do not open after a stop', async () => {
    const bench = await open()
    const started = bench.servers.start(never)
    await bench.servers.stop()
    await started
    await assertRefused(bench.healthz)
    assert.equal(bench.clock.pending, 0)
  })
})

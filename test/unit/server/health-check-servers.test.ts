// Real sockets on loopback.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { afterEach, describe, it } from 'node:test'
import type { HealthCheck } from '../../../src/model/index.js'
import { HealthCheckServers } from '../../../src/server/index.js'
import { type HealthCheckOptions } from '../../../src/server/testing.js'
import { ask, assertRefused, close, connected, freePort, occupy, readUntil } from '../../support/http.js'
import { ManualClock } from '../../support/manual-clock.js'
import { ip } from '../../support/routes.js'

const loopback = [ip('127.0.0.1')]
const opened: { stop(): Promise<unknown> }[] = []

afterEach(async () => {
  for (const one of opened.splice(0)) await one.stop()
})

function open(options: Partial<HealthCheckOptions> = {}): HealthCheckServers {
  const servers = new HealthCheckServers({
    family: 'ipv4',
    nodeName: 'node-a',
    isHealthy: () => true,
    clock: new ManualClock(),
    ...options,
  })
  opened.push(servers)
  return servers
}

function checks(
  ...entries: readonly (readonly [string, number, number])[]
): ReadonlyMap<string, HealthCheck> {
  return new Map(
    entries.map(([name, port, localEndpoints]) => [
      `default/${name}`,
      { namespace: 'default', name, port, localEndpoints },
    ]),
  )
}

describe('the reply of a health check', () => {
  it("has the same bytes as kube-proxy's", async () => {
    const servers = open()
    const port = await freePort()
    assert.deepEqual(await servers.sync(checks(['web', port, 2]), loopback), [])
    const { status, headers, body } = await ask(port)
    assert.equal(status, 200)
    assert.equal(
      body,
      '{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}',
    )
    assert.equal(headers['content-type'], 'application/json')
    assert.equal(headers['x-content-type-options'], 'nosniff')
    assert.equal(headers['x-load-balancing-endpoint-weight'], '2')
    assert.equal(headers['content-length'], String(body.length))
  })

  const cases = [
    { name: 'local endpoints', localEndpoints: 1, isHealthy: true, status: 200 },
    { name: 'no local endpoint', localEndpoints: 0, isHealthy: true, status: 503 },
    { name: 'an unhealthy data plane', localEndpoints: 1, isHealthy: false, status: 503 },
  ]
  for (const { name, localEndpoints, isHealthy, status } of cases) {
    it(`is ${status} with ${name}`, async () => {
      const servers = open({ isHealthy: () => isHealthy })
      const port = await freePort()
      await servers.sync(checks(['web', port, localEndpoints]), loopback)
      const reply = await ask(port)
      assert.equal(reply.status, status)
      assert.match(reply.body, new RegExp(`"localEndpoints": ${localEndpoints},`, 'u'))
      assert.match(reply.body, new RegExp(`"serviceProxyHealthy": ${isHealthy}\n`, 'u'))
    })
  }

  it('is the same for every path and method', async () => {
    const servers = open()
    const port = await freePort()
    await servers.sync(checks(['web', port, 1]), loopback)
    const { body } = await ask(port)
    assert.equal((await ask(port, { path: '/any/where?x=1', method: 'POST' })).body, body)
    const head = await ask(port, { method: 'HEAD' })
    assert.deepEqual([head.status, head.body], [200, ''])
  })

  it('is empty with status 200 for a Service that was deleted during the request', async () => {
    const servers = open()
    const port = await freePort()
    await servers.sync(checks(['web', port, 1]), loopback)
    const client = await connected(port)
    // One write, so that the second request has arrived before the first reply.
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /later HTTP/1.1\r\n')
    await readUntil(client, 'serviceProxyHealthy": true\n}')
    await servers.sync(checks(), loopback)
    client.write('Host: a\r\n\r\n')
    const rest = await readUntil(client, undefined)
    assert.match(rest, /^HTTP\/1\.1 200 OK\r\n/u)
    assert.match(rest, /\r\nContent-Length: 0\r\n/u)
    assert.ok(rest.endsWith('\r\n\r\n'))
  })
})

describe('the listeners of health checks', () => {
  it('open, move and close with their Services; the others stay unchanged', async () => {
    const servers = open()
    const [first, second, third] = [await freePort(), await freePort(), await freePort()]
    await servers.sync(checks(['a', first, 1], ['b', second, 1]), loopback)
    const held = await connected(first)
    held.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await readUntil(held, '}')
    await servers.sync(checks(['a', first, 5], ['b', third, 0]), loopback)
    held.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    assert.match(await readUntil(held, undefined), /"localEndpoints": 5,/u, 'a kept its connection')
    await assertRefused(second)
    assert.equal((await ask(third)).status, 503)
    await servers.sync(checks(), loopback)
    await assertRefused(first)
    await assertRefused(third)
  })

  it('move a port from one Service to another in one sync', async () => {
    const servers = open()
    const [first, second] = [await freePort(), await freePort()]
    await servers.sync(checks(['a', first, 1], ['b', second, 2]), loopback)
    assert.deepEqual(await servers.sync(checks(['a', second, 1], ['b', first, 2]), loopback), [])
    assert.match((await ask(second)).body, /"name": "a"/u)
    assert.match((await ask(first)).body, /"name": "b"/u)
  })

  it('follow changes of the addresses', async () => {
    const servers = open()
    const port = await freePort()
    const other = { host: '127.0.0.2' }
    await servers.sync(checks(['a', port, 1]), [ip('127.0.0.1'), ip('127.0.0.2')])
    assert.equal((await ask(port, other)).status, 200)
    await servers.sync(checks(['a', port, 1]), loopback)
    await assert.rejects(ask(port, other), { code: 'ECONNREFUSED' })
    await servers.sync(checks(['a', port, 1]), 'all')
    assert.equal((await ask(port, { host: '127.0.0.3' })).status, 200)
  })

  it('report a port in use, open no listener of that Service, and retry', async () => {
    const servers = open()
    const { port, server } = await occupy()
    const free = await freePort()
    const desired = checks(['a', port, 1], ['b', free, 1])
    const addresses = [ip('127.0.0.2'), ip('127.0.0.1')]
    const [failure, ...others] = await servers.sync(desired, addresses)
    assert.deepEqual(others, [])
    assert.equal(failure?.service, 'default/a')
    const { note, ...event } = failure.event
    assert.deepEqual(event, {
      type: 'Warning',
      reason: 'FailedToStartServiceHealthcheck',
      action: 'Listen',
      regarding: { apiVersion: 'v1', kind: 'Service', namespace: 'default', name: 'a' },
    })
    assert.match(
      note,
      new RegExp(`^node node-a failed to start healthcheck "default/a" on port ${port}: .*EADDRINUSE`, 'u'),
    )
    await assert.rejects(ask(port, { host: '127.0.0.2' }), { code: 'ECONNREFUSED' })
    assert.equal((await ask(free)).status, 200)
    assert.equal((await servers.sync(desired, addresses)).length, 1, 'still in use')
    await close(server)
    assert.deepEqual(await servers.sync(desired, addresses), [])
    assert.equal((await ask(port)).status, 200)
  })

  it('may use one port number in both families', async () => {
    const [ipv4, ipv6] = [open(), open({ family: 'ipv6' })]
    const port = await freePort()
    assert.deepEqual(await ipv4.sync(checks(['a', port, 4]), 'all'), [])
    assert.deepEqual(await ipv6.sync(checks(['a', port, 6]), 'all'), [])
    assert.match((await ask(port)).body, /"localEndpoints": 4,/u)
    assert.match((await ask(port, { host: '::1' })).body, /"localEndpoints": 6,/u)
  })

  it('close with their connections on stop, also on a second stop', async () => {
    const servers = open()
    const port = await freePort()
    await servers.sync(checks(['a', port, 1]), loopback)
    const held = await connected(port)
    held.resume()
    const ended = once(held, 'close')
    await servers.stop()
    await ended
    await servers.stop()
    await assertRefused(port)
    await servers.sync(checks(['a', port, 1]), loopback)
    await assertRefused(port)
  })
})

// Issue 35, D4 with D1, and issue 43, C3. Before, over HTTP/1.1, a watch that was quiet for 90 to 120 s was opened again, and so long did
// it take to notice a connection that a load balancer on another machine keeps open though the server behind it is gone.
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { trustedWithoutAuthority, type ClientOptions } from '../../../../src/api/client-options.js'
import { apiService } from '../../../support/api-documents.js'
import { makeCertificate } from '../../../support/certificates.js'
import type { FakeApiOptions } from '../../../support/fake-api-server.js'
import { until } from '../../../support/http.js'
import { delays, KubernetesLab } from '../../../support/kubernetes-lab.js'
import { StallingRelay } from '../../../support/stalling-relay.js'

const certificate = makeCertificate()
const login = { headers: {}, tls: { ca: certificate.cert }, trusted: trustedWithoutAuthority }
const kinds = ['Service', 'EndpointSlice', 'Node'] as const

let lab: KubernetesLab
let relay: StallingRelay | undefined

afterEach(async () => {
  relay?.close()
  relay = undefined
  await lab.close()
})

/** Starts a source on a server over TLS, and waits until it follows its watches. */
async function follow(options: FakeApiOptions = {}, client: Partial<ClientOptions> = {}): Promise<void> {
  lab = new KubernetesLab({ certificate, ...options })
  await lab.server.listen()
  const listed = lab.open({ login: async () => await Promise.resolve(login), ...client })
  await listed
  await lab.untilFollowing()
  lab.events.length = 0
  lab.clock.pass(6000)
}

/** The same through a load balancer. */
async function followThroughRelay(): Promise<StallingRelay> {
  lab = new KubernetesLab({ certificate })
  await lab.server.listen()
  const opened = new StallingRelay(lab.server.port)
  relay = opened
  await opened.listen()
  await lab.open({
    server: new URL(`https://127.0.0.1:${opened.port}`),
    login: async () => await Promise.resolve(login),
  })
  await lab.untilFollowing()
  lab.events.length = 0
  return opened
}

/** Puts a Service into the store, and waits until the source has delivered it. */
async function change(name: string): Promise<void> {
  lab.server.store.put('Service', apiService(name, '10.96.0.7'))
  await lab.untilEvent(`+Service default/${name} 10.96.0.7`)
}

describe('HTTP/2', () => {
  it('carries all watches and lists over one connection', async () => {
    await follow({ streamedLists: 'old' })
    assert.equal(lab.server.openSessions, 1)
    assert.equal(lab.server.openConnections.length, 1)
  })

  it('does not open a quiet watch again', async () => {
    await follow()
    const before = lab.server.requests.length
    const endMs = lab.clock.now() + 290_000
    await lab.passUntil(endMs)
    assert.deepEqual(lab.server.requests.slice(before), [])
    assert.equal(lab.server.openSessions, 1)
    await change('late')
  })

  it('notices within 45 s that nothing comes through a connection, and follows over a new one', async () => {
    const balancer = await followThroughRelay()
    balancer.stall()
    lab.server.store.put('Service', apiService('hidden', '10.96.0.2'))
    const beganMs = lab.clock.now()
    await lab.fire(delays.ping)
    await lab.fire(delays.pong)
    await lab.untilEvent('+Service default/hidden 10.96.0.2')
    assert.ok(lab.clock.now() - beganMs < 45_000, `${lab.clock.now() - beganMs} ms`)
    const reopened = /^Watch is opened again \(.*: no answer to a PING within 15 s\)$/u
    assert.equal(lab.log.filter((line) => reopened.test(line)).length, 3, lab.log.join('\n'))
    await until(() => balancer.openConnections === 1)
  })

  it('fails all requests of a connection that breaks, and opens one for all again', async () => {
    await follow()
    await lab.breakLinks(() => lab.server.dropConnections())
    await lab.passUntilFollowing()
    assert.equal(lab.server.openSessions, 1)
    assert.ok(
      lab.log.every((line) => line.startsWith('Watch is opened again (')),
      lab.log.join('\n'),
    )
    await change('late')
  })

  it('follows a server that is restarted', async () => {
    await follow()
    const { port } = lab.server
    await lab.breakLinks(() => lab.server.close())
    await lab.passUntil(lab.clock.now() + 10_000)
    assert.match(lab.log.join('\n'), /link: Service: GET \/api\/v1\/services: connect ECONNREFUSED/u)
    await lab.server.listen(port)
    await lab.passUntilFollowing()
    await change('late')
  })

  it('sends further requests over a new connection after a GOAWAY, while its watches go on', async () => {
    await follow()
    lab.server.goAway()
    await change('a')
    assert.equal(lab.server.openSessions, 1)
    lab.server.endWatches('Service')
    await lab.untilRequest('Service watch from 6')
    await lab.untilFollowing()
    assert.equal(lab.server.openSessions, 2)
    await change('b')
    for (const kind of ['EndpointSlice', 'Node'] as const) lab.server.endWatches(kind)
    await lab.until(() => lab.server.openSessions === 1)
    await lab.untilFollowing()
    assert.deepEqual(lab.log, [])
  })

  it('opens another connection where the server permits fewer requests on one', async () => {
    await follow({ maxConcurrentStreams: 2 })
    assert.equal(lab.server.openSessions, 2)
    assert.deepEqual(lab.log, [])
    await change('late')
  })

  it('asks over a new connection while the answer to a request is overdue', async () => {
    await follow()
    lab.server.setFault('Service', { type: 'silence' })
    lab.server.endWatches('Service')
    await lab.untilRequest('Service check from 5')
    await lab.fire(delays.answer)
    await lab.untilLogged(/link: Service: .*no answer within 10 s/u)
    lab.server.setFault('Service', undefined)
    // The first connection answers its PING, and stays for the others.
    await lab.until(() => lab.clock.count(delays.pong) === 0)
    await lab.fire(delays.first)
    await lab.untilFollowing()
    await change('late')
  })

  it('ends a streamed list that does not continue, and reads pages', async () => {
    lab = new KubernetesLab({ certificate, streamedLists: 'stuck' })
    await lab.server.listen()
    const listed = lab.open({ login: async () => await Promise.resolve(login) })
    await lab.fire(90_000, 3)
    await lab.untilLogged(/link: Service: .*nothing came for 90 s/u)
    await lab.fire(delays.first, 3)
    await listed
    assert.ok(lab.server.requests.includes('Service list'))
  })
})

describe('HTTP/1.1 over TLS', () => {
  const cases: { name: string; options: FakeApiOptions; client: Partial<ClientOptions> }[] = [
    { name: 'a server that does not offer HTTP/2', options: { isHttp1Only: true }, client: {} },
    { name: 'settings that forbid HTTP/2', options: {}, client: { mayUseHttp2: false } },
  ]
  for (const { name, options, client } of cases) {
    it(`is used with ${name}: one connection for each watch, opened again if silent`, async () => {
      await follow(options, client)
      assert.equal(lab.server.openSessions, 0)
      assert.equal(lab.server.openConnections.length, kinds.length)
      await lab.fire(delays.silence, 3)
      await lab.untilFollowing()
      assert.equal(lab.server.requests.filter((request) => request.includes(' watch from ')).length, 3)
    })
  }

  it('is left when the server offers HTTP/2 after a restart', async () => {
    await follow({ isHttp1Only: true })
    const { port, store } = lab.server
    await lab.breakLinks(() => lab.server.close())
    lab.server.options = { certificate }
    await lab.server.listen(port)
    store.put('Service', apiService('late', '10.96.0.2'))
    await lab.passUntilFollowing()
    await lab.untilEvent('+Service default/late 10.96.0.2')
    assert.equal(lab.server.openSessions, 1)
  })
})

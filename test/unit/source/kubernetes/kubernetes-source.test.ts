import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { apiNode, apiService, apiSlice } from '../../../support/api-documents.js'
import { jsonWriter, protobufWriter } from '../../../support/api-writer.js'
import { makeCertificate } from '../../../support/certificates.js'
import type { FakeApiOptions } from '../../../support/fake-api-server.js'
import { delays, KubernetesLab } from '../../../support/kubernetes-lab.js'

let lab: KubernetesLab

afterEach(async () => await lab.close())

const world = ['+EndpointSlice default/web-1', '+Node /node-a', '+Service default/web 10.96.0.1']

const ways: { name: string; options: FakeApiOptions; verbs: string[] }[] = [
  { name: 'streamed lists', options: {}, verbs: ['stream'] },
  {
    name: 'pages, if the server does not know streamed lists',
    options: { streamedLists: 'old' },
    verbs: ['stream', 'list', 'watch from 5'],
  },
  {
    name: 'pages, if the server refuses streamed lists after status 200',
    options: { streamedLists: 'late' },
    verbs: ['stream', 'list', 'watch from 5'],
  },
]
const encodings = [
  { name: 'protobuf', writer: protobufWriter },
  { name: 'JSON', writer: jsonWriter },
]

describe('KubernetesSource: first listing', () => {
  for (const { name, options, verbs } of ways) {
    for (const { name: encoding, writer } of encodings) {
      it(`delivers all objects, then synced: ${name}, ${encoding}`, async () => {
        lab = new KubernetesLab({ ...options, writer })
        await lab.start()
        assert.equal(lab.events.pop(), 'synced')
        assert.deepEqual(lab.events.toSorted(), world)
        await lab.untilFollowing()
        for (const kind of ['Service', 'EndpointSlice', 'Node']) {
          assert.deepEqual(
            lab.server.requests.filter((request) => request.startsWith(`${kind} `)),
            verbs.map((verb) => `${kind} ${verb}`),
          )
        }
        assert.deepEqual(
          lab.log,
          verbs.length === 1 ? [] : lab.log.filter((line) => line.includes('does not stream lists')),
        )
      })
    }
  }

  it('names the other end of its connections once, before the objects', async () => {
    lab = new KubernetesLab()
    await lab.start()
    await lab.untilFollowing()
    assert.deepEqual(
      lab.connections.map(({ address, port, after }) => ({ address, port, after })),
      [{ address: '127.0.0.1', port: lab.server.port, after: 0 }],
    )
  })

  it('names another end of its connections as soon as a quiet watch is open there', async () => {
    lab = new KubernetesLab()
    await lab.server.listen()
    const server = new URL(lab.server.url)
    await lab.open({ server })
    await lab.untilFollowing()
    const former = lab.server.port
    const after = lab.events.length
    lab.clock.pass(6000)
    const asked = lab.server.requests.length
    await lab.breakLinks(async () => await lab.server.close())
    await lab.server.listen()
    server.port = String(lab.server.port)
    await lab.passUntilFollowing()
    assert.deepEqual(
      lab.connections.map(({ port }) => port),
      [former, lab.server.port],
    )
    assert.equal(lab.events.length, after)
    const lists = lab.server.requests.slice(asked).filter((request) => / (?:list|stream)/u.test(request))
    assert.deepEqual(lists, [])
  })

  it("requests watches with kube-proxy's selectors, bookmarks, and a time limit", async () => {
    lab = new KubernetesLab()
    await lab.start()
    const asked = lab.server.queries.map((query) => Object.fromEntries(query))
    const streamed = {
      watch: 'true',
      allowWatchBookmarks: 'true',
      timeoutSeconds: '300',
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
    }
    assert.deepEqual(
      asked.toSorted((a, b) => Object.keys(b).length - Object.keys(a).length),
      [
        {
          labelSelector: '!service.kubernetes.io/service-proxy-name',
          fieldSelector: 'spec.clusterIP!=None',
          ...streamed,
        },
        { labelSelector: '!service.kubernetes.io/headless', ...streamed },
        { fieldSelector: 'metadata.name=node-a', ...streamed },
      ],
    )
  })

  it('reads pages of 500, gzipped', async () => {
    lab = new KubernetesLab({ streamedLists: 'old', gzip: true, hasWatchCache: false })
    for (let i = 0; i < 1100; i++)
      lab.server.store.put('Service', apiService(`s${i}`, `10.97.${i >> 8}.${i & 255}`))
    await lab.start()
    assert.equal(lab.events.filter((event) => event.startsWith('+Service')).length, 1101)
    assert.deepEqual(
      lab.server.requests.filter((request) => request.startsWith('Service list')),
      ['Service list', 'Service list from 500', 'Service list from 1000'],
    )
    assert.ok(lab.server.queries.some((query) => query.get('limit') === '500'))
  })

  it('reads one list of each kind from the memory of the server', async () => {
    lab = new KubernetesLab({ streamedLists: 'old' })
    for (let i = 0; i < 1100; i++)
      lab.server.store.put('Service', apiService(`s${i}`, `10.97.${i >> 8}.${i & 255}`))
    await lab.start()
    assert.equal(lab.events.filter((event) => event.startsWith('+Service')).length, 1101)
    const lists = lab.server.queries.filter((query) => query.get('watch') === null)
    assert.deepEqual(
      lists.map((query) => query.get('resourceVersion')),
      ['0', '0', '0'],
    )
  })

  it('delivers synced once, after all kinds are listed', async () => {
    lab = new KubernetesLab()
    await lab.server.listen()
    lab.server.setFault('Node', { type: 'status', status: { code: 500 } })
    const listed = lab.open()
    await lab.untilEvent('+Service default/web 10.96.0.1')
    await lab.fire(delays.first)
    await lab.fire(delays.second)
    await lab.until(() => lab.clock.count(delays.third) > 0)
    assert.ok(!lab.events.includes('synced'))
    lab.server.setFault('Node', undefined)
    await lab.fire(delays.third)
    await listed
    assert.deepEqual(lab.events.slice(-2), ['+Node /node-a', 'synced'])
    await lab.untilFollowing()
    lab.clock.pass(6000)
    lab.server.store.compact()
    await lab.breakLinks(() => lab.server.dropConnections())
    await lab.passUntilFollowing()
    assert.equal(lab.events.filter((event) => event === 'synced').length, 1)
  })

  it('reports an invalid object and delivers the others', async () => {
    lab = new KubernetesLab()
    lab.server.store.put('Service', apiService('bad', '10.96.0.300'))
    await lab.start()
    assert.deepEqual(lab.events.slice(0, -1).toSorted(), world)
    assert.match(lab.log.join(), /^object: Service default\/bad: spec\.clusterIP: must be an IP address/u)
    lab.server.store.put('Service', apiService('bad', '10.96.0.3'))
    await lab.untilEvent('+Service default/bad 10.96.0.3')
  })
})

describe('KubernetesSource: changes', () => {
  for (const { name, writer } of encodings) {
    it(`follows additions, changes and deletions: ${name}`, async () => {
      lab = new KubernetesLab({ writer })
      await lab.start()
      lab.events.length = 0
      const { store } = lab.server
      store.put('Service', apiService('api', '10.96.0.2'))
      assert.deepEqual(await lab.untilEvent('+Service default/api 10.96.0.2'), [
        '+Service default/api 10.96.0.2',
      ])
      store.put('Service', apiService('api', '10.96.0.3'))
      assert.deepEqual(await lab.untilEvent('+Service default/api 10.96.0.3'), [
        '+Service default/api 10.96.0.3',
      ])
      store.remove('Service', 'default/api')
      assert.deepEqual(await lab.untilEvent('-Service default/api'), ['-Service default/api'])
      store.put('EndpointSlice', apiSlice('web-1', 'web', []))
      assert.deepEqual(await lab.untilEvent('+EndpointSlice default/web-1'), ['+EndpointSlice default/web-1'])
      store.put('Node', apiNode('node-b', '10.244.9.0/24'))
      store.put('Node', apiNode('node-a', '10.244.9.0/24'))
      assert.deepEqual(await lab.untilEvent('+Node /node-a'), ['+Node /node-a'])
    })
  }

  it('delivers a deletion for an object that no longer matches the selectors', async () => {
    lab = new KubernetesLab()
    await lab.start()
    lab.events.length = 0
    const labels = { 'service.kubernetes.io/service-proxy-name': 'other' }
    const { metadata, ...rest } = apiService('web', '10.96.0.1')
    lab.server.store.put('Service', { ...rest, metadata: { ...Object(metadata), labels } })
    assert.deepEqual(await lab.untilEvent('-Service default/web'), ['-Service default/web'])
  })

  it('resumes from the last event or bookmark', async () => {
    lab = new KubernetesLab()
    await lab.start()
    lab.server.store.put('Service', apiService('api', '10.96.0.2'))
    await lab.untilEvent('+Service default/api 10.96.0.2')
    lab.server.store.put('Node', apiNode('node-a', '10.1.0.0/24'))
    await lab.untilEvent('+Node /node-a')
    lab.server.sendBookmark('Service')
    lab.server.sendEvent('MODIFIED', 'Service', apiService('bad', 'x'), 'Service')
    await lab.untilLogged(/Service default\/bad/u)
    lab.clock.pass(6000)
    lab.server.endWatches('Service')
    await lab.untilRequest('Service watch from 7')
    assert.equal(lab.clock.count(delays.first), 0, 'a watch that ended in good order is opened again at once')
  })

  it('keeps the state of an object that becomes invalid', async () => {
    lab = new KubernetesLab()
    await lab.start()
    lab.events.length = 0
    lab.server.store.put('Service', apiService('web', 'nowhere'))
    await lab.untilLogged(/object: Service default\/web: spec\.clusterIP/u)
    await lab.untilFollowing()
    lab.clock.pass(6000)
    lab.server.store.compact()
    await lab.breakLinks(() => lab.server.dropConnections())
    await lab.passUntilFollowing()
    lab.server.store.put('Service', apiService('web', '10.96.0.7'))
    assert.deepEqual(await lab.untilEvent('+Service default/web 10.96.0.7'), [
      '+Service default/web 10.96.0.7',
    ])
  })
})

describe('KubernetesSource: stop', () => {
  it('ends open watches, and delivers no further events', async () => {
    lab = new KubernetesLab()
    await lab.start()
    lab.events.length = 0
    lab.server.store.put('Service', apiService('late', '10.96.0.9'))
    await lab.stop()
    lab.server.store.put('Service', apiService('later', '10.96.0.10'))
    await lab.until(() => lab.server.openWatches === 0)
    assert.deepEqual(lab.events, [])
    assert.equal(lab.clock.armed, 0)
    await lab.stop()
  })

  const moments: {
    name: string
    prepare: (fresh: KubernetesLab) => void
    reached: (open: KubernetesLab) => boolean
  }[] = [
    {
      name: 'while the server is silent',
      prepare: (fresh) => fresh.server.setFault('Service', { type: 'silence' }),
      reached: (open) => open.server.requests.length >= 3,
    },
    {
      name: 'between two attempts',
      prepare: (fresh) => fresh.server.setFault('Service', { type: 'hang-up' }),
      reached: (open) => open.clock.count(delays.turn) > 0,
    },
  ]
  for (const { name, prepare, reached } of moments) {
    it(`ends a start ${name}`, async () => {
      lab = new KubernetesLab()
      await lab.server.listen()
      prepare(lab)
      const listed = lab.open()
      await lab.until(() => reached(lab))
      await lab.stop()
      await listed
      assert.equal(lab.clock.armed, 0)
      assert.ok(!lab.events.includes('synced'))
    })
  }

  it('prevents a later start', async () => {
    lab = new KubernetesLab()
    await lab.server.listen()
    const listed = lab.open()
    await lab.stop()
    await listed
    assert.deepEqual(lab.events, [])
  })
})

describe('KubernetesSource: TLS and tokens', () => {
  it('trusts the given CA, and sends the current token', async () => {
    const certificate = makeCertificate()
    lab = new KubernetesLab({ certificate, authorization: 'Bearer new' })
    await lab.server.listen()
    let token = 'old'
    const listed = lab.open({
      login: async () =>
        await Promise.resolve({
          headers: { authorization: `Bearer ${token}` },
          tls: { ca: certificate.cert },
          trusted: 'ours',
        }),
    })
    await lab.untilLogged(/link: Service: GET \/api\/v1\/services: 401 Unauthorized/u)
    token = 'new'
    await lab.fire(delays.first, 3)
    await listed
    assert.equal(lab.events.at(-1), 'synced')
  })

  it('continues after a wrong certificate is replaced', async () => {
    const [wrong, right] = [makeCertificate(), makeCertificate()]
    lab = new KubernetesLab({ certificate: wrong })
    await lab.server.listen()
    const login = { headers: {}, tls: { ca: right.cert }, trusted: 'ours' }
    const listed = lab.open({ login: async () => await Promise.resolve(login) })
    await lab.untilLogged(
      /link: Service: .*: the server's certificate is not trusted: self.signed.*; trusted: ours/u,
    )
    lab.server.useCertificate(right)
    await lab.passUntilFollowing()
    await listed
    assert.equal(lab.events.at(-1), 'synced')
    assert.ok(lab.log.includes('link: over'))
  })

  const unusable = [
    { name: 'a token that is invalid in a header', login: { headers: { authorization: 'a\nb' }, tls: {} } },
    { name: 'an invalid key', login: { headers: {}, tls: { key: 'nonsense' } } },
  ]
  for (const { name, login } of unusable) {
    it(`continues after ${name}`, async () => {
      const certificate = makeCertificate()
      lab = new KubernetesLab({ certificate })
      await lab.server.listen()
      const right = { headers: {}, tls: { ca: certificate.cert }, trusted: '' }
      let isRight = false
      const listed = lab.open({
        login: async () => await Promise.resolve(isRight ? right : { ...login, trusted: '' }),
      })
      await lab.untilLogged(/link: Service: GET \/api\/v1\/services: /u)
      isRight = true
      await lab.passUntilFollowing()
      await listed
      assert.equal(lab.events.at(-1), 'synced')
    })
  }

  it('continues when the credentials are available again', async () => {
    lab = new KubernetesLab()
    await lab.server.listen()
    let failure: Error | undefined = new Error('token cannot be read')
    const listed = lab.open({
      login: async () =>
        await (failure === undefined
          ? Promise.resolve({ headers: {}, tls: {}, trusted: '' })
          : Promise.reject(failure)),
    })
    await lab.untilLogged(/link: Service: .*token cannot be read/u)
    failure = undefined
    await lab.fire(delays.first, 3)
    await listed
    assert.equal(lab.events.at(-1), 'synced')
  })
})

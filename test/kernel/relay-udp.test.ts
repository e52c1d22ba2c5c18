// UDP flows of the relay, in the network namespace of this file.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ip } from '../contract/law.js'
import { deferred, plainSettings, RelayLab } from '../support/relay-lab.js'

/** The error that a new client gets from the kernel. */
async function refusal(lab: RelayLab): Promise<unknown> {
  const client = lab.openUdp()
  client.connect(8080, lab.address)
  await once(client, 'connect')
  const failed = new Promise<Error>((resolve) => void client.once('error', resolve))
  client.send('x')
  const error = await failed
  return 'code' in error ? error.code : error.message
}

const [ipv4, ipv6] = [ip('127.0.0.1'), ip('::1')]
const places = [
  [ipv4, ipv4],
  [ipv4, ip('0.0.0.0')],
  [ipv6, ipv6],
  [ipv6, ip('::')],
] as const

for (const [address, listensOn] of places) {
  describe(`relay udp ${address} by a listener on ${listensOn}`, { timeout: 30_000 }, () => {
    let lab: RelayLab
    beforeEach(async () => {
      lab = new RelayLab(address, address, listensOn)
      await lab.kernel.relay.configure(plainSettings)
    })
    afterEach(() => lab.close())
    const udp = { protocol: 'udp' } as const

    for (const size of [0, 1, 9000, 65_507])
      it(`carries datagrams of ${size} bytes, from the address of the listener`, async () => {
        await lab.listen({ clusterEndpoints: [(await lab.serveUdp()).endpoint] }, udp)
        const data = Buffer.alloc(size, 'q')
        const client = lab.openUdp()
        const answer = once(client, 'message')
        client.send(data, 8080, address)
        const [message, from]: unknown[] = await answer
        assert.ok(Buffer.isBuffer(message) && message.equals(data))
        assert.ok(typeof from === 'object' && from !== null && 'address' in from && 'port' in from)
        assert.deepEqual([from.address, from.port], [address, 8080])
      })

    it('a client keeps its endpoint, another one gets the next', async () => {
      const [a, b] = [await lab.serveUdp('a '), await lab.serveUdp('b ')]
      await lab.listen({ clusterEndpoints: [a.endpoint, b.endpoint] }, udp)
      const [one, two] = [lab.openUdp(), lab.openUdp()]
      const answers: string[] = []
      for (const client of [one, two, one, two]) answers.push(String(await lab.askUdp(client, 'x')))
      assert.deepEqual(answers, ['a x', 'b x', 'a x', 'b x'])
      const { flows, startedFlows } = await lab.counters()
      assert.deepEqual({ flows, startedFlows }, { flows: 2, startedFlows: 2 })
    })

    it('its own datagrams start no flow: an endpoint that is the frontend', async () => {
      await lab.listen({ clusterEndpoints: [{ address, port: 8080 }] }, udp)
      lab.openUdp().send('x', 8080, address)
      assert.equal((await lab.kernel.relay.nextConditions())?.hasLoop, true)
      assert.equal((await lab.counters()).startedFlows, 1)
    })

    it('a reply of a stranger to the socket of a flow is not relayed', async () => {
      const { endpoint, socket } = await lab.serveUdp()
      socket.removeAllListeners('message')
      await lab.listen({ clusterEndpoints: [endpoint] }, udp)
      const client = lab.openUdp()
      const asked = once(socket, 'message')
      client.send('x', 8080, address)
      const [, relay]: unknown[] = await asked
      assert.ok(
        typeof relay === 'object' && relay !== null && 'port' in relay && typeof relay.port === 'number',
      )
      const { port } = relay
      const answer = once(client, 'message')
      const stranger = lab.openUdp()
      await new Promise((resolve) => stranger.send('forged', port, address, resolve))
      socket.send('true', port, address)
      const [message]: unknown[] = await answer
      assert.equal(String(message), 'true')
      // The relay counts a datagram after it has sent it.
      await lab.until(({ sentBytes }) => sentBytes > 0)
      assert.equal((await lab.counters()).sentBytes, 4)
    })

    it('many datagrams at once arrive in order', async () => {
      const { endpoint, socket } = await lab.serveUdp()
      socket.removeAllListeners('message')
      const heard: string[] = []
      const { promise: all, resolve } = deferred<true>()
      socket.on('message', (data) => {
        heard.push(String(data))
        if (heard.length === 200) resolve(true)
      })
      await lab.listen({ clusterEndpoints: [endpoint] }, udp)
      const client = lab.openUdp()
      const words = Array.from({ length: 200 }, (_, i) => `word ${i}`)
      for (const word of words) client.send(word, 8080, address)
      await all
      assert.deepEqual(heard, words)
    })

    it('a flow ends after the idle time; the next datagram starts another one', async () => {
      await lab.kernel.relay.configure({ ...plainSettings, udpIdleMs: 300 })
      await lab.listen({ clusterEndpoints: [(await lab.serveUdp()).endpoint] }, udp)
      const client = lab.openUdp()
      await lab.askUdp(client, 'x')
      await lab.until(({ flows }) => flows === 0)
      await lab.askUdp(client, 'x')
      assert.equal((await lab.counters()).startedFlows, 2)
    })

    it('a shorter idle time ends the flows that exist', async () => {
      await lab.listen({ clusterEndpoints: [(await lab.serveUdp()).endpoint] }, udp)
      await lab.askUdp(lab.openUdp(), 'x')
      await lab.kernel.relay.configure({ ...plainSettings, udpIdleMs: 1 })
      await lab.until(({ flows }) => flows === 0)
    })

    it('flows to an endpoint that is gone end at once, others stay', async () => {
      const [a, b] = [await lab.serveUdp('a '), await lab.serveUdp('b ')]
      await lab.listen({ clusterEndpoints: [a.endpoint, b.endpoint] }, udp)
      const [one, two] = [lab.openUdp(), lab.openUdp()]
      await lab.askUdp(one, 'x')
      await lab.askUdp(two, 'x')
      await lab.listen({ clusterEndpoints: [b.endpoint] }, udp)
      assert.equal((await lab.counters()).flows, 1)
      assert.equal(String(await lab.askUdp(one, 'x')), 'b x')
      await lab.apply({ op: 'remove-listener', listener: lab.listener(udp) })
      assert.equal((await lab.counters()).flows, 0)
    })

    it('a flow stays with an endpoint that only keeps flows; new flows go elsewhere', async () => {
      const [leaving, next] = [await lab.serveUdp('leaving '), await lab.serveUdp('next ')]
      await lab.listen({ clusterEndpoints: [leaving.endpoint] }, udp)
      const [one, two] = [lab.openUdp(), lab.openUdp()]
      await lab.askUdp(one, 'x')
      const flowEndpoints = [leaving.endpoint, next.endpoint]
      await lab.listen({ clusterEndpoints: [next.endpoint], flowEndpoints }, udp)
      assert.equal(String(await lab.askUdp(one, 'x')), 'leaving x')
      assert.equal(String(await lab.askUdp(two, 'x')), 'next x')
      await lab.listen({ clusterEndpoints: [next.endpoint] }, udp)
      assert.equal((await lab.counters()).flows, 1)
      assert.equal(String(await lab.askUdp(one, 'x')), 'next x')
    })

    it('a listener that serves no client refuses new ones; its flows go on, also when it serves again', async () => {
      const [kept, next] = [await lab.serveUdp('kept '), await lab.serveUdp('next ')]
      const flowEndpoints = [kept.endpoint, next.endpoint]
      await lab.listen({ clusterEndpoints: [kept.endpoint] }, udp)
      const clients = [lab.openUdp(), lab.openUdp()]
      for (const client of clients) await lab.askUdp(client, 'x')
      for (const far of ['drop', 'refuse'] as const) {
        await lab.listen({ clusterEndpoints: [], flowEndpoints }, { ...udp, near: 'refuse', far })
        for (const client of clients) assert.equal(String(await lab.askUdp(client, 'y')), 'kept y')
        assert.equal(await refusal(lab), 'ECONNREFUSED')
        await lab.listen({ clusterEndpoints: [next.endpoint], flowEndpoints }, udp)
        for (const client of clients) assert.equal(String(await lab.askUdp(client, 'z')), 'kept z')
        assert.equal(String(await lab.askUdp(lab.openUdp(), 'z')), 'next z')
      }
      await lab.listen({ clusterEndpoints: [next.endpoint] }, udp)
      for (const client of clients) assert.equal(String(await lab.askUdp(client, 'z')), 'next z')
    })

    it('a listener that opens without a client to serve refuses, and no other program gets its port', async () => {
      const { endpoint } = await lab.serveUdp('a ')
      await lab.listen({ clusterEndpoints: [] }, { ...udp, near: 'refuse', far: 'refuse' })
      assert.equal(await refusal(lab), 'ECONNREFUSED')
      const stranger = createSocket({ type: address === ipv6 ? 'udp6' : 'udp4', reuseAddr: true })
      stranger.bind(8080, address)
      await assert.rejects(once(stranger, 'listening'), { code: 'EADDRINUSE' })
      stranger.close()
      await lab.listen({ clusterEndpoints: [endpoint] }, udp)
      assert.equal(String(await lab.askUdp(lab.openUdp(), 'x')), 'a x')
    })

    it('the flow of a client that the source ranges exclude now goes on', async () => {
      const { endpoint } = await lab.serveUdp('a ')
      await lab.listen({ clusterEndpoints: [endpoint] }, udp)
      const client = lab.openUdp()
      await lab.askUdp(client, 'x')
      await lab.listen({ clusterEndpoints: [endpoint] }, { ...udp, hasSourceRanges: true })
      assert.equal(String(await lab.askUdp(client, 'x')), 'a x')
    })

    it('a flow moves when its endpoint refuses', async () => {
      const gone = await lab.serveUdp('gone ')
      const alive = await lab.serveUdp('alive ')
      await lab.listen({ clusterEndpoints: [gone.endpoint, alive.endpoint], affinitySeconds: 10_800 }, udp)
      const client = lab.openUdp()
      assert.equal(String(await lab.askUdp(client, 'x')), 'gone x')
      lab.closeUdp(gone.socket)
      // The first datagram meets the closed port. The flow ends when the kernel reports it.
      client.send('lost', 8080, address)
      await lab.until(({ flows }) => flows === 0)
      assert.equal(String(await lab.askUdp(client, 'y')), 'alive y')
    })

    it('discards datagrams with hop limit 1, and keeps the flow of their client', async () => {
      await lab.listen({ clusterEndpoints: [(await lab.serveUdp('a ')).endpoint] }, udp)
      const client = lab.openUdp()
      assert.equal(String(await lab.askUdp(client, 'x')), 'a x')
      client.setTTL(1)
      client.send('lost', 8080, address)
      await lab.until(({ spentHops }) => spentHops === 1)
      client.setTTL(2)
      assert.equal(String(await lab.askUdp(client, 'y')), 'a y')
      const { flows, startedFlows, spentHops } = await lab.counters()
      assert.deepEqual({ flows, startedFlows, spentHops }, { flows: 1, startedFlows: 1, spentHops: 1 })
    })

    it('reports many datagrams with hop limit 1, and not one, as a trace of the route sends', async () => {
      await lab.listen({ clusterEndpoints: [(await lab.serveUdp('a ')).endpoint] }, udp)
      const client = lab.openUdp()
      assert.equal(String(await lab.askUdp(client, 'x')), 'a x')
      client.setTTL(1)
      client.send('lost', 8080, address)
      await lab.until(({ spentHops }) => spentHops === 1)
      const conditions = lab.kernel.relay.nextConditions()
      const turn = new Promise<'none'>((resolve) => void setImmediate(() => resolve('none')))
      assert.equal(await Promise.race([conditions, turn]), 'none')
      // Ten of them come within a second.
      for (let i = 0; i < 100; i++) client.send('lost', 8080, address)
      assert.equal((await conditions)?.hasSpentHops, true)
    })

    it('discards datagrams without an endpoint or a permission', async () => {
      const { endpoint } = await lab.serveUdp('a ')
      const client = lab.openUdp()
      for (const [service, listener] of [
        [{ clusterEndpoints: [] }, {}],
        [{ clusterEndpoints: [endpoint] }, { near: 'refuse', far: 'refuse' }],
        [{ clusterEndpoints: [endpoint] }, { hasSourceRanges: true }],
      ] as const) {
        await lab.listen(service, { ...udp, ...listener })
        client.send('lost', 8080, address)
      }
      await lab.listen({ clusterEndpoints: [endpoint] }, { ...udp, hasSourceRanges: true })
      client.send('lost too', 8080, address)
      // The marker: another listener of the same thread answers later than the discarded ones were read.
      await lab.apply({ op: 'set-listener', listener: lab.listener({ ...udp, port: 8081 }) })
      const answer = once(client, 'message')
      client.send('x', 8081, address)
      assert.equal(String((await answer)[0]), 'a x')
      assert.equal((await lab.counters()).startedFlows, 1)
    })
  })
}

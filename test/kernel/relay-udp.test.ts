// UDP flows of the relay, in the network namespace of this file.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ip } from '../contract/law.js'
import { deferred, plainSettings, RelayLab } from '../support/relay-lab.js'

for (const address of [ip('127.0.0.1'), ip('::1')]) {
  describe(`relay udp ${address}`, { timeout: 30_000 }, () => {
    let lab: RelayLab
    beforeEach(async () => {
      lab = new RelayLab(address)
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
      await lab.kernel.relay.configure({ ...plainSettings, udpIdleMs: 20 })
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

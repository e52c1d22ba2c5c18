// Traffic through the relay, in the network namespace of this file: streams, choice of endpoints, verdicts, UDP flows.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Cidr, parseCidr } from '../../src/address.js'
import type { RelayEndpoint } from '../../src/kernel/index.js'
import { ip } from '../contract/law.js'
import { mustRun } from '../support/processes.js'
import { deferred, plainSettings, readAll, RelayLab } from '../support/relay-lab.js'

/** A timeout ends a test that waits for an event that does not come. */
const limit = { timeout: 30_000 }

function cidr(text: string): Cidr {
  const parsed = parseCidr(text)
  assert.ok(parsed !== undefined)
  return parsed
}

const ipv4 = { address: ip('127.0.0.1'), network: '127.0.0.0/8', other: '192.0.2.0/24' }
const ipv6 = { address: ip('::1'), network: '::1/128', other: '2001:db8::/32' }
const families = [
  { ...ipv4, listensOn: ipv4.address },
  { ...ipv4, listensOn: ip('0.0.0.0') },
  { ...ipv6, listensOn: ipv6.address },
  { ...ipv6, listensOn: ip('::') },
]

for (const { address, network, other, listensOn } of families) {
  describe(`relay ${address} by a listener on ${listensOn}`, limit, () => {
    let lab: RelayLab
    beforeEach(async () => {
      lab = new RelayLab(address, address, listensOn)
      await lab.kernel.relay.configure(plainSettings)
    })
    afterEach(() => lab.close())

    for (const size of [1, 16 * 1024, 16 * 1024 + 1, 5_000_000])
      it(`carries ${size} bytes to the endpoint and back`, async () => {
        await lab.listen({ clusterEndpoints: [await lab.serveEcho()] })
        const sent = 'abcdefg'.repeat(Math.ceil(size / 7)).slice(0, size)
        assert.ok((await lab.ask(sent)) === sent)
        await lab.until(({ connections }) => connections === 0)
        const { acceptedConnections, receivedBytes, sentBytes } = await lab.counters()
        assert.deepEqual(
          { acceptedConnections, receivedBytes, sentBytes },
          { acceptedConnections: 1, receivedBytes: size, sentBytes: size },
        )
      })

    it('listens again after another program ended its listening socket', async () => {
      await lab.listen({ clusterEndpoints: [await lab.serveEcho()] })
      await mustRun(['ss', '--kill', '--listening', '--tcp', '--numeric', 'sport = :8080'])
      // Its answer comes after the relay's threads have handled what the kernel reported before.
      await lab.kernel.relay.configure(plainSettings)
      assert.equal(await lab.ask('x'), 'x')
    })

    it('carries the half-close of the client: the endpoint answers after it', async () => {
      const endpoint = await lab.serve((socket) => {
        let length = 0
        socket.on('data', (data) => (length += data.length))
        socket.on('end', () => socket.end(`got ${length}`))
      })
      await lab.listen({ clusterEndpoints: [endpoint] })
      assert.equal(await lab.ask('x'.repeat(100_000)), 'got 100000')
    })

    it('carries the half-close of the endpoint: the client still sends', async () => {
      let heard: Promise<string> | undefined
      const endpoint = await lab.serve((socket) => {
        heard = readAll(socket)
        socket.end('bye')
      })
      await lab.listen({ clusterEndpoints: [endpoint] })
      const client = lab.connect()
      assert.equal(await readAll(client), 'bye')
      client.end('late words')
      assert.equal(await heard, 'late words')
    })

    it('carries a reset of the client and of the endpoint', async () => {
      const { promise: accepted, resolve: accept } = deferred<string>()
      const endpoint = await lab.serve((socket) => {
        socket.once('data', (data) => {
          if (data.toString() === 'reset me') socket.resetAndDestroy()
          else socket.write('ready')
        })
        socket.once('error', (error) => accept('code' in error ? String(error.code) : ''))
      })
      await lab.listen({ clusterEndpoints: [endpoint] })
      const client = lab.connect()
      client.write('hello')
      await once(client, 'data')
      client.resetAndDestroy()
      assert.equal(await accepted, 'ECONNRESET')
      assert.equal(await lab.ask('reset me'), 'ECONNRESET')
      await lab.until(({ connections }) => connections === 0)
    })

    it('takes the endpoints in turn', async () => {
      await lab.listen({ clusterEndpoints: [await lab.serveName('a'), await lab.serveName('b')] })
      const names = [await lab.ask(), await lab.ask(), await lab.ask(), await lab.ask()]
      assert.deepEqual(names, ['a', 'b', 'a', 'b'])
    })

    it('passes over an endpoint that refuses; resets the client when all refuse', async () => {
      const closed = await lab.refuse()
      await lab.listen({ clusterEndpoints: [closed, await lab.serveName('a')] })
      assert.deepEqual([await lab.ask(), await lab.ask(), await lab.ask()], ['a', 'a', 'a'])
      await lab.listen({ clusterEndpoints: [closed, closed] })
      assert.equal(await lab.ask(), 'ECONNRESET')
      assert.equal((await lab.counters()).failedConnections, 1)
    })

    it('refuses its own connections: an endpoint that is a frontend is passed over', async () => {
      const own = { address, port: 8080 }
      await lab.listen({ clusterEndpoints: [own] })
      assert.equal(await lab.ask('x'), 'ECONNRESET')
      const conditions = await lab.kernel.relay.nextConditions()
      assert.deepEqual([conditions?.hasLoop, conditions?.hasFewDescriptors], [true, false])
      await lab.until(({ connections }) => connections === 0)
      const { acceptedConnections, refusedConnections } = await lab.counters()
      assert.deepEqual(
        { acceptedConnections, refusedConnections },
        { acceptedConnections: 2, refusedConnections: 1 },
      )
    })

    it('without a local port for an endpoint takes the next one, and serves others', async () => {
      const [a, b] = [await lab.serveEcho(), await lab.serveName('b')]
      await lab.listen({ clusterEndpoints: [a] })
      const range = '/proc/sys/net/ipv4/ip_local_port_range'
      const former = readFileSync(range, 'utf8')
      const ask = async (localPort: number, text: string): Promise<string> =>
        await readAll(lab.connect(8080, localPort).end(text))
      try {
        writeFileSync(range, '20000 20001')
        const keepers = [20_010, 20_011].map((localPort) => lab.connect(8080, localPort))
        for (const keeper of keepers) {
          keeper.write('x')
          await once(keeper, 'data')
        }
        assert.equal(await ask(20_012, 'x'), 'ECONNRESET')
        assert.equal((await lab.kernel.relay.nextConditions())?.hasFewTcpPorts, true)
        await lab.listen({ clusterEndpoints: [a, b] })
        assert.deepEqual([await ask(20_013, ''), await ask(20_014, '')], ['b', 'b'])
      } finally {
        writeFileSync(range, former)
      }
    })

    it('an affine client keeps its endpoint until the endpoint fails or goes', async () => {
      const [a, b, c] = [await lab.serveName('a'), await lab.serveName('b'), await lab.serveName('c')]
      const listen = (clusterEndpoints: readonly RelayEndpoint[]): Promise<void> =>
        lab.listen({ clusterEndpoints, affinitySeconds: 10_800 })
      await listen([a, b])
      assert.deepEqual([await lab.ask(), await lab.ask(), await lab.ask()], ['a', 'a', 'a'])
      await listen([b, c])
      const next = await lab.ask()
      assert.deepEqual([await lab.ask(), await lab.ask()], [next, next])
      const closed = await lab.refuse()
      await listen([closed, a])
      assert.deepEqual([await lab.ask(), await lab.ask(), await lab.ask()], ['a', 'a', 'a'])
    })

    it('serves only clients in the source ranges of a listener that has them', async () => {
      const clusterEndpoints = [await lab.serveName('a')]
      await lab.listen({ clusterEndpoints, sourceRanges: [cidr(other)] }, { hasSourceRanges: true })
      assert.equal(await lab.ask(), 'ECONNRESET')
      await lab.listen({ clusterEndpoints, sourceRanges: [cidr(other)] }, { hasSourceRanges: false })
      assert.equal(await lab.ask(), 'a')
      const sourceRanges = [cidr(other), cidr(network)]
      await lab.listen({ clusterEndpoints, sourceRanges }, { hasSourceRanges: true })
      assert.equal(await lab.ask(), 'a')
    })

    it('gives a client of this machine the verdict for near ones', async () => {
      const lists = {
        clusterEndpoints: [await lab.serveName('c')],
        localEndpoints: [await lab.serveName('l')],
      }
      const outcomes = { cluster: 'c', local: 'l', refuse: 'ECONNRESET', drop: 'ECONNRESET' } as const
      for (const nearNetworks of [[cidr(other)], [cidr(other), cidr(network)]])
        for (const near of ['cluster', 'local', 'refuse', 'drop'] as const) {
          await lab.kernel.relay.configure({ ...plainSettings, nearNetworks })
          await lab.listen(lists, { near, far: near === 'cluster' ? 'local' : 'cluster' })
          assert.equal(await lab.ask(), outcomes[near])
        }
      await lab.listen({ ...lists, localEndpoints: [] }, { near: 'local' })
      assert.equal(await lab.ask(), 'ECONNRESET')
    })

    it('a connection outlives its endpoint in the list, its listener and its service', async () => {
      await lab.listen({ clusterEndpoints: [await lab.serveEcho()] })
      const client = lab.connect()
      const echo = async (text: string): Promise<string> => {
        client.write(text)
        const [data]: unknown[] = await once(client, 'data')
        return String(data)
      }
      assert.equal(await echo('one'), 'one')
      await lab.listen({ clusterEndpoints: [] })
      assert.equal(await lab.ask(), 'ECONNRESET')
      await lab.apply(
        { op: 'remove-listener', listener: lab.listener() },
        { op: 'remove-service', id: 1, name: 'a' },
      )
      assert.equal(await lab.ask(), 'ECONNREFUSED')
      assert.equal(await echo('two'), 'two')
    })

    for (const direction of ['client', 'endpoint'] as const)
      it(`holds little for a slow ${direction === 'client' ? 'endpoint' : 'client'}`, async () => {
        const offered = 'z'.repeat(100_000_000)
        const isUp = direction === 'client'
        const { promise: server, resolve: accept } = deferred<Socket>()
        const stream = await lab.serve((socket) => accept(socket.pause()))
        const marks = { localEndpoints: [await lab.serveName('a')] }
        await lab.listen({ clusterEndpoints: [stream], ...marks })
        await lab.apply({
          op: 'set-listener',
          listener: lab.listener({ port: 8081, near: 'local', far: 'local' }),
        })
        const client = lab.connect().pause()
        const [writer, reader] = isUp ? [client, await server] : [await server, client]
        writer.end(offered)
        const moved = async (): Promise<number> => {
          const { receivedBytes, sentBytes } = await lab.counters()
          return isUp ? receivedBytes : sentBytes
        }
        // The stream stands still when the same thread serves others meanwhile.
        let before = -1
        while (before !== (await moved())) {
          before = await moved()
          for (let i = 0; i < 20; i++) assert.equal(await readAll(lab.connect(8081).end()), 'a')
          before += isUp ? 0 : 20
        }
        // The kernel buffers up to net.ipv4.tcp_rmem and the unsent bytes; the relay has one pipe.
        assert.ok(before < 40_000_000, `${before} bytes moved`)
        assert.equal((await readAll(reader.resume())).length, offered.length)
      })
  })
}

// Listeners of the relay on all addresses, in the network namespace of this file (issue 35, E10).
import assert from 'node:assert/strict'
import { createSocket, type Socket as UdpSocket } from 'node:dgram'
import { once } from 'node:events'
import { afterEach, before, beforeEach, describe, it } from 'node:test'
import type { IpAddress } from '../../src/address.js'
import type { RelayOp } from '../../src/kernel/index.js'
import { ip } from '../contract/law.js'
import { mustRun } from '../support/processes.js'
import { deferred, plainSettings, readAll, RelayLab } from '../support/relay-lab.js'

/** Two addresses that serve node ports, and one that does not, all of an interface. */
const families = {
  ipv4: { listensOn: ip('0.0.0.0'), one: ip('192.0.2.1'), two: ip('192.0.2.2'), vip: ip('192.0.2.50') },
  ipv6: { listensOn: ip('::'), one: ip('fd00:192::1'), two: ip('fd00:192::2'), vip: ip('fd00:192::50') },
}
const lengthOf = (address: IpAddress): string => (address.includes(':') ? '64' : '24')

before(async () => {
  for (const { one, two, vip } of Object.values(families))
    for (const address of [one, two, vip])
      await mustRun(['ip', 'address', 'add', `${address}/${lengthOf(address)}`, 'dev', 'lo'])
})

/** A datagram from the client, and the address and text of its answer. */
async function ask(client: UdpSocket, address: IpAddress, text = 'x'): Promise<string> {
  const answer = once(client, 'message')
  client.send(text, 8080, address)
  const [message, from]: unknown[] = await answer
  assert.ok(typeof from === 'object' && from !== null && 'address' in from)
  return `${String(from.address)} ${String(message)}`
}

for (const [family, { listensOn, one, two, vip }] of Object.entries(families))
  describe(`a listener on ${listensOn}`, { timeout: 30_000 }, () => {
    const udp = { protocol: 'udp' } as const
    const isIpv6 = family === 'ipv6'
    let lab: RelayLab
    beforeEach(async () => {
      lab = new RelayLab(one, one, listensOn)
      await lab.kernel.relay.configure({ ...plainSettings, nodePortAddresses: [one, two] })
    })
    afterEach(() => lab.close())

    const get = async (host: IpAddress): Promise<string> =>
      await readAll(lab.connect(8080, undefined, host).end())
    const frontends = async (): Promise<readonly string[]> =>
      [...(await lab.kernel.relay.flows(isIpv6 ? 'ipv6' : 'ipv4'))]
        .map(({ protocol, frontend }) => `${protocol} ${frontend.address} ${frontend.port}`)
        .toSorted()

    it('tcp: serves at each of its addresses, and resets at others, also after a change of them', async () => {
      await lab.listen({ clusterEndpoints: [await lab.serveName('a')] })
      assert.deepEqual([await get(one), await get(two), await get(vip)], ['a', 'a', 'ECONNRESET'])
      await lab.kernel.relay.configure({ ...plainSettings, nodePortAddresses: [two, vip] })
      assert.deepEqual([await get(one), await get(two), await get(vip)], ['ECONNRESET', 'a', 'a'])
      assert.equal((await lab.counters()).refusedConnections, 2)
    })

    it('tcp: a connection has the address that its client connected to', async () => {
      await lab.listen({ clusterEndpoints: [await lab.serveEcho()] })
      for (const address of [one, two]) {
        const client = lab.connect(8080, undefined, address)
        client.write('x')
        await once(client, 'data')
      }
      assert.deepEqual(await frontends(), [`tcp ${one} 8080`, `tcp ${two} 8080`])
    })

    it('udp: answers from the address that the client asked; one client has a flow for each', async () => {
      const { endpoint } = await lab.serveUdp('a ')
      await lab.listen({ clusterEndpoints: [endpoint] }, udp)
      const client = lab.openUdp()
      const answers = [await ask(client, one), await ask(client, two), await ask(client, one)]
      assert.deepEqual(answers, [`${one} a x`, `${two} a x`, `${one} a x`])
      assert.deepEqual(await frontends(), [`udp ${one} 8080`, `udp ${two} 8080`])
    })

    it('udp: discards what comes to other addresses, to broadcast and to multicast ones', async () => {
      await lab.listen({ clusterEndpoints: [(await lab.serveUdp('a ')).endpoint] }, udp)
      const client = lab.openUdp()
      client.bind()
      await once(client, 'listening')
      client.send('lost', 8080, vip)
      if (!isIpv6) {
        client.setBroadcast(true)
        client.send('lost', 8080, '192.0.2.255')
      }
      // The marker comes by the same socket.
      assert.equal(await ask(client, two), `${two} a x`)
      assert.deepEqual(await frontends(), [`udp ${two} 8080`])
    })

    for (const protocol of ['tcp', 'udp'] as const)
      it(`${protocol}: leaves an address to a listener of its own, whichever opens first`, async () => {
        const name = async (text: string) =>
          protocol === 'tcp' ? await lab.serveName(text) : (await lab.serveUdp(text)).endpoint
        const servers = [await name('all'), await name('own')]
        const asked = async (address: IpAddress): Promise<string> =>
          protocol === 'tcp'
            ? await get(address)
            : ((await ask(lab.openUdp(), address, '')).split(' ')[1] ?? '')
        const all = lab.listener({ protocol })
        const own = lab.listener({ protocol, address: two, service: 2 })
        await lab.apply(
          ...servers.map((endpoint, i): RelayOp => ({
            op: 'set-service',
            name: 'a',
            service: {
              id: i + 1,
              affinitySeconds: undefined,
              clusterEndpoints: [endpoint],
              localEndpoints: [],
              flowEndpoints: [endpoint],
              sourceRanges: [],
            },
          })),
        )
        for (const [first, second] of [
          [all, own],
          [own, all],
        ] as const) {
          await lab.apply({ op: 'set-listener', listener: first }, { op: 'set-listener', listener: second })
          assert.deepEqual([await asked(one), await asked(two)], ['all', 'own'])
          await lab.apply({ op: 'remove-listener', listener: own })
          assert.deepEqual([await asked(one), await asked(two)], ['all', 'all'])
          await lab.apply({ op: 'remove-listener', listener: all })
        }
      })

    it('udp: refuses new clients at every address while flows go on, and opens again beside another listener', async () => {
      const [kept, next] = [await lab.serveUdp('kept '), await lab.serveUdp('next ')]
      const flowEndpoints = [kept.endpoint, next.endpoint]
      await lab.listen({ clusterEndpoints: [kept.endpoint], flowEndpoints }, udp)
      const client = lab.openUdp()
      assert.deepEqual([await ask(client, one), await ask(client, two)], [`${one} kept x`, `${two} kept x`])
      await lab.listen({ clusterEndpoints: [], flowEndpoints }, { ...udp, near: 'refuse', far: 'refuse' })
      assert.deepEqual([await ask(client, one), await ask(client, two)], [`${one} kept x`, `${two} kept x`])
      for (const address of [one, two]) {
        const stranger = lab.openUdp()
        stranger.connect(8080, address)
        await once(stranger, 'connect')
        const { promise, resolve } = deferred<unknown>()
        stranger.once('error', (error: Error & { code?: string }) => resolve(error.code))
        stranger.send('x')
        assert.equal(await promise, 'ECONNREFUSED')
      }
      await lab.apply({ op: 'set-listener', listener: lab.listener({ ...udp, address: vip }) })
      await lab.listen({ clusterEndpoints: [next.endpoint], flowEndpoints }, udp)
      assert.deepEqual([await ask(client, one), await ask(client, two)], [`${one} kept x`, `${two} kept x`])
      assert.deepEqual(
        [await ask(lab.openUdp(), one), await ask(lab.openUdp(), two), await ask(lab.openUdp(), vip)],
        [`${one} next x`, `${two} next x`, `${vip} next x`],
      )
    })

    // Ten seconds: so long a condition is reported after its end.
    if (!isIpv6)
      it('udp: reports that another program took its port meanwhile, and opens again after its end', async () => {
        const [kept, next] = [await lab.serveUdp('kept '), await lab.serveUdp('next ')]
        const flowEndpoints = [kept.endpoint, next.endpoint]
        await lab.listen({ clusterEndpoints: [kept.endpoint], flowEndpoints }, udp)
        await lab.listen({ clusterEndpoints: [], flowEndpoints }, { ...udp, near: 'refuse', far: 'refuse' })
        const program = createSocket({ type: 'udp4', reuseAddr: true })
        program.bind(8080, two)
        await once(program, 'listening')
        program.on('message', (_text, { port, address }) => program.send('program', port, address))
        await lab.listen({ clusterEndpoints: [next.endpoint], flowEndpoints }, udp)
        assert.equal((await lab.kernel.relay.nextConditions())?.hasTakenPort, true)
        assert.equal(await ask(lab.openUdp(), two), `${two} program`)
        program.close()
        assert.equal((await lab.kernel.relay.nextConditions())?.hasTakenPort, false)
        assert.equal(await ask(lab.openUdp(), two), `${two} next x`)
      })

    it('refuses its own connections and datagrams: an endpoint that is one of its addresses', async () => {
      await lab.listen({ clusterEndpoints: [{ address: two, port: 8080 }] })
      assert.equal(await get(one), 'ECONNRESET')
      assert.equal((await lab.kernel.relay.nextConditions())?.hasLoop, true)
      await lab.apply({ op: 'set-listener', listener: lab.listener(udp) })
      lab.openUdp().send('x', 8080, one)
      await lab.until(({ startedFlows }) => startedFlows === 1)
    })
  })

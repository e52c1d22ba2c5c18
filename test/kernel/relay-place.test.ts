// The relay of a node with a pod and a client outside: verdicts by the interface of arrival, and endpoints that do not answer.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type IpAddress, parseCidr } from '../../src/address.js'
import { ip } from '../contract/law.js'
import { Namespace } from '../support/namespaces.js'
import { mustRun } from '../support/processes.js'
import { plainSettings, RelayLab } from '../support/relay-lab.js'

const families = [
  {
    name: 'ipv4',
    vip: ip('10.96.0.10'),
    home: ip('127.0.0.1'),
    node: ['10.9.1.1/24', '10.9.2.1/24'],
    peer: ['10.9.1.2/24', '10.9.2.2/24'],
    silent: ip('10.9.1.77'),
  },
  {
    name: 'ipv6',
    vip: ip('fd00:96::10'),
    home: ip('::1'),
    node: ['fd00:9:1::1/64', 'fd00:9:2::1/64'],
    peer: ['fd00:9:1::2/64', 'fd00:9:2::2/64'],
    silent: ip('fd00:9:1::77'),
  },
] as const

/** The first byte that the listener sends to a client of the namespace. */
async function hear(namespace: Namespace, protocol: 'tcp' | 'udp', vip: IpAddress): Promise<string> {
  const speak = `exec 3<>/dev/${protocol}/${vip}/8080; echo >&3; head -c 1 <&3`
  return (await namespace.run('bash', '-c', speak)).stdout
}

/** The first byte that the listener sends to a client of this machine with the address `source`. */
async function hearFrom(source: IpAddress, protocol: 'tcp' | 'udp', vip: IpAddress): Promise<string> {
  const type = protocol === 'tcp' ? 'SOCK_STREAM' : 'SOCK_DGRAM'
  const script = [
    'import socket',
    `family = socket.${vip.includes(':') ? 'AF_INET6' : 'AF_INET'}`,
    `client = socket.socket(family, socket.${type})`,
    'client.setsockopt(*((41, 78) if family == socket.AF_INET6 else (0, 15)), 1)',
    `client.bind(('${source}', 0))`,
    `client.connect(('${vip}', 8080))`,
    "client.send(b'x')",
    "print(client.recv(1).decode(), end='')",
  ]
  return await mustRun(['python3', '-c', script.join('\n')])
}

for (const { name, vip, home, node, peer, silent } of families) {
  describe(`relay of a node, ${name}`, { timeout: 30_000 }, () => {
    let lab: RelayLab
    let pod: Namespace
    let outside: Namespace
    beforeEach(async () => {
      pod = await Namespace.create('pod')
      outside = await Namespace.create('outside')
      await mustRun(['ip', 'route', 'replace', 'local', vip, 'dev', 'lo'])
      for (const [index, [namespace, own]] of (
        [
          [pod, 'veth0'],
          [outside, 'eth0'],
        ] as const
      ).entries()) {
        await mustRun(`ip link add ${own} type veth peer name peer0 netns ${namespace.pid}`.split(' '))
        const nodad = name === 'ipv6' ? ' nodad' : ''
        await mustRun(`ip address add ${node[index]} dev ${own}${nodad}`.split(' '))
        await mustRun(`ip link set ${own} up`.split(' '))
        const gateway = node[index]?.split('/')[0]
        await namespace.ip(
          `address add ${peer[index]} dev peer0${nodad}`,
          'link set peer0 up',
          `route add ${vip} via ${gateway}`,
        )
      }
      lab = new RelayLab(vip, home)
    })
    afterEach(async () => {
      await lab.close()
      // With its namespace an interface would go later, and the next test makes one of the same name.
      for (const own of ['veth0', 'eth0']) await mustRun(['ip', 'link', 'delete', own])
      await Promise.all([pod.close(), outside.close()])
    })

    for (const nearInterfaces of [['veth0'], ['cni0', 've+']])
      for (const protocol of ['tcp', 'udp'] as const)
        it(`${protocol}: a pod behind ${nearInterfaces.join(' and ')} is near, a client outside is far`, async () => {
          await lab.kernel.relay.configure({ ...plainSettings, nearInterfaces })
          const endpoint = async (text: string) =>
            protocol === 'tcp' ? await lab.serveName(text) : (await lab.serveUdp(text)).endpoint
          await lab.listen(
            { clusterEndpoints: [await endpoint('c')], localEndpoints: [await endpoint('l')] },
            { protocol, near: 'cluster', far: 'local' },
          )
          assert.deepEqual([await hear(pod, protocol, vip), await hear(outside, protocol, vip)], ['c', 'l'])
          const network = parseCidr(`${peer[1].split('/')[0]}/${name === 'ipv4' ? 24 : 64}`)
          assert.ok(network !== undefined)
          await lab.kernel.relay.configure({ ...plainSettings, nearNetworks: [network] })
          assert.deepEqual([await hear(pod, protocol, vip), await hear(outside, protocol, vip)], ['l', 'c'])
        })

    for (const protocol of ['tcp', 'udp'] as const)
      it(`${protocol}: a client of this machine is near from any of its addresses, the VIP included`, async () => {
        await lab.kernel.relay.configure(plainSettings)
        const endpoint = async (text: string) =>
          protocol === 'tcp' ? await lab.serveName(text) : (await lab.serveUdp(text)).endpoint
        await lab.listen(
          { clusterEndpoints: [await endpoint('c')], localEndpoints: [await endpoint('l')] },
          { protocol, near: 'cluster', far: 'local' },
        )
        for (const source of [vip, ip(node[0].split('/')[0] ?? '')])
          assert.equal(await hearFrom(source, protocol, vip), 'c', source)
        assert.equal(await hear(outside, protocol, vip), 'l')
      })

    it('gives a client outside the verdict for far ones', async () => {
      await lab.kernel.relay.configure(plainSettings)
      const lists = {
        clusterEndpoints: [await lab.serveName('c')],
        localEndpoints: [await lab.serveName('l')],
      }
      const outcomes = { cluster: 'c', local: 'l', refuse: '', drop: '' } as const
      for (const far of ['cluster', 'local', 'refuse', 'drop'] as const) {
        await lab.listen(lists, { near: far === 'cluster' ? 'local' : 'cluster', far })
        assert.equal(await hear(outside, 'tcp', vip), outcomes[far], far)
      }
    })

    it('udp: a flow stays while its listener serves no client, and moves when it serves again', async () => {
      await lab.kernel.relay.configure(plainSettings)
      const [kept, next] = [await lab.serveUdp('kept '), await lab.serveUdp('next ')]
      await lab.listen({ clusterEndpoints: [kept.endpoint] }, { protocol: 'udp' })
      // Not the address of the listener.
      const client = lab.openUdp()
      client.bind(0, node[0].split('/')[0])
      await lab.askUdp(client, 'x')
      const flowEndpoints = [kept.endpoint]
      await lab.listen(
        { clusterEndpoints: [], flowEndpoints },
        { protocol: 'udp', near: 'refuse', far: 'refuse' },
      )
      assert.equal(String(await lab.askUdp(client, 'x')), 'kept x')
      await lab.listen({ clusterEndpoints: [next.endpoint] }, { protocol: 'udp' })
      assert.equal(String(await lab.askUdp(client, 'x')), 'next x')
      assert.equal(await hear(outside, 'udp', vip), 'n')
    })

    it('passes over an endpoint that does not answer; resets the client when none does', async () => {
      // Its packets reach an interface that drops them: the hardware address is of another host.
      await mustRun(`ip neighbour replace ${silent} lladdr 02:00:00:00:00:77 dev veth0`.split(' '))
      await lab.kernel.relay.configure(plainSettings)
      const dead = { address: silent, port: 80 }
      await lab.listen({ clusterEndpoints: [dead, await lab.serveName('a')] })
      assert.equal(await lab.ask(), 'a')
      await lab.listen({ clusterEndpoints: [dead] })
      assert.equal(await lab.ask(), 'ECONNRESET')
      assert.equal((await lab.counters()).failedConnections, 1)
    })

    it('an endpoint without a route is passed over', async () => {
      const absent = { address: ip(name === 'ipv4' ? '198.51.100.1' : '2001:db8::1'), port: 80 }
      await lab.kernel.relay.configure(plainSettings)
      await lab.listen({ clusterEndpoints: [absent, await lab.serveName('a')] })
      assert.deepEqual([await lab.ask(), await lab.ask()], ['a', 'a'])
      await lab.listen({ clusterEndpoints: [absent] })
      assert.equal(await lab.ask(), 'ECONNRESET')
    })
  })
}

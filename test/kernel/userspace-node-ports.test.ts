// Node ports of userspace mode on a node with many addresses, with the shipped agent and real connections (issue 35, E10).
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, describe, it } from 'node:test'
import { askingAt } from '../../src/commands/client.js'
import type { KubernetesObject } from '../../src/source/index.js'
import { ip } from '../contract/law.js'
import { connect, Namespace } from '../support/namespaces.js'
import { port, service, slice } from '../support/objects.js'
import { takePort } from '../support/port-taker.js'
import { eventually, ProbeClient, type ProbeResult, serve, type Target } from '../support/traffic.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { manifestText } from '../traffic/table/manifest.js'
import { nodeObject } from '../traffic/table/slot.js'

/** The node's addresses besides loopback. */
const addresses = [
  ...Array.from({ length: 22 }, (_, i) => `192.0.2.${i + 1}`),
  ...Array.from({ length: 22 }, (_, i) => `fd00:192::${(i + 1).toString(16)}`),
]
const portCount = 300
const answerMs = 5000
const silenceMs = 300
const protocols = ['tcp', 'udp'] as const
const families = {
  ipv4: { endpoint: '192.0.2.1', vips: ['10.96.0.1', '10.96.0.2', '10.96.0.3'] },
  ipv6: { endpoint: 'fd00:192::1', vips: ['fd00:10:96::1', 'fd00:10:96::2', 'fd00:10:96::3'] },
} as const

/** `count` node ports of each protocol from 30000 on. */
function nodePorts(count: number) {
  return protocols.flatMap((protocol) =>
    Array.from({ length: count }, (_, i) =>
      port(1000 + i, {
        name: `${protocol}-${i}`,
        protocol: protocol === 'tcp' ? 'TCP' : 'UDP',
        nodePort: 30_000 + i,
      }),
    ),
  )
}

/** The same ports of a slice, all with this number. */
function endpointPorts(ports: ReturnType<typeof nodePorts>, number: number) {
  return ports.map(({ name, protocol }) => ({ name, protocol, port: number }))
}

/**
 * Of each family: `many` with all node ports, `other` whose cluster IP has the port 30005, and `idle` whose cluster IP has port 80 alone. The
 * servers answer at 8080 and, for `other`, at 8081.
 */
function objects({
  count = portCount,
  hasEndpoints = true,
  servesOther = true,
} = {}): readonly KubernetesObject[] {
  const many = nodePorts(count)
  const others = many
    .filter(({ nodePort }) => nodePort === 30_005)
    .map((one) => ({ ...one, port: 30_005, nodePort: 0 }))
  return [
    nodeObject,
    ...Object.entries(families).flatMap(([family, { endpoint, vips }]) => [
      service(`many-${family}`, vips[0], { type: 'NodePort', ports: many }),
      slice(`many-${family}-1`, `many-${family}`, hasEndpoints ? [endpoint] : [], {
        ports: endpointPorts(many, 8080),
        addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
      }),
      service(`other-${family}`, vips[1], { ports: others }),
      slice(`other-${family}-1`, `other-${family}`, servesOther ? [endpoint] : [], {
        ports: endpointPorts(others, 8081),
      }),
      service(`idle-${family}`, vips[2]),
      slice(`idle-${family}-1`, `idle-${family}`, [endpoint]),
    ]),
  ]
}

/** The sockets at node ports: `tcp 0.0.0.0:30000 INODE`. */
async function socketsOf(node: Namespace): Promise<readonly string[]> {
  const lists = await Promise.all(
    protocols.map(async (protocol) => {
      const text = await node.must('ss', '-Hne', protocol === 'tcp' ? '-lt' : '-lu')
      const sockets = [...text.matchAll(/ (\S+):(30\d\d\d) .* ino:(\d+)/gu)]
      return sockets.map(([, address, number, inode]) => `${protocol} ${address}:${number} ${inode}`)
    }),
  )
  return lists.flat().toSorted()
}

const textOf = (result: ProbeResult): string =>
  result.kind === 'answer' ? result.from : result.kind === 'error' ? result.code : result.kind
const serverOf = (address: string, number: number): string =>
  `${families[address.includes(':') ? 'ipv6' : 'ipv4'].endpoint} ${number}`
const bothProtocols = (list: readonly string[], number: number): readonly Target[] =>
  list.flatMap((address) => protocols.map((protocol) => ({ protocol, address, port: number })))

function withLength(address: string): string {
  return `${address}/${address.includes(':') ? 64 : 24}`
}

describe('node ports of userspace mode', { timeout: 120_000 }, () => {
  let folder: string
  let node: Namespace
  let outside: Namespace
  let clients: Readonly<Record<'node' | 'outside', ProbeClient>>
  let agent: AgentProcess | undefined

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'viaduct-node-ports-'))
    node = await Namespace.create('node-a')
    outside = await Namespace.create('outside')
    await connect(
      { namespace: node, interfaceName: 'eth0', addresses: addresses.map(withLength) },
      { namespace: outside, interfaceName: 'eth0', addresses: ['192.0.2.200/24', 'fd00:192::200/64'] },
    )
    await outside.ip('route add default via 192.0.2.1', 'route add ::/0 via fd00:192::1')
    const numbers = [8080, 8081]
    await serve(
      node,
      Object.values(families).flatMap(({ endpoint }) =>
        protocols.flatMap((protocol) =>
          numbers.map((number) => ({ protocol, address: endpoint, port: number })),
        ),
      ),
    )
    clients = { node: new ProbeClient(node), outside: new ProbeClient(outside) }
  })
  afterEach(async () => {
    await agent?.kill()
    agent = undefined
  })
  after(async () => {
    await Promise.all([node.close(), outside.close()])
    await rm(folder, { recursive: true })
  })

  async function write(...options: Parameters<typeof objects>): Promise<void> {
    await writeFile(join(folder, 'all.json'), manifestText(objects(...options)))
  }

  async function start(...flags: readonly string[]): Promise<AgentProcess> {
    agent = AgentProcess.start({ node, manifests: folder, mode: 'userspace', flags })
    await agent.synced()
    return agent
  }

  async function answers(from: 'node' | 'outside', targets: readonly Target[]): Promise<readonly string[]> {
    const results: string[] = []
    for (const target of targets) results.push(textOf(await clients[from].probe(target, answerMs)))
    return results
  }
  // Before, each port had a socket for each of 23 addresses of each family: 27,600.
  it('have one socket for each port, protocol and family, and answer at every address', async () => {
    await write()
    await start()
    const sockets = await socketsOf(node)
    // Beside the wildcards, those of `other`.
    assert.equal(sockets.length, 4 * portCount + 4)
    for (const number of [30_000, 30_299]) {
      const targets = bothProtocols(addresses, number)
      assert.deepEqual(
        await answers('outside', targets),
        targets.map(({ address }) => serverOf(address, 8080)),
      )
    }
    const local = bothProtocols(['127.0.0.1', '::1'], 30_007)
    assert.deepEqual(
      await answers('node', local),
      local.map(({ address }) => serverOf(address, 8080)),
    )
    await node.ip('address add 192.0.2.99/24 dev eth0', 'address add fd00:192::99/64 dev eth0 nodad')
    for (const target of bothProtocols(['192.0.2.99', 'fd00:192::99'], 30_007)) {
      const isAnswer = (text: string): boolean => text === serverOf(target.address, 8080)
      await eventually(async () => (await answers('outside', [target])).join(''), isAnswer)
    }
    assert.deepEqual(await socketsOf(node), sockets)
    await node.ip('address del 192.0.2.99/24 dev eth0', 'address del fd00:192::99/64 dev eth0')
  })

  it("leave a cluster IP's port of the same number to its Service, and reset at a cluster IP without it", async () => {
    await write({ count: 10 })
    await start()
    const own = bothProtocols([families.ipv4.vips[1], families.ipv6.vips[1]], 30_005)
    for (const from of ['node', 'outside'] as const)
      assert.deepEqual(
        await answers(from, own),
        own.map(({ address }) => serverOf(address, 8081)),
      )
    const none = [families.ipv4.vips[2], families.ipv6.vips[2], '127.0.0.5'].map((address): Target => ({
      protocol: 'tcp',
      address,
      port: 30_005,
    }))
    assert.deepEqual(await answers('node', none), ['ECONNRESET', 'ECONNRESET', 'ECONNRESET'])
  })

  // explain said that they are refused, and of 127.0.0.5 and the agent's port that the packet goes on as if there were no Services.
  it('take clients of other local addresses, and explain says what happens to them', async () => {
    const ask = askingAt(`${folder}.sock`)
    const fateOf = async (target: Target): Promise<string> => {
      const destination = `${target.address}:${target.port}/${target.protocol}`
      const { verdict, steps } = await ask('explain', { client: 'node', destination })
      const text = textOf(await clients.node.probe(target, verdict === 'drop' ? silenceMs : answerMs))
      return [text, verdict, steps.at(-1)?.text].join(', ')
    }
    const fatesOf = async (...parts: Parameters<typeof bothProtocols>): Promise<readonly string[]> => {
      const found: string[] = []
      for (const target of bothProtocols(...parts)) found.push(await fateOf(target))
      return found
    }
    const { vips } = families.ipv4
    await write({ count: 10, servesOther: false })
    const running = await start('--control-socket', `${folder}.sock`)
    await running.line(/"Control socket listens"/u, 0)
    const socket = 'node port 30005 has a socket at all addresses, which takes'
    const ends = [
      `ECONNRESET, reset, ${socket} the connection instead, and resets it: it serves other addresses`,
      `timeout, drop, ${socket} the datagram, and discards it: it serves other addresses`,
    ]
    // Without endpoints; without the port; without node ports.
    for (const address of [vips[1], vips[2], '127.0.0.5'])
      assert.deepEqual(await fatesOf([address], 30_005), ends)
    const refused = 'refused, refuse, a port that no Service has of this address is refused'
    assert.deepEqual(await fatesOf([vips[2]], 30_010), [refused, refused])
    const taker = await takePort(
      { family: 'ipv4', protocol: 'tcp', address: ip('192.0.2.7'), port: 30_020 },
      node,
    )
    assert.ok(taker !== undefined)
    await write({ count: 21, servesOther: false })
    await running.line(/EADDRINUSE/u, 0)
    const single = await eventually(
      async () => await fateOf({ protocol: 'tcp', address: vips[2], port: 30_020 }),
      (text) => text === refused,
    )
    assert.equal(single, refused)
    await taker.kill()
  })

  it('are refused while no endpoint is there', async () => {
    await write({ count: 10 })
    await start()
    const targets = bothProtocols(['192.0.2.7', 'fd00:192::7', '127.0.0.1', '::1'], 30_003)
    await write({ count: 10, hasEndpoints: false })
    for (const target of targets)
      await eventually(
        async () => (await answers('node', [target])).join(''),
        (text) => text === 'refused',
      )
    await write({ count: 10 })
    for (const target of targets)
      await eventually(
        async () => (await answers('node', [target])).join(''),
        (text) => text === serverOf(target.address, 8080),
      )
  })

  for (const protocol of protocols)
    it(`leave one address to another program, ${protocol}, and have one socket again after its end`, async () => {
      await write({ count: 10 })
      const taken = { family: 'ipv4', protocol, address: ip('192.0.2.7'), port: 30_004 } as const
      const taker = await takePort(taken, node)
      assert.ok(taker !== undefined)
      const running = await start()
      const line = await running.line(/EADDRINUSE/u, 0)
      assert.match(line, new RegExp(`set-listener ${protocol} 192\\.0\\.2\\.7:30004`, 'u'))
      const targets = addresses
        .concat('127.0.0.1')
        .filter((address) => address !== taken.address)
        .map((address): Target => ({ protocol, address, port: taken.port }))
      assert.deepEqual(
        await answers('node', targets),
        targets.map(({ address }) => serverOf(address, 8080)),
      )
      const isOfPort = (text: string): boolean => text.startsWith(protocol) && text.includes(':30004 ')
      const those = async (): Promise<readonly string[]> => (await socketsOf(node)).filter(isOfPort)
      // IPv4: one for each address, that of the program among them.
      assert.equal((await those()).length, 23 + 1)
      await taker.kill()
      const left = await eventually(those, (list) => list.length === 2)
      assert.deepEqual(
        left.map((text) => text.split(' ')[1]),
        ['0.0.0.0:30004', '[::]:30004'],
      )
    })

  it('of a port that another program has at every address are one problem', async () => {
    await write({ count: 10 })
    const taker = await takePort({ family: 'ipv4', protocol: 'tcp', address: undefined, port: 30_004 }, node)
    assert.ok(taker !== undefined)
    const running = await start()
    const line = await running.line(/EADDRINUSE/u, 0)
    assert.match(line, /set-listener tcp 0\.0\.0\.0:30004/u)
    await taker.kill()
    const target: Target = { protocol: 'tcp', address: '192.0.2.7', port: 30_004 }
    await eventually(
      async () => (await answers('node', [target])).join(''),
      (text) => text === serverOf(target.address, 8080),
    )
  })

  it('have one socket for each address where loopback addresses do not serve', async () => {
    await write({ count: 10 })
    await start('--iptables-localhost-nodeports=false')
    const loopback = bothProtocols(['127.0.0.1', '::1'], 30_003)
    assert.deepEqual(await answers('node', loopback), ['refused', 'refused', 'refused', 'refused'])
    const others = bothProtocols(['192.0.2.7', 'fd00:192::7'], 30_003)
    assert.deepEqual(
      await answers('outside', others),
      others.map(({ address }) => serverOf(address, 8080)),
    )
    assert.equal((await socketsOf(node)).length, 2 * addresses.length * 10 + 4)
  })
})

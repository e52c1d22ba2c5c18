// Packets through rules that Viaduct wrote, their counters, and a lock that another program holds.
import assert from 'node:assert/strict'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import { XtState, type XtOp, type XtRule, type Xtables, type XtTableName } from '../../src/kernel/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { ip } from '../contract/law.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { setName } from '../contract/xtables-kinds.js'
import {
  iptables,
  openRealSubject,
  save,
  type XtClient,
  type XtSubject,
} from '../contract/xtables-subjects.js'
import { mustRun, Program } from '../support/processes.js'

requireFreshNamespace()

/** Addresses of `lo`, and a virtual address with a route to `lo` that is not local. */
const addresses = {
  ipv4: { client: '192.0.2.1', servers: ['192.0.2.2', '192.0.2.3'], virtual: '10.96.0.10', bits: 32 },
  ipv6: { client: 'fd00:2::1', servers: ['fd00:2::2', 'fd00:2::3'], virtual: 'fd00:96::a', bits: 128 },
} as const satisfies Record<IpFamily, unknown>

const sourcePort = 4000
const destinationPort = 5000

/** A target without effect. The packet continues with the next rule. */
const nothing = { kind: 'mark', value: 0, mask: 0 } as const
const set = (chain: string, ...rules: readonly XtRule[]): XtOp => ({ op: 'set-chain', chain, rules })
const dnat = (server: string, rule: Omit<XtRule, 'target'> = {}): XtRule => ({
  protocol: 'tcp',
  ...rule,
  target: { kind: 'dnat', address: ip(server), port: 8080 },
})
const sticky = (list: string): XtRule => ({
  recent: { list, action: 'check', seconds: 60 },
  target: { kind: 'jump', chain: list },
})
const jump = (chain: string): XtRule => ({ target: { kind: 'jump', chain } })

type Case = readonly [what: string, rule: Omit<XtRule, 'target'>, matches: boolean]

/** Matches, with the expected result for a datagram from client:4000 to the first server:5000 through lo. */
function matchCases(family: IpFamily): readonly Case[] {
  const { client, servers, bits } = addresses[family]
  const source = { address: ip(client), prefixLength: bits }
  const network = { address: ip(family === 'ipv4' ? '192.0.2.0' : 'fd00:2::'), prefixLength: bits - 8 }
  const list = `seen-${family}`
  const members = { name: setName[family], directions: ['dst', 'dst'] } as const
  return [
    ['its source', { source }, true],
    ['not its source', { source: { ...source, isInverted: true } }, false],
    ['its network', { destination: network }, true],
    ['another destination', { destination: { address: ip(servers[1]), prefixLength: bits } }, false],
    ['its interface', { outInterface: { name: 'lo' } }, true],
    ['a prefix of its interface', { outInterface: { name: 'l+' } }, true],
    ['a longer interface name', { outInterface: { name: 'lo0' } }, false],
    ['any other interface', { outInterface: { name: 'lo', isInverted: true } }, false],
    ['an input interface, in OUTPUT', { inInterface: { name: 'lo' } }, false],
    ['its protocol', { protocol: 'udp' }, true],
    ['another protocol', { protocol: 'tcp' }, false],
    ['its ports', { protocol: 'udp', sourcePorts: [4000, 4000], destinationPorts: [4999, 5001] }, true],
    ['another port', { protocol: 'udp', destinationPorts: [1, 4999] }, false],
    ['no mark', { mark: { value: 0, mask: 0xffffffff } }, true],
    ['a mark that it has not', { mark: { value: 0x4000, mask: 0x4000 } }, false],
    ['not a mark that it has not', { mark: { value: 0x4000, mask: 0x4000, isInverted: true } }, true],
    ['a new connection', { state: { bits: XtState.new } }, true],
    ['a known connection', { state: { bits: XtState.established | XtState.related } }, false],
    ['a translated connection', { state: { bits: XtState.dnat } }, false],
    ['not an invalid packet', { state: { bits: XtState.invalid, isInverted: true } }, true],
    ['the first packet of a connection', { isUnconfirmed: true }, true],
    ['to a local address', { addressType: { of: 'destination' } }, true],
    ['not from a local address', { addressType: { of: 'source', isInverted: true } }, false],
    ['in a set', { set: members }, true],
    ['not in a set', { set: { ...members, isInverted: true } }, false],
    ['the other side in a set', { set: { ...members, directions: ['src', 'src'] } }, false],
    ['to itself', { isSourceDestination: true }, false],
    ['seen before it was entered', { recent: { list, action: 'check', seconds: 60 } }, false],
    ['entered', { recent: { list, action: 'set' } }, true],
    ['seen after it was entered', { recent: { list, action: 'check', seconds: 60 } }, true],
    ['seen at any time', { recent: { list, action: 'check' } }, true],
    ['with a chance that rounds to one', { probability: 1 - 2 ** -40 }, true],
    ['a comment', { comment: 'matches everything' }, true],
  ]
}

async function bind(socket: Socket, port: number, address: string): Promise<void> {
  socket.bind(port, address)
  await once(socket, 'listening')
}

/** Sends one datagram from the client. The kernel has processed it when it arrives. */
async function sendDatagram(
  family: IpFamily,
  server: string,
  from: string,
  port = sourcePort,
): Promise<void> {
  const type = family === 'ipv4' ? 'udp4' : 'udp6'
  const [receiver, sender] = [createSocket(type), createSocket(type)]
  try {
    await bind(receiver, destinationPort, server)
    await bind(sender, port, from)
    const arrived = once(receiver, 'message')
    sender.send('?', destinationPort, server)
    await arrived
  } finally {
    receiver.close()
    sender.close()
  }
}

/** The address of a connection's server. Throws the error of connect(). */
async function backendOf(host: string, port: number, localAddress: string): Promise<string> {
  const socket = connect({ host, port, localAddress })
  try {
    await once(socket, 'connect')
    const [answer] = await once(socket, 'data')
    return String(answer)
  } finally {
    socket.destroy()
  }
}

/** Packet counts of a chain's rules. */
async function counts(family: IpFamily, table: XtTableName, chain: string): Promise<readonly number[]> {
  const text = await save(family, table, '-c')
  return [...text.matchAll(/^\[(\d+):\d+\] -A (\S+) /gm)]
    .filter(([, , name]) => name === chain)
    .map(([, packets]) => Number(packets))
}

before(async () => {
  for (const { client, servers, virtual, bits } of Object.values(addresses)) {
    for (const address of [client, ...servers]) {
      const nodad = address.includes(':') ? 'nodad' : ''
      await mustRun(['sh', '-c', `ip address add ${address}/${bits} dev lo ${nodad}`])
    }
    await mustRun(['ip', 'route', 'add', `${virtual}/${bits}`, 'dev', 'lo', 'src', client])
  }
})

for (const family of ['ipv4', 'ipv6'] as const) {
  const { client, servers, virtual, bits } = addresses[family]
  const destination = { address: ip(virtual), prefixLength: bits }
  const web = { protocol: 'tcp', destination, destinationPorts: [80, 80] } as const

  describe(`packets of ${family}`, () => {
    let namespace: XtSubject
    let us: XtClient
    let listeners: Server[] = []
    let nat: Xtables
    let filter: Xtables

    before(async () => {
      listeners = await Promise.all(
        servers.map(async (address) => {
          const server = createServer((socket) => {
            socket.on('error', () => socket.destroy())
            socket.end(address)
          })
          await once(server.listen(8080, address), 'listening')
          return server
        }),
      )
    })
    after(() => {
      for (const server of listeners) server.close()
    })
    beforeEach(async () => {
      namespace = await openRealSubject()
      us = namespace.open()
      nat = us.xtables(family, 'nat')
      filter = us.xtables(family, 'filter')
    })
    afterEach(async () => {
      await us.close()
      await namespace.close()
    })

    it('make a connection only once', async () => {
      await filter.apply([
        {
          op: 'set-hook',
          chain: 'OUTPUT',
          rules: [{ protocol: 'udp', isUnconfirmed: true, target: nothing }],
        },
      ])
      for (let sent = 0; sent < 3; sent++) await sendDatagram(family, servers[0], client, sourcePort + 1)
      assert.deepEqual(await counts(family, 'filter', 'OUTPUT'), [1])
    })

    it('are counted by exactly the matching rules', async () => {
      await mustRun(['ipset', 'add', '-exist', setName[family], `${servers[0]},udp:${destinationPort}`])
      const cases = matchCases(family)
      const rules = cases.map(([, rule]): XtRule => ({ ...rule, target: nothing }))
      await filter.apply([
        set('VIADUCT-SEEN', ...rules),
        { op: 'set-hook', chain: 'OUTPUT', rules: [jump('VIADUCT-SEEN')] },
      ])
      await sendDatagram(family, servers[0], client)
      const packets = await counts(family, 'filter', 'VIADUCT-SEEN')
      const seen = cases.map(([what], i): readonly [string, number] => [what, packets[i] ?? -1])
      const expected = cases.map(([what, , matches]): readonly [string, number] => [what, matches ? 1 : 0])
      assert.deepEqual(seen, expected)
    })

    it('with equal source and destination are matched', async () => {
      const rules = [true, undefined].map((isSourceDestination): XtRule => ({
        protocol: 'udp',
        ...(isSourceDestination === undefined ? {} : { isSourceDestination }),
        target: nothing,
      }))
      await filter.apply([
        set('VIADUCT-SEEN', ...rules),
        { op: 'set-hook', chain: 'OUTPUT', rules: [jump('VIADUCT-SEEN')] },
      ])
      await sendDatagram(family, client, client)
      await sendDatagram(family, servers[0], servers[1])
      await sendDatagram(family, servers[0], servers[0])
      assert.deepEqual(await counts(family, 'filter', 'VIADUCT-SEEN'), [2, 3])
    })

    it('keep the mark of a rule until another rule removes it', async () => {
      const marked = { mark: { value: 0x4000, mask: 0x4000 } }
      await filter.apply([
        set(
          'VIADUCT-SEEN',
          { protocol: 'udp', target: { kind: 'mark', value: 0x4000, mask: 0x4000 } },
          { ...marked, target: nothing },
          { ...marked, target: { kind: 'mark', value: 0x4000, mask: 0 } },
          { ...marked, target: nothing },
        ),
        { op: 'set-hook', chain: 'OUTPUT', rules: [jump('VIADUCT-SEEN')] },
      ])
      await sendDatagram(family, servers[0], client)
      assert.deepEqual(await counts(family, 'filter', 'VIADUCT-SEEN'), [1, 1, 1, 0])
      assert.deepEqual([...(await filter.packets(['VIADUCT-SEEN']))], [[1, 1, 1, 0]])
    })

    it('continue after a return, and not after a goto', async () => {
      const udp = { protocol: 'udp' } as const
      await filter.apply([
        set(
          'VIADUCT-A',
          jump('VIADUCT-B'),
          { ...udp, target: { kind: 'goto', chain: 'VIADUCT-B' } },
          {
            ...udp,
            target: nothing,
          },
        ),
        set('VIADUCT-B', { ...udp, target: { kind: 'return' } }, { ...udp, target: nothing }),
        { op: 'set-hook', chain: 'OUTPUT', rules: [jump('VIADUCT-A')] },
      ])
      await sendDatagram(family, servers[0], client)
      assert.deepEqual(await counts(family, 'filter', 'VIADUCT-A'), [1, 1, 0])
      assert.deepEqual(await counts(family, 'filter', 'VIADUCT-B'), [2, 0])
    })

    it('reach every backend of a virtual address, and are masqueraded', async () => {
      await nat.apply([
        { op: 'set-hook', chain: 'OUTPUT', rules: [{ ...web, target: { kind: 'jump', chain: 'KUBE-SVC' } }] },
        set('KUBE-SVC', dnat(servers[0], { probability: 1 / 2 }), dnat(servers[1])),
        {
          op: 'set-hook',
          chain: 'POSTROUTING',
          rules: [{ state: { bits: XtState.dnat }, target: { kind: 'masquerade', isRandomFully: true } }],
        },
      ])
      const reached = new Set<string>()
      // One in 2^100 runs does not reach both.
      for (let i = 0; i < 100 && reached.size < 2; i++) reached.add(await backendOf(virtual, 80, client))
      assert.deepEqual([...reached].toSorted(), servers)
      const [masqueraded = 0] = await counts(family, 'nat', 'POSTROUTING')
      assert.ok(masqueraded > 0)
    })

    it('stay with their backend while the `recent` list has their source', async () => {
      const [first, second] = servers
      const chains = [`KUBE-SEP-A${bits}`, `KUBE-SEP-B${bits}`] as const
      await nat.apply([
        { op: 'set-hook', chain: 'OUTPUT', rules: [{ ...web, target: { kind: 'jump', chain: 'KUBE-SVC' } }] },
        set(
          'KUBE-SVC',
          sticky(chains[0]),
          sticky(chains[1]),
          { ...jump(chains[0]), probability: 1 / 2 },
          jump(chains[1]),
        ),
        set(chains[0], dnat(first, { recent: { list: chains[0], action: 'set' } })),
        set(chains[1], dnat(second, { recent: { list: chains[1], action: 'set' } })),
      ])
      const backend = await backendOf(virtual, 80, client)
      for (let i = 0; i < 20; i++) assert.equal(await backendOf(virtual, 80, client), backend)
    })

    it('are refused', async () => {
      const [address] = servers
      assert.equal(await backendOf(address, 8080, client), address)
      const server = { destination: { address: ip(address), prefixLength: bits }, protocol: 'tcp' } as const
      await filter.apply([
        { op: 'set-hook', chain: 'OUTPUT', rules: [{ ...server, target: { kind: 'reject' } }] },
      ])
      await assert.rejects(backendOf(address, 8080, client), { code: 'ECONNREFUSED' })
    })

    it('keep their counts in foreign rules and in unchanged rules of ours', async () => {
      const other = family === 'ipv4' ? '-s 192.0.2.1' : '-s fd00:2::1'
      await iptables(family, 'filter', '-N OTHER')
      await iptables(family, 'filter', `-A OTHER -p udp -j RETURN`)
      await iptables(family, 'filter', `-A OUTPUT -c 40 4000 ${other} -p udp -j OTHER`)
      const kept: XtRule = { protocol: 'udp', target: nothing }
      const changed = (comment: string): XtRule => ({ protocol: 'udp', comment, target: nothing })
      const hook: XtOp = { op: 'set-hook', chain: 'OUTPUT', rules: [jump('KUBE-A')] }
      await filter.apply([hook, set('KUBE-A', jump('KUBE-B'), kept, changed('before')), set('KUBE-B', kept)])
      for (let i = 0; i < 3; i++) await sendDatagram(family, servers[0], client)
      assert.deepEqual(await counts(family, 'filter', 'OUTPUT'), [3, 43])
      // KUBE-B moves, and so does every jump to it.
      await filter.apply([
        set('KUBE-A', jump('KUBE-B'), changed('new'), kept, changed('after')),
        set('KUBE-C'),
      ])
      assert.deepEqual(await counts(family, 'filter', 'OUTPUT'), [3, 43])
      assert.deepEqual(await counts(family, 'filter', 'KUBE-A'), [3, 0, 3, 0])
      assert.deepEqual(await counts(family, 'filter', 'KUBE-B'), [3])
      assert.deepEqual(await counts(family, 'filter', 'OTHER'), [3])
    })
  })

  describe(`an absent set, ${family}`, () => {
    it('apply throws ENOENT with its name; after its creation an apply without operations suffices', async () => {
      const namespace = await openRealSubject()
      const us = namespace.open()
      const xtables = us.xtables(family, 'filter')
      const name = `late-${family}`
      const rule: XtRule = { set: { name, directions: ['src'] }, target: { kind: 'drop' } }
      await assert.rejects(xtables.apply([set('KUBE-A', rule)]), (error: Error) => {
        assert.match(error.message, new RegExp(`${name} of chain KUBE-A.*ENOENT`))
        return true
      })
      await mustRun(['ipset', 'create', name, 'hash:ip', 'family', family === 'ipv4' ? 'inet' : 'inet6'])
      assert.equal((await xtables.apply([])).isWritten, true)
      await us.close()
      await iptables(family, 'filter', '-F KUBE-A')
      await mustRun(['ipset', 'destroy', name])
      await namespace.close()
    })
  })
}

describe('the lock of the tools', () => {
  let namespace: XtSubject
  let us: XtClient
  let holder: Program

  beforeEach(async () => {
    namespace = await openRealSubject()
    us = namespace.open()
    holder = new Program(['flock', process.env['XTABLES_LOCKFILE'] ?? '', 'sh', '-c', 'echo held; exec cat'])
    await holder.line((line) => line === 'held')
  })
  afterEach(async () => {
    await holder.kill()
    await us.close()
    await namespace.close()
  })

  it('EAGAIN reports that another program holds it; a later apply programs the operations', async () => {
    const xtables = us.xtables('ipv4', 'nat')
    await assert.rejects(xtables.apply([set('KUBE-A')], { lockTimeoutMs: 20 }), (error: Error) => {
      assert.match(error.message, /lock .*\/lock.*: EAGAIN \(another program .*\)/)
      return true
    })
    assert.deepEqual(await xtables.chains(), [])
    await holder.kill()
    const { isWritten } = await xtables.apply([])
    assert.deepEqual([isWritten, await xtables.chains()], [true, [{ chain: 'KUBE-A', rules: 0 }]])
  })

  it('is waited for', async () => {
    const xtables = us.xtables('ipv6', 'nat')
    const applied = xtables.apply([set('KUBE-A')], { lockTimeoutMs: 60_000 })
    // Meanwhile a call to another table returns, because it needs no lock.
    assert.deepEqual(await us.xtables('ipv4', 'nat').chains(), [])
    await holder.kill()
    assert.equal((await applied).isWritten, true)
  })

  it('delays a write, but not the count of packets in the same table', async () => {
    const xtables = us.xtables('ipv4', 'filter')
    let hasEnded = false
    const applied = xtables.apply([set('KUBE-A')], { lockTimeoutMs: 2000 }).finally(() => (hasEnded = true))
    const refused = assert.rejects(applied, { code: 'EAGAIN' })
    assert.deepEqual([...(await xtables.packets(['KUBE-A']))], [[]])
    assert.equal(hasEnded, false, 'the count came after the write that waits for the lock')
    await refused
  })

  it('a table that must stop no longer waits for it', async () => {
    const kernel = openRealKernel()
    const opened = kernel.xtables('ipv4', 'nat')
    await opened.check()
    const aboutToOpen = kernel.xtables('ipv6', 'nat')
    const waits = { lockTimeoutMs: 3_600_000 }
    const calls = [opened.apply([set('KUBE-A')], waits), aboutToOpen.apply([set('KUBE-A')], waits)]
    kernel.hurry()
    calls.push(kernel.xtables('ipv4', 'filter').apply([set('KUBE-A')], waits))
    await Promise.all(calls.map((call) => assert.rejects(call, { code: 'EAGAIN' })))
    await kernel.close()
  })
})

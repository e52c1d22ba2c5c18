// Laws of Ipvs, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import { describeVirtualServer, RealServerCursor, VirtualServerCursor } from '../../src/kernel/index.js'
import { CountersCursor, VirtualServerFlag as Flag } from '../../src/kernel/index.js'
import type { Ipvs, IpvsDump, IpvsOp, RealServer, VirtualServerKey } from '../../src/kernel/index.js'
import type { VirtualServer } from '../../src/kernel/testing.js'
import { applyAll, failures, ip, refusedWith, rejectsWith } from './law.js'

type RealSettings = RealServer['settings']

const plain = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 } as const
const plain6 = { ...plain, netmaskLength: 128 } as const
const plainReal: RealSettings = { weight: 1, forwarding: 'masquerade', upperThreshold: 0, lowerThreshold: 0 }

const web: VirtualServer = {
  key: { family: 'ipv4', protocol: 'tcp', address: ip('10.96.0.10'), port: 80 },
  settings: plain,
}
const web6: VirtualServer = {
  key: { family: 'ipv6', protocol: 'tcp', address: ip('fd00:10:96::a'), port: 80 },
  settings: plain6,
}
const marked: VirtualServer = { key: { family: 'ipv4', mark: 7 }, settings: plain }
const backend: RealServer = { key: { address: ip('10.244.1.5'), port: 8080 }, settings: plainReal }
const backend6: RealServer = { key: { address: ip('fd00:10:244::5'), port: 8080 }, settings: plainReal }

function real(address: string, settings: Partial<RealSettings> = {}): RealServer {
  return { key: { address: ip(address), port: 8080 }, settings: { ...plainReal, ...settings } }
}

function withSettings(server: VirtualServer, settings: Partial<VirtualServer['settings']>): VirtualServer {
  return { ...server, settings: { ...server.settings, ...settings } }
}

const addServer = (server: VirtualServer): IpvsOp => ({ op: 'add-virtual-server', server })
const addReal = (server: VirtualServer, realServer: RealServer): IpvsOp => ({
  op: 'add-real-server',
  server: server.key,
  real: realServer,
})

interface Entry {
  readonly key: VirtualServerKey
  readonly settings: VirtualServer['settings']
  readonly reals: readonly RealServer[]
}

/** The table as objects. Virtual servers are sorted by text, because the kernel's order is that of its hash. */
async function table(ipvs: Ipvs, family: IpFamily): Promise<readonly Entry[]> {
  const entries = entriesOf(await ipvs.dump(family))
  return entries.toSorted((a, b) => (describeVirtualServer(a.key) < describeVirtualServer(b.key) ? -1 : 1))
}

function entriesOf(dump: IpvsDump): readonly Entry[] {
  const servers = new VirtualServerCursor(dump.virtualServers)
  const reals = new RealServerCursor(dump.realServers)
  return Array.from({ length: servers.length }, (_, i) => ({
    key: servers.key(i),
    settings: servers.settings(i),
    reals: Array.from({ length: servers.realCount(i) }, (__, j) => ({
      key: reals.key(servers.firstReal(i) + j),
      settings: reals.settings(servers.firstReal(i) + j),
    })),
  }))
}

async function clear(ipvs: Ipvs): Promise<void> {
  for (const family of ['ipv4', 'ipv6'] as const) {
    const entries = await table(ipvs, family)
    await applyAll(
      ipvs,
      entries.map(({ key }): IpvsOp => ({ op: 'remove-virtual-server', server: key })),
    )
  }
}

/** Runs each law on an empty table of one Ipvs in its own namespace. */
export function ipvsContract(subject: string, open: () => Ipvs): void {
  describe(`${subject}: Ipvs`, () => {
    let ipvs: Ipvs
    before(() => {
      ipvs = open()
    })
    beforeEach(async () => {
      // Before Linux 5.16 nothing else makes the kernel load IP_VS.
      await ipvs.load()
      await clear(ipvs)
    })
    after(async () => {
      await clear(ipvs)
      await ipvs.close()
      await assert.rejects(ipvs.dump('ipv6'), { code: 'EBADF', family: 'ipv6' })
    })
    const law = (name: string, run: (ipvs: Ipvs) => Promise<void>): void => {
      it(name, () => run(ipvs))
    }
    virtualServerLaws(law)
    realServerLaws(law)
    refusalLaws(law)
    readLaws(law)
    wholeTableLaws(law)
  })
}

type Law = (name: string, run: (ipvs: Ipvs) => Promise<void>) => void

function virtualServerLaws(law: Law): void {
  const sctp: VirtualServer = {
    key: { family: 'ipv4', protocol: 'sctp', address: ip('10.96.0.11'), port: 9 },
    settings: plain,
  }
  const udp: VirtualServer = {
    key: { family: 'ipv6', protocol: 'udp', address: ip('fd00:10:96::b'), port: 53 },
    settings: plain6,
  }
  for (const server of [
    web,
    web6,
    sctp,
    udp,
    marked,
    { ...marked, key: { family: 'ipv6', mark: 0xffffffff }, settings: plain6 } as const,
    withSettings(web, { scheduler: 'sh', flags: Flag.scheduler1 | Flag.scheduler2 }),
    withSettings(web, { scheduler: 'mh', flags: Flag.scheduler1 | Flag.scheduler2 }),
    withSettings(udp, { scheduler: 'rr', flags: Flag.onePacket }),
    withSettings(web, { flags: Flag.persistent, timeoutSeconds: 10_800 }),
    withSettings(web, { flags: Flag.persistent, timeoutSeconds: 60, netmaskLength: 24 }),
    withSettings(web6, { flags: Flag.persistent, timeoutSeconds: 60, netmaskLength: 64 }),
  ]) {
    const name = `${describeVirtualServer(server.key)} ${JSON.stringify(server.settings)}`
    law(`dumps what was added: ${name}`, async (ipvs) => {
      await applyAll(ipvs, [addServer(server)])
      assert.deepEqual(await table(ipvs, server.key.family), [{ ...server, reals: [] }])
      const other = server.key.family === 'ipv4' ? 'ipv6' : 'ipv4'
      assert.deepEqual(await table(ipvs, other), [])
    })
  }

  law('set replaces the settings and keeps the real servers', async (ipvs) => {
    const next = withSettings(web, { scheduler: 'wrr', flags: Flag.persistent, timeoutSeconds: 30 })
    await applyAll(ipvs, [addServer(web), addReal(web, backend), { op: 'set-virtual-server', server: next }])
    assert.deepEqual(await table(ipvs, 'ipv4'), [{ ...next, reals: [backend] }])
  })

  law('set keeps the flags outside the mask', async (ipvs) => {
    const persistent = withSettings(web, { flags: Flag.persistent | Flag.scheduler1, timeoutSeconds: 30 })
    const none = withSettings(persistent, { flags: 0 })
    await applyAll(ipvs, [
      addServer(persistent),
      { op: 'set-virtual-server', server: none, flagsMask: Flag.scheduler1 },
    ])
    const expected = withSettings(persistent, { flags: Flag.persistent })
    assert.deepEqual(await table(ipvs, 'ipv4'), [{ ...expected, reals: [] }])
  })

  law('remove also removes the real servers', async (ipvs) => {
    await applyAll(ipvs, [
      addServer(web),
      addReal(web, backend),
      { op: 'remove-virtual-server', server: web.key },
      addServer(web),
    ])
    assert.deepEqual(await table(ipvs, 'ipv4'), [{ ...web, reals: [] }])
  })

  law('virtual servers that differ in one part of the key are distinct', async (ipvs) => {
    const { key } = web
    assert.ok('port' in key)
    const servers = [
      web,
      { ...web, key: { ...key, port: 81 } },
      { ...web, key: { ...key, protocol: 'udp' as const } },
    ]
    await applyAll(ipvs, [...servers.map(addServer), ...servers.map((server) => addReal(server, backend))])
    assert.equal((await table(ipvs, 'ipv4')).length, 3)
    await applyAll(ipvs, [{ op: 'remove-virtual-server', server: key }])
    assert.equal((await table(ipvs, 'ipv4')).length, 2)
  })

  law('zero does not change the table', async (ipvs) => {
    await applyAll(ipvs, [
      addServer(web),
      addReal(web, backend),
      { op: 'zero-virtual-server', server: web.key },
    ])
    assert.deepEqual(await table(ipvs, 'ipv4'), [{ ...web, reals: [backend] }])
  })
}

function realServerLaws(law: Law): void {
  for (const [server, realServer] of [
    [web, backend],
    [web6, backend6],
    [marked, backend],
    [web, real('0.1.2.3')],
    [web, real('127.0.0.1')],
    [web, real('240.0.0.1')],
    [web, real('10.244.1.5', { weight: 0 })],
    [web, real('10.244.1.5', { weight: 65_535 })],
    [web, real('10.244.1.5', { upperThreshold: 1000, lowerThreshold: 800 })],
    [web, real('10.244.1.5', { forwarding: 'local' })],
    [web, real('10.244.1.5', { forwarding: 'direct' })],
    [web, real('10.244.1.5', { forwarding: 'tunnel' })],
    [web, real('10.244.1.5', { forwarding: 'tunnel', tunnel: { type: 'gue', port: 5555, flags: 1 } })],
    [web, real('10.244.1.5', { forwarding: 'tunnel', tunnel: { type: 'gre', port: 0, flags: 1 } })],
    [web6, { ...backend6, settings: { ...plainReal, forwarding: 'direct' } }],
    [web, { ...backend6, settings: { ...plainReal, forwarding: 'tunnel' } }],
    [web6, { ...backend, settings: { ...plainReal, forwarding: 'tunnel' } }],
  ] as const satisfies readonly (readonly [VirtualServer, RealServer])[]) {
    const name = `${realServer.key.address} ${JSON.stringify(realServer.settings)}`
    law(`dumps what was added to ${describeVirtualServer(server.key)}: ${name}`, async (ipvs) => {
      await applyAll(ipvs, [addServer(server), addReal(server, realServer)])
      assert.deepEqual(await table(ipvs, server.key.family), [{ ...server, reals: [realServer] }])
    })
  }

  law('real servers are sorted by address bytes, then port', async (ipvs) => {
    const sorted = ['9.0.0.1', '10.0.0.2', '10.0.0.10', '100.0.0.1', '200.0.0.1'].map((text) => real(text))
    const otherPort = { ...backend, key: { address: ip('10.0.0.2'), port: 9 } }
    await applyAll(ipvs, [
      addServer(web),
      ...sorted.toReversed().map((server) => addReal(web, server)),
      addReal(web, otherPort),
    ])
    const [first, ...rest] = sorted
    assert.ok(first !== undefined)
    assert.deepEqual((await table(ipvs, 'ipv4'))[0]?.reals, [first, otherPort, ...rest])
  })

  law('set replaces the settings of one real server', async (ipvs) => {
    const other = real('10.244.1.6')
    const drained = { ...backend, settings: { ...plainReal, weight: 0 } }
    await applyAll(ipvs, [
      addServer(web),
      addReal(web, backend),
      addReal(web, other),
      { op: 'set-real-server', server: web.key, real: drained },
    ])
    assert.deepEqual((await table(ipvs, 'ipv4'))[0]?.reals, [drained, other])
  })

  law('remove removes one real server, which can then be added again', async (ipvs) => {
    const other = real('10.244.1.6')
    const ops: readonly IpvsOp[] = [addServer(web), addReal(web, backend), addReal(web, other)]
    await applyAll(ipvs, [...ops, { op: 'remove-real-server', server: web.key, real: backend.key }])
    assert.deepEqual((await table(ipvs, 'ipv4'))[0]?.reals, [other])
    await applyAll(ipvs, [addReal(web, backend)])
    assert.deepEqual((await table(ipvs, 'ipv4'))[0]?.reals, [backend, other])
  })
}

function refusalLaws(law: Law): void {
  const absent = real('10.244.1.9')
  const refusals: readonly (readonly [code: string, what: string, op: IpvsOp])[] = [
    ['EEXIST', 'a virtual server twice', addServer(web)],
    ['EEXIST', 'a real server twice', addReal(web, backend)],
    ['ESRCH', 'set without the virtual server', { op: 'set-virtual-server', server: web6 }],
    ['ESRCH', 'remove without the virtual server', { op: 'remove-virtual-server', server: web6.key }],
    ['ESRCH', 'zero without the virtual server', { op: 'zero-virtual-server', server: web6.key }],
    ['ESRCH', 'add a real server without the virtual server', addReal(web6, backend6)],
    [
      'ESRCH',
      'set a real server without the virtual server',
      { op: 'set-real-server', server: web6.key, real: backend6 },
    ],
    [
      'ESRCH',
      'remove a real server without the virtual server',
      { op: 'remove-real-server', server: web6.key, real: backend6.key },
    ],
    ['ENOENT', 'set an absent real server', { op: 'set-real-server', server: web.key, real: absent }],
    [
      'ENOENT',
      'remove an absent real server',
      { op: 'remove-real-server', server: web.key, real: absent.key },
    ],
    ['ENOENT', 'an unknown scheduler', addServer(withSettings(web6, { scheduler: 'nosuch' }))],
    [
      'ENOENT',
      'an unknown scheduler in a set',
      { op: 'set-virtual-server', server: withSettings(web, { scheduler: 'nosuch' }) },
    ],
    ['EINVAL', 'an IPv6 prefix length of 0', addServer(withSettings(web6, { netmaskLength: 0 }))],
    ['ERANGE', 'a negative weight', addReal(web, real('10.244.1.9', { weight: -1 }))],
    [
      'ERANGE',
      'a lower threshold above the upper',
      addReal(web, real('10.244.1.9', { upperThreshold: 1, lowerThreshold: 2 })),
    ],
    [
      'ERANGE',
      'a negative weight in a set',
      { op: 'set-real-server', server: web.key, real: real('10.244.1.5', { weight: -1 }) },
    ],
    ['EINVAL', 'another family without a tunnel', addReal(web, backend6)],
    [
      'EINVAL',
      'a GUE tunnel without a port',
      addReal(web, real('10.244.1.9', { forwarding: 'tunnel', tunnel: { type: 'gue', port: 0, flags: 0 } })),
    ],
    ...['224.0.0.1', '239.1.2.3', '255.255.255.255', '0.0.0.0'].map(
      (text) => ['EINVAL', `the backend ${text}`, addReal(web, real(text))] as const,
    ),
  ]
  for (const [code, what, op] of refusals) {
    law(`${code}: ${what}`, async (ipvs) => {
      await applyAll(ipvs, [addServer(web), addReal(web, backend)])
      await refusedWith(ipvs, op, code)
      assert.deepEqual(await table(ipvs, 'ipv4'), [{ ...web, reals: [backend] }])
      assert.deepEqual(await table(ipvs, 'ipv6'), [])
    })
  }
  for (const text of ['::', 'ff02::1', 'fe80::1']) {
    law(`EINVAL: the backend ${text}`, async (ipvs) => {
      await applyAll(ipvs, [addServer(web6)])
      await refusedWith(ipvs, addReal(web6, real(text)), 'EINVAL')
      assert.deepEqual(await table(ipvs, 'ipv6'), [{ ...web6, reals: [] }])
    })
  }
}

function readLaws(law: Law): void {
  const persistent = withSettings(web, { scheduler: 'wrr', flags: Flag.persistent, timeoutSeconds: 600 })
  const drained = real('10.244.1.6', { weight: 0 })

  law(
    'read returns the requested servers in their order, as in a dump, without absent ones',
    async (ipvs) => {
      const absent = { family: 'ipv4', mark: 8 } as const
      const other = { ...marked, key: { family: 'ipv6', mark: 9 }, settings: plain6 } as const
      await applyAll(ipvs, [
        addServer(marked),
        addServer(persistent),
        addReal(persistent, drained),
        addReal(persistent, backend),
        addServer(web6),
        addReal(web6, backend6),
        addServer(other),
      ])
      assert.deepEqual(entriesOf(await ipvs.read([web6.key, absent, persistent.key, marked.key])), [
        { ...web6, reals: [backend6] },
        { ...persistent, reals: [backend, drained] },
        { ...marked, reals: [] },
      ])
      assert.deepEqual(entriesOf(await ipvs.read([])), [])
    },
  )

  for (const [server, realServer] of [
    [web, backend],
    [web6, backend6],
  ] as const) {
    law(
      `read returns the counters of ${server.key.family} parallel to the records, if requested`,
      async (ipvs) => {
        await applyAll(ipvs, [addServer(server), addReal(server, realServer)])
        assert.equal((await ipvs.read([server.key])).realServerCounters, undefined)
        const { realServerCounters, virtualServerCounters } = await ipvs.read([server.key], {
          counters: true,
        })
        assert.ok(realServerCounters !== undefined && virtualServerCounters !== undefined)
        const counters = new CountersCursor(realServerCounters)
        assert.equal(counters.length, 1)
        assert.deepEqual([counters.activeConnections(0), counters.inactiveConnections(0)], [0, 0])
      },
    )
  }

  law('read returns the fields of a tunnel as in a dump', async (ipvs) => {
    const tunnel = { type: 'gue', port: 5555, flags: 1 } as const
    const tunnelled = real('10.244.1.7', { forwarding: 'tunnel', tunnel })
    await applyAll(ipvs, [addServer(web), addReal(web, tunnelled)])
    assert.deepEqual(entriesOf(await ipvs.read([web.key])), [{ ...web, reals: [tunnelled] }])
  })
}

function wholeTableLaws(law: Law): void {
  law('a failure in the middle names its operation and does not stop the others', async (ipvs) => {
    const outcome = await ipvs.apply([
      addServer(web),
      addServer(web),
      addReal(web, backend),
      addReal(web, real('224.0.0.1')),
      { op: 'remove-real-server', server: web6.key, real: backend6.key },
      addReal(web, real('10.244.1.6')),
    ])
    assert.deepEqual(failures(outcome), ['1 EEXIST', '3 EINVAL', '4 ESRCH'])
    assert.equal(outcome.applied, 3)
    assert.deepEqual(
      outcome.failures.map(({ error }) => [error.subsystem, error.operation, error.family, error.object]),
      [
        ['ipvs', 'add-virtual-server', 'ipv4', 'tcp 10.96.0.10:80'],
        ['ipvs', 'add-real-server', 'ipv4', 'tcp 10.96.0.10:80 -> 224.0.0.1:8080'],
        ['ipvs', 'remove-real-server', 'ipv6', 'tcp [fd00:10:96::a]:80 -> [fd00:10:244::5]:8080'],
      ],
    )
    assert.deepEqual(await table(ipvs, 'ipv4'), [{ ...web, reals: [backend, real('10.244.1.6')] }])
  })

  law('a batch of thousands, larger than one send, is applied completely', async (ipvs) => {
    const many = Array.from({ length: 1500 }, (_, i) => ({
      ...web,
      key: { ...web.key, address: ip(`10.97.${i >> 8}.${i & 255}`) },
    }))
    await applyAll(
      ipvs,
      many.flatMap((server) => [addServer(server), addReal(server, backend)]),
    )
    const entries = await table(ipvs, 'ipv4')
    assert.equal(entries.length, many.length)
    assert.ok(entries.every((entry) => entry.reals.length === 1))
    assert.equal((await ipvs.info()).ipv4VirtualServers, many.length)
    const again = await ipvs.apply(many.map(addServer))
    assert.equal(again.applied, 0)
    assert.deepEqual(
      failures(again),
      many.map((_, i) => `${i} EEXIST`),
    )
  })

  law('overlapping calls are answered in order', async (ipvs) => {
    const [added, dumped, removed] = await Promise.all([
      ipvs.apply([addServer(web)]),
      table(ipvs, 'ipv4'),
      ipvs.apply([{ op: 'remove-virtual-server', server: web.key }]),
    ])
    assert.deepEqual([added.applied, dumped.length, removed.applied], [1, 1, 1])
  })

  law('an empty batch has an empty outcome', async (ipvs) => {
    assert.deepEqual(await ipvs.apply([]), { applied: 0, failures: [] })
  })

  for (const family of ['ipv4', 'ipv6'] as const) {
    law(`a dump returns the counters of ${family} parallel to the records, if requested`, async (ipvs) => {
      const [server, realServer] = family === 'ipv4' ? [web, backend] : [web6, backend6]
      await applyAll(ipvs, [addServer(server), addReal(server, realServer)])
      const silent = await ipvs.dump(family)
      assert.equal(silent.virtualServerCounters, undefined)
      assert.equal(silent.realServerCounters, undefined)
      const dump = await ipvs.dump(family, { counters: true })
      assert.ok(dump.virtualServerCounters !== undefined && dump.realServerCounters !== undefined)
      for (const bytes of [dump.virtualServerCounters, dump.realServerCounters]) {
        const counters = new CountersCursor(bytes)
        assert.equal(counters.length, 1)
        assert.deepEqual(
          [
            counters.connections(0),
            counters.inBytes(0),
            counters.outPackets(0),
            counters.activeConnections(0),
          ],
          [0, 0, 0, 0],
        )
      }
    })
  }

  law('info has the version and the count of IPv4 virtual servers', async (ipvs) => {
    const original = await ipvs.info()
    assert.ok(original.version >= 0x010201)
    assert.ok(original.connectionTableSize > 0)
    assert.equal(original.ipv4VirtualServers, 0)
    await applyAll(ipvs, [addServer(web), addServer(web6)])
    assert.equal((await ipvs.info()).ipv4VirtualServers, 1)
  })

  law('a time-out of 0 keeps the value; any other replaces it', async (ipvs) => {
    const original = await ipvs.timeouts()
    const next = { tcpSeconds: 901, tcpFinSeconds: 0, udpSeconds: 302 }
    await ipvs.setTimeouts(next)
    assert.deepEqual(await ipvs.timeouts(), { ...next, tcpFinSeconds: original.tcpFinSeconds })
    await ipvs.setTimeouts(original)
    assert.deepEqual(await ipvs.timeouts(), original)
    await rejectsWith(ipvs.setTimeouts({ tcpSeconds: 0x7fffffff, tcpFinSeconds: 0, udpSeconds: 0 }), 'EINVAL')
  })
}

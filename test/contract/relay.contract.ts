// Laws of Relay, run on the model and on the kernel. test/kernel/relay.test.ts shows the traffic.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { viaductRouteProtocol } from '../../src/kernel/index.js'
import type { Relay, RelayListener, RelayOp, RelayService, Routes } from '../../src/kernel/index.js'
import type { RelayAddress } from '../../src/kernel/testing.js'
import { applyAll, failures, ip, refusedWith, rejectsWith } from './law.js'

export interface RelaySubject {
  readonly relay: Relay
  /** The routes of the same namespace. */
  readonly routes: Routes
  /** Takes the address as another program does. `sharing`: one that shares it with all that allow it. Returns how to free it. */
  readonly take: (
    address: RelayAddress,
    options?: { readonly sharing: boolean },
  ) => Promise<() => Promise<void>>
  readonly close: () => Promise<void>
}

/** The loopback interface, which every namespace has. */
const lo = 1
const port = 18_080

const web: RelayService = {
  id: 1,
  affinitySeconds: undefined,
  clusterEndpoints: [{ address: ip('127.0.0.1'), port: 9 }],
  localEndpoints: [],
  flowEndpoints: [],
  sourceRanges: [],
}

function listener(address: string, more: Partial<RelayListener> = {}): RelayListener {
  return {
    protocol: 'tcp',
    address: ip(address),
    port,
    service: 1,
    near: 'cluster',
    far: 'cluster',
    hasSourceRanges: false,
    ...more,
  }
}

const setService = (service: RelayService): RelayOp => ({
  op: 'set-service',
  service,
  name: `service ${service.id}`,
})
const setListener = (made: RelayListener): RelayOp => ({ op: 'set-listener', listener: made })
const removeListener = (made: RelayAddress): RelayOp => ({ op: 'remove-listener', listener: made })
const removeService = (id: number): RelayOp => ({ op: 'remove-service', id, name: `service ${id}` })

async function listenerCount(relay: Relay): Promise<number> {
  return (await relay.counters()).listeners
}

type Law = (name: string, run: (subject: RelaySubject) => Promise<void>) => void

/** Runs each law with an empty relay, in a namespace with `lo` up. */
export function relayContract(name: string, open: () => RelaySubject): void {
  describe(`${name}: Relay`, () => {
    let subject: RelaySubject
    const made = new Map<string, RelayAddress>()
    before(() => {
      subject = open()
    })
    afterEach(async () => {
      for (const one of made.values()) await subject.relay.apply([removeListener(one)])
      await subject.relay.apply([removeService(1), removeService(2)])
      assert.equal(await listenerCount(subject.relay), 0)
    })
    after(async () => {
      const conditions = subject.relay.nextConditions()
      await subject.relay.close()
      assert.equal(await conditions, undefined)
      await rejectsWith(subject.relay.apply([setService(web)]), 'EBADF')
      await rejectsWith(subject.relay.counters(), 'EBADF')
      await rejectsWith(subject.relay.flows('ipv4'), 'EBADF')
      await subject.close()
    })
    const remembering: Relay = {
      configure: (settings) => subject.relay.configure(settings),
      counters: () => subject.relay.counters(),
      flows: (family) => subject.relay.flows(family),
      nextConditions: () => subject.relay.nextConditions(),
      close: () => subject.relay.close(),
      apply: (ops) => {
        for (const op of ops)
          if (op.op === 'set-listener')
            made.set(`${op.listener.protocol} ${op.listener.address}`, op.listener)
        return subject.relay.apply(ops)
      },
    }
    const law: Law = (title, run) => {
      it(title, () => run({ ...subject, relay: remembering }))
    }
    for (const protocol of ['tcp', 'udp'] as const)
      for (const address of ['127.0.0.1', '::1']) listenerLaws(law, listener(address, { protocol }))
    for (const protocol of ['tcp', 'udp'] as const)
      for (const [address, single] of [
        ['0.0.0.0', '127.0.0.1'],
        ['::', '::1'],
      ] as const) {
        listenerLaws(law, listener(address, { protocol }))
        wildcardLaws(law, listener(address, { protocol }), listener(single, { protocol }))
      }
    law('lists no connections without a client', async ({ relay }) => {
      await applyAll(relay, [setService(web), setListener(listener('127.0.0.1'))])
      assert.deepEqual([...(await relay.flows('ipv4'))], [])
    })
    vipLaws(law)
    serviceLaws(law)
    batchLaws(law)
  })
}

function listenerLaws(law: Law, one: RelayListener): void {
  const title = `${one.protocol} ${one.address}`

  law(`${title}: a listener opens, changes and closes`, async ({ relay }) => {
    await applyAll(relay, [setService(web), setListener(one)])
    assert.equal(await listenerCount(relay), 1)
    await applyAll(relay, [setListener({ ...one, near: 'local', hasSourceRanges: true })])
    assert.equal(await listenerCount(relay), 1)
    await applyAll(relay, [removeListener(one)])
    assert.equal(await listenerCount(relay), 0)
  })

  law(`${title}: ENOENT without its service, and for the removal of an absent one`, async ({ relay }) => {
    await refusedWith(relay, setListener(one), 'ENOENT')
    await refusedWith(relay, removeListener(one), 'ENOENT')
  })

  law(`${title}: EADDRINUSE while another program has the port, on all addresses too`, async (subject) => {
    const { relay, take } = subject
    await applyAll(relay, [setService(web)])
    const isIpv6 = one.address.includes(':')
    for (const address of [
      one.address,
      ip(isIpv6 ? '::' : '0.0.0.0'),
      ...(isWildcard(one) ? [ip(isIpv6 ? '::1' : '127.0.0.1')] : []),
    ]) {
      const free = await take({ ...one, address })
      await refusedWith(relay, setListener(one), 'EADDRINUSE')
      await free()
      await applyAll(relay, [setListener(one), removeListener(one)])
    }
  })

  law(`${title}: the other protocol has its own ports`, async ({ relay }) => {
    const other = { ...one, protocol: one.protocol === 'tcp' ? 'udp' : 'tcp' } as const
    await applyAll(relay, [setService(web), setListener(one), setListener(other)])
    assert.equal(await listenerCount(relay), 2)
    await applyAll(relay, [removeListener(other)])
  })

  law(`${title}: one batch closes and opens it again`, async ({ relay }) => {
    await applyAll(relay, [setService(web), setListener(one)])
    await applyAll(relay, [removeListener(one), setListener(one), removeListener(one), setListener(one)])
    assert.equal(await listenerCount(relay), 1)
  })

  law(`${title}: it moves to another service`, async ({ relay }) => {
    await applyAll(relay, [setService(web), setService({ ...web, id: 2 }), setListener(one)])
    await applyAll(relay, [setListener({ ...one, service: 2 }), removeService(1)])
    await refusedWith(relay, removeService(2), 'EBUSY')
    assert.equal(await listenerCount(relay), 1)
  })
}

function isWildcard({ address }: RelayAddress): boolean {
  return address === '0.0.0.0' || address === '::'
}

function wildcardLaws(law: Law, wildcard: RelayListener, single: RelayListener): void {
  const title = `${wildcard.protocol} ${wildcard.address}`

  for (const [which, first, second] of [
    ['after', wildcard, single],
    ['before', single, wildcard],
  ] as const)
    law(`${title}: a listener of one address opens ${which} it, and closes`, async ({ relay }) => {
      await applyAll(relay, [setService(web), setService({ ...web, id: 2 })])
      for (let round = 0; round < 2; round++) {
        await applyAll(relay, [setListener({ ...first, service: 2 }), setListener(second)])
        assert.equal(await listenerCount(relay), 2)
        await applyAll(relay, [removeListener(first), removeListener(second)])
      }
    })

  law(
    `${title}: no other program shares its port, also beside a listener of one address`,
    async (subject) => {
      const { relay, take } = subject
      await applyAll(relay, [setService(web), setListener(wildcard), setListener(single)])
      await assert.rejects(take(single), { code: 'EADDRINUSE' })
      await assert.rejects(take(wildcard), { code: 'EADDRINUSE' })
      await applyAll(relay, [removeListener(wildcard), removeListener(single)])
      const free = await take(single)
      await refusedWith(relay, setListener(wildcard), 'EADDRINUSE')
      await free()
    },
  )

  law(
    `${title}: EADDRINUSE beside a listener of one address while another program has the port at another one, also if that shares it`,
    async (subject) => {
      const { relay, take } = subject
      const isIpv6 = wildcard.address === '::'
      // IPv6 listens on an address before its route.
      const own = { ...wildcard, address: ip(isIpv6 ? 'fd00:10:96::77' : '127.0.0.9') }
      for (const sharing of [false, true]) {
        const free = await take(single, { sharing })
        await applyAll(relay, [setService(web), setListener(own)])
        await refusedWith(relay, setListener(wildcard), 'EADDRINUSE')
        await refusedWith(relay, setListener(single), 'EADDRINUSE')
        await free()
        await applyAll(relay, [setListener(wildcard), setListener(single)])
        await assert.rejects(take(single, { sharing }), { code: 'EADDRINUSE' })
        await applyAll(relay, [own, wildcard, single].map(removeListener))
      }
    },
  )
}

function vipLaws(law: Law): void {
  const vip = listener('10.96.0.77')
  law('ipv4: EADDRNOTAVAIL until the address has a local route', async ({ relay, routes }) => {
    const route = { address: vip.address, interfaceIndex: lo, protocol: viaductRouteProtocol }
    await applyAll(relay, [setService(web)])
    await refusedWith(relay, setListener(vip), 'EADDRNOTAVAIL')
    await applyAll(routes, [{ op: 'add-route', route }])
    await applyAll(relay, [setListener(vip)])
    await applyAll(routes, [{ op: 'remove-route', route }])
    assert.equal(await listenerCount(relay), 1)
  })

  law('ipv6: a listener opens before its local route', async ({ relay }) => {
    await applyAll(relay, [setService(web), setListener(listener('fd00:10:96::77'))])
    assert.equal(await listenerCount(relay), 1)
  })
}

function serviceLaws(law: Law): void {
  law('a service is created, replaced and removed', async ({ relay }) => {
    await applyAll(relay, [setService(web), setService({ ...web, affinitySeconds: 10 }), removeService(1)])
    await refusedWith(relay, removeService(1), 'ENOENT')
  })

  law('EBUSY while a listener refers to it', async ({ relay }) => {
    await applyAll(relay, [setService(web), setListener(listener('127.0.0.1'))])
    await refusedWith(relay, removeService(1), 'EBUSY')
    await applyAll(relay, [removeListener(listener('127.0.0.1')), removeService(1)])
  })

  law('settings are accepted with networks, interfaces and without', async ({ relay }) => {
    const networks = [{ family: 'ipv4', address: ip('10.244.0.0'), prefixLength: 16 }] as const
    await relay.configure({
      nearNetworks: networks,
      nearInterfaces: ['cni0', 'veth+'],
      udpIdleMs: 250,
      nodePortAddresses: [ip('192.0.2.1'), ip('2001:db8::1')],
    })
    await relay.configure({ nearNetworks: [], nearInterfaces: [], udpIdleMs: 1000, nodePortAddresses: [] })
  })
}

function batchLaws(law: Law): void {
  law('a failure does not stop the later operations, and names its object', async ({ relay }) => {
    const outcome = await relay.apply([
      removeService(7),
      setService(web),
      setListener(listener('192.0.2.99')),
      setListener(listener('127.0.0.1')),
    ])
    assert.deepEqual(failures(outcome), ['0 ENOENT', '2 EADDRNOTAVAIL'])
    assert.equal(outcome.applied, 2)
    const objects = outcome.failures.map(({ error }) => `${error.subsystem} ${error.object} ${error.family}`)
    assert.deepEqual(objects, ['relay service 7 none', `relay tcp 192.0.2.99:${port} ipv4`])
    assert.equal(await listenerCount(relay), 1)
  })

  law('an empty batch does nothing', async ({ relay }) => {
    assert.deepEqual(await relay.apply([]), { applied: 0, failures: [] })
  })
}

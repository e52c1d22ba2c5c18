// Laws of Ports, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import { describePlace, type Listener, type PortPlace, type Ports } from '../../src/kernel/index.js'
import { applyAll, ip, refusedWith, rejectsWith } from './law.js'

/** A socket of another program. */
export interface Taken extends PortPlace {
  readonly protocol: 'tcp' | 'udp'
  /** An IPv6 socket on every address that takes IPv4 too. */
  readonly isDualStack?: boolean
}

export interface PortsSubject {
  readonly ports: Ports
  /** Lets another program bind the port. Resolves with its end; undefined: the port is taken. */
  take(taken: Taken): Promise<(() => Promise<void>) | undefined>
}

const port = 30080

function place(
  family: IpFamily,
  protocol: 'tcp' | 'udp',
  address?: string,
  number = port,
): PortPlace & { readonly protocol: 'tcp' | 'udp' } {
  return { family, protocol, address: address === undefined ? undefined : ip(address), port: number }
}

const loopback = { ipv4: '127.0.0.1', ipv6: '::1' } as const

/** `tcp 127.0.0.1:30080 held`. */
function named(listener: Listener): string {
  return `${describePlace(listener)}${listener.isHeld ? ' held' : ''}`
}

/** Runs in one network namespace with no address but those of `lo`. */
export function portsContract(subject: string, open: () => PortsSubject): void {
  describe(`${subject}: Ports`, () => {
    let lab: PortsSubject
    before(() => {
      lab = open()
    })
    afterEach(async () => {
      const held = await lab.ports.list()
      await applyAll(
        lab.ports,
        held.map((one) => ({ op: 'release', place: one })),
      )
    })
    after(async () => {
      await lab.ports.close()
      await lab.ports.close()
      await rejectsWith(lab.ports.list(), 'EBADF')
      await rejectsWith(lab.ports.find('ipv4', [{ protocol: 'tcp', port }]), 'EBADF')
    })

    for (const family of ['ipv4', 'ipv6'] as const) {
      for (const protocol of ['tcp', 'udp'] as const) {
        for (const address of [undefined, loopback[family]]) {
          const wanted = place(family, protocol, address)
          const title = `${family} ${describePlace(wanted)}`

          it(`holds ${title} against every other program`, async () => {
            await applyAll(lab.ports, [{ op: 'hold', place: wanted }])
            assert.deepEqual(await lab.ports.list(), [wanted])
            for (const other of [undefined, loopback[family]])
              assert.equal(await lab.take(place(family, protocol, other)), undefined)
          })

          it(`holds ${title} once, and frees it`, async () => {
            await applyAll(lab.ports, [
              { op: 'hold', place: wanted },
              { op: 'hold', place: wanted },
              { op: 'release', place: wanted },
            ])
            await refusedWith(lab.ports, { op: 'release', place: wanted }, 'ENOENT')
            const end = await lab.take(wanted)
            assert.ok(end !== undefined)
            await end()
          })

          it(`reports another program at ${title}`, async () => {
            const end = await lab.take(wanted)
            for (const other of [undefined, loopback[family]])
              await refusedWith(
                lab.ports,
                { op: 'hold', place: place(family, protocol, other) },
                'EADDRINUSE',
              )
            const [found, ...rest] = await lab.ports.find(family, [{ protocol, port }])
            assert.deepEqual(rest, [])
            assert.ok(found !== undefined && end !== undefined)
            assert.equal(named(found), describePlace(wanted))
            assert.deepEqual([found.uid, found.isOwn], [0, false])
            assert.match(found.process?.name ?? '', /^python3/)
            await end()
            assert.deepEqual(await lab.ports.find(family, [{ protocol, port }]), [])
            await applyAll(lab.ports, [{ op: 'hold', place: wanted }])
          })
        }
      }
    }

    it('goes on after a failure', async () => {
      const ops = [
        { op: 'release', place: place('ipv4', 'tcp') },
        { op: 'hold', place: place('ipv4', 'tcp', '192.0.2.1') },
        { op: 'hold', place: place('ipv4', 'tcp') },
      ] as const
      const { applied, failures, storeError } = await lab.ports.apply(ops)
      assert.deepEqual(
        failures.map(({ index, error }) => `${index} ${error.message}`),
        ['0 ports: release tcp *:30080: ENOENT', '1 ports: hold tcp 192.0.2.1:30080: EADDRNOTAVAIL'],
      )
      assert.deepEqual([applied, storeError], [1, undefined])
    })

    it('holds the families and protocols of one port apart', async () => {
      const places = [place('ipv4', 'tcp'), place('ipv4', 'udp'), place('ipv6', 'tcp'), place('ipv6', 'udp')]
      await applyAll(
        lab.ports,
        places.map((one) => ({ op: 'hold', place: one })),
      )
      assert.equal((await lab.ports.list()).length, places.length)
    })

    it('shows its own held ports as held', async () => {
      await applyAll(lab.ports, [
        { op: 'hold', place: place('ipv4', 'tcp') },
        { op: 'hold', place: place('ipv4', 'udp', '127.0.0.1') },
      ])
      const asked = [
        { protocol: 'tcp', port },
        { protocol: 'udp', port },
      ] as const
      const found = (await lab.ports.find('ipv4', asked)).map(named)
      assert.deepEqual(found.toSorted(), ['tcp *:30080 held', 'udp 127.0.0.1:30080 held'])
    })

    it('finds a socket of both families for each of them', async () => {
      const taken = { ...place('ipv6', 'tcp'), isDualStack: true }
      const end = await lab.take(taken)
      for (const family of ['ipv4', 'ipv6'] as const) {
        const found = await lab.ports.find(family, [{ protocol: 'tcp', port }])
        assert.deepEqual(found.map(named), ['tcp *:30080'])
        await refusedWith(lab.ports, { op: 'hold', place: place(family, 'tcp') }, 'EADDRINUSE')
      }
      await end?.()
    })

    it('finds no socket of the other family, protocol or port', async () => {
      const end = await lab.take(place('ipv6', 'tcp'))
      assert.deepEqual(await lab.ports.find('ipv4', [{ protocol: 'tcp', port }]), [])
      assert.deepEqual(await lab.ports.find('ipv6', [{ protocol: 'udp', port }]), [])
      const neighbours = [port - 1, port + 1].map((number) => ({ protocol: 'tcp', port: number }) as const)
      assert.deepEqual(await lab.ports.find('ipv6', neighbours), [])
      await end?.()
    })

    for (const count of [1, 2, 128, 129, 2000]) {
      it(`finds sockets among ${count} ports`, async () => {
        const asked = Array.from({ length: count }, (_, i) => ({ protocol: 'udp', port: port + i }) as const)
        const last = port + count - 1
        await applyAll(lab.ports, [
          { op: 'hold', place: place('ipv4', 'udp', undefined, port - 1) },
          { op: 'hold', place: place('ipv4', 'udp', undefined, last) },
          { op: 'hold', place: place('ipv4', 'udp', undefined, last + 1) },
        ])
        const found = await lab.ports.find('ipv4', asked)
        assert.deepEqual(found.map(named), [`udp *:${last} held`])
      })
    }
  })
}

// Node ports of userspace mode on all addresses, beside sockets of other programs (issue 35, E10).
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab } from '../support/pipeline-lab.js'

const addresses = ['192.0.2.1', '192.0.2.2']
const nodePort = [
  set(service('np', '10.96.0.3', { type: 'NodePort', ports: [port(80, { nodePort: 30080 })] })),
  set(slice('np-1', 'np', ['10.3.0.1'])),
]
/** Longer than the longest time until a listener is tried again. */
const retryMs = 40_000

class Lab extends PipelineLab {
  constructor() {
    super({ config: { mode: 'userspace' } })
  }

  /** With these sockets of other programs: `192.0.2.1:30080`. */
  static async start(...taken: readonly string[]): Promise<Lab> {
    const lab = new Lab()
    for (const place of taken) lab.kernel.relay.foreignSockets.add(`tcp ${place}`)
    for (const address of addresses) await lab.addAddress(address)
    await lab.deliver(...nodePort, synced)
    return lab
  }

  async addAddress(address: string): Promise<void> {
    const added = { address: ip(address), prefixLength: 24, interfaceIndex: 1 }
    await this.kernel.routes.apply([{ op: 'add-address', address: added }])
  }

  /** Ends the sockets of other programs. */
  free(): void {
    this.kernel.relay.foreignSockets.clear()
  }

  /** The addresses of the listeners of the node port. */
  get places(): readonly string[] {
    const ofPort = [...this.kernel.relay.listeners.values()].filter((listener) => listener.port === 30080)
    return ofPort.map(({ address }) => address).toSorted()
  }

  /** The listeners that were reported, by the last words of the name. */
  get reported(): readonly string[] {
    const lines = this.log.find('error', 'Network programming failed')
    return lines.map(({ message }) => /set-listener \S+ (\S+?): /u.exec(message)?.[1] ?? message)
  }
}

describe('a node port on all addresses', () => {
  it('has a listener for each other address where another program has one, and one again after its end', async () => {
    const lab = await Lab.start('192.0.2.1:30080')
    assert.deepEqual(lab.places, ['127.0.0.1', '192.0.2.2'])
    await lab.addAddress('192.0.2.3')
    await lab.clock.advance(0)
    assert.deepEqual(lab.places, ['127.0.0.1', '192.0.2.2', '192.0.2.3'])
    assert.deepEqual(lab.reported, ['192.0.2.1:30080'])
    lab.free()
    const ops = lab.kernel.relay.batches
    ops.take()
    await lab.clock.advance(retryMs)
    assert.deepEqual(lab.places, ['0.0.0.0'])
    // The new listener opens before the former ones close: no client is refused.
    assert.deepEqual(
      ops.take().map(({ op }) => op),
      ['set-listener', 'remove-listener', 'remove-listener', 'remove-listener'],
    )
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    await lab.clock.advance(retryMs)
    assert.deepEqual(ops.take(), [])
    await lab.stop()
  })

  it('is one problem where another program has every address, and opens after its end', async () => {
    const lab = await Lab.start('0.0.0.0:30080')
    assert.deepEqual([lab.places, lab.reported], [[], ['0.0.0.0:30080']])
    lab.free()
    await lab.clock.advance(retryMs)
    assert.deepEqual(lab.places, ['0.0.0.0'])
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    await lab.stop()
  })

  it('leaves the problem of an external IP of the Service at one of its addresses, where another program has all of them', async () => {
    const lab = new Lab()
    for (const place of ['0.0.0.0', '10.96.0.3']) lab.kernel.relay.foreignSockets.add(`tcp ${place}:30080`)
    for (const address of addresses) await lab.addAddress(address)
    const both = service('np', '10.96.0.3', {
      type: 'NodePort',
      externalIPs: ['192.0.2.1'],
      ports: [port(30_080, { nodePort: 30_080 })],
    })
    await lab.deliver(set(both), set(slice('np-1', 'np', ['10.3.0.1'])), synced)
    assert.deepEqual(lab.reported.toSorted(), ['0.0.0.0:30080', '10.96.0.3:30080', '192.0.2.1:30080'])
    lab.free()
    await lab.clock.advance(retryMs)
    assert.deepEqual(lab.places, ['0.0.0.0', '10.96.0.3', '192.0.2.1'])
    await lab.stop()
  })

  // The problem of the cluster IP was reported as over, and its listener was not tried again.
  it('leaves the problem of a cluster IP that is one of its addresses, as with NodeLocal DNSCache', async () => {
    const lab = await Lab.start('0.0.0.0:30080')
    await lab.deliver(
      set(service('dns', '192.0.2.1', { ports: [port(30_080)] })),
      set(slice('dns-1', 'dns', ['10.3.0.9'])),
    )
    assert.deepEqual(lab.reported, ['0.0.0.0:30080', '192.0.2.1:30080'])
    await lab.deliver(set(slice('np-1', 'np', ['10.3.0.2'])))
    const recovered = lab.log.find('info', 'Network programming recovered')
    assert.deepEqual(
      recovered.map(({ message }) => message),
      [],
    )
    lab.free()
    await lab.clock.advance(retryMs)
    assert.deepEqual(lab.places, ['0.0.0.0', '192.0.2.1'])
    await lab.stop()
  })

  it('follows its Service while it has a listener for each address', async () => {
    const lab = await Lab.start('192.0.2.1:30080')
    await lab.deliver(set(slice('np-1', 'np', [])))
    assert.deepEqual(lab.places, [])
    await lab.deliver(set(slice('np-1', 'np', ['10.3.0.2'])))
    assert.deepEqual(lab.places, ['127.0.0.1', '192.0.2.2'])
    await lab.deliver(remove('Service', 'np'))
    assert.deepEqual([lab.places, lab.kernel.relay.services.size], [[], 0])
    const { reported } = lab
    await lab.clock.advance(retryMs)
    assert.deepEqual(lab.reported, reported)
    await lab.stop()
  })

  // Before, a listener that was refused before the relay failed as a whole was not tried again.
  it('is tried again when the relay fails as a whole between its attempts', async () => {
    const lab = new Lab()
    const { relay } = lab.kernel
    relay.foreignSockets.add('tcp 192.0.2.1:30080')
    let isBroken = false
    relay.batches.plan = {
      fault: ({ op }) => {
        // The batch with the listener on all addresses is the last one that passes.
        if (op === 'set-listener') isBroken = true
      },
      callFault: () => (isBroken ? constants.errno.ENOMEM : undefined),
    }
    for (const address of addresses) await lab.addAddress(address)
    await lab.deliver(...nodePort, synced)
    assert.deepEqual(lab.places, [])
    relay.batches.plan = {}
    await lab.clock.advance(retryMs)
    assert.deepEqual(lab.places, ['127.0.0.1', '192.0.2.2'])
    await lab.stop()
  })

  it('stays beside a VIP that has the port, and leaves it to its Service', async () => {
    const lab = await Lab.start()
    await lab.deliver(
      set(service('vip', '10.96.0.4', { ports: [port(30_080)] })),
      set(slice('vip-1', 'vip', ['10.3.0.9'])),
    )
    assert.deepEqual(lab.places, ['0.0.0.0', '10.96.0.4'])
    assert.deepEqual(lab.reported, [])
    await lab.stop()
  })
})

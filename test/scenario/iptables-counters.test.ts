// The counters of iptables mode beside passes: the reading of a row, and what changes before the row is made.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { PortCounters } from '../../src/engine/index.js'
import { route } from '../../src/routing/index.js'
import { IptablesLab } from '../support/iptables-lab.js'
import { ip } from '../support/routes.js'
import { endpoint, remove, service, set, slice, synced } from '../support/objects.js'

/** A node with counters, whose rows a test makes when it wants. */
class CountersLab extends IptablesLab {
  /** Every rule that leads to the address has this count from now on. */
  count(address: string, connections: number): void {
    const { kernel } = this.kernel.xtables('ipv4', 'nat')
    for (const [chain, rules] of kernel.chains) {
      const counts = rules.map((rule) => (kernel.text(rule).includes(address) ? connections : 0))
      if (counts.some((count) => count > 0)) kernel.counted.set(chain, counts)
    }
  }

  /** Reads the counters. Returns the row of a Service, with the Service as it is when the row is made. */
  async read(): Promise<(name: string) => PortCounters> {
    const pipeline = this.pipelines.get('ipv4')
    const reading = await pipeline?.readCounters?.()
    return (name) => {
      const [port] = pipeline?.services.servicePortsOf(`default/${name}`) ?? []
      assert.ok(port && pipeline)
      const counters = reading?.(route(port, pipeline.services.endpoints(port), this.node.facts))
      assert.ok(counters)
      return counters
    }
  }
}

const former = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]

describe('the counters of iptables mode, if a pass ends between the reading and the row', () => {
  const cases = [
    {
      name: 'are not those of the endpoint before',
      change: set(slice('web-1', 'web', ['10.1.0.2'])),
      of: (row: PortCounters) =>
        [ip('10.1.0.1'), ip('10.1.0.2')].map((address) => row.endpoint({ address, port: 8080 })),
      before: [{ connections: 3 }, {}],
    },
    {
      name: 'are not those of the frontend before',
      change: set(service('web', '10.96.0.2')),
      of: (row: PortCounters) =>
        [ip('10.96.0.1'), ip('10.96.0.2')].map((address) =>
          row.frontend({ kind: 'address', protocol: 'tcp', address, port: 80 }),
        ),
      before: [{ connections: 5 }, {}],
    },
  ]
  for (const { name, change, of, before } of cases)
    it(name, async () => {
      const lab = new CountersLab()
      await lab.deliver(...former, synced)
      lab.count('10.1.0.1:8080', 3)
      lab.count('10.96.0.1/32', 5)
      const row = await lab.read()
      assert.deepEqual(of(row('web')), before)
      await lab.deliver(change)
      assert.deepEqual(of(row('web')), [{}, {}])
      // The next reading has them.
      const next = of((await lab.read())('web'))
      assert.deepEqual(
        next.map(({ connections }) => connections !== undefined),
        [false, true],
      )
      await lab.stop()
    })
})

describe('the counters of iptables mode, if a pause of the reading changes chains', () => {
  it('are not those of another chain', async () => {
    const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]
    const late = [set(service('late', '10.96.0.3')), set(slice('late-1', 'late', ['10.3.0.1']))]
    // With affinity each endpoint has a chain: a part of the listing, and more.
    const large = [
      set(service('large', '10.96.0.4', { sessionAffinity: 'ClientIP' })),
      set(
        slice(
          'large-1',
          'large',
          Array.from({ length: 1100 }, (_, i) => endpoint(`10.4.${i >> 8}.${i & 255}`)),
        ),
      ),
    ]
    const lab = new CountersLab()
    await lab.deliver(...shop, ...large, synced)
    let pauses = 0
    const pause = lab.clock.pause.bind(lab.clock)
    lab.clock.pause = async () => {
      await pause()
      if (++pauses > 1) return
      await lab.deliver(remove('Service', 'shop'))
      await lab.deliver(...shop, ...late)
      lab.count('10.3.0.1:8080', 7)
    }
    const row = await lab.read()
    assert.deepEqual([row('shop').total, row('late').total], [{ connections: 0 }, { connections: 7 }])
    await lab.stop()
  })
})

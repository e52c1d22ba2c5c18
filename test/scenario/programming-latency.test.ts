import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readLabels } from '../../src/source/index.js'
import { remove, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

/** Number of observations of one family, and their sum in seconds. */
async function latencies(lab: PipelineLab, family: 'IPv4' | 'IPv6'): Promise<readonly [number, number]> {
  const text = await lab.registry.metrics()
  const value = (suffix: string): number => {
    const name = `kubeproxy_network_programming_duration_seconds_${suffix}{ip_family="${family}"}`
    const line = text.split('\n').find((one) => one.startsWith(`${name} `))
    return Number(line?.slice(name.length) ?? 0)
  }
  return [value('count'), value('sum')]
}

for (const mode of ['ipvs', 'iptables'] as const) {
  describe(`the time of a change of endpoints, in ${mode} mode`, () => {
    it('is observed for slices whose endpoints changed, not for others of the batch', async () => {
      const lab = new PipelineLab({ config: { mode } })
      const startMs = lab.clock.unixMs()
      const at = (seconds: number) => ({ lastChangeMs: startMs + seconds * 1000 })
      await lab.deliver(set(service('web', '10.96.0.1')), set(slice('a', 'web', ['10.1.0.1'])), synced)
      await lab.clock.advance(10_000)
      await lab.deliver(set(slice('a', 'web', ['10.1.0.1', '10.1.0.2'], at(8))))
      assert.deepEqual(await latencies(lab, 'IPv4'), [1, 2])
      await lab.clock.advance(3_600_000)
      const relabelled = { ...at(8), labels: { [readLabels.zone]: 'x' } }
      await lab.deliver(
        set(slice('a', 'web', ['10.1.0.2', '10.1.0.1'], relabelled)),
        set(slice('b', 'web', ['10.1.0.3'], at(3609))),
      )
      assert.deepEqual(await latencies(lab, 'IPv4'), [2, 3])
      assert.deepEqual(await latencies(lab, 'IPv6'), [0, 0])
      await lab.stop()
    })

    it('is not observed for a Service that lost a slice in the same run', async () => {
      const lab = new PipelineLab({ config: { mode } })
      const startMs = lab.clock.unixMs()
      const at = (seconds: number) => ({ lastChangeMs: startMs + seconds * 1000 })
      await lab.deliver(
        set(service('web', '10.96.0.1')),
        set(service('shop', '10.96.0.2')),
        set(slice('a', 'web', ['10.1.0.1'])),
        set(slice('b', 'web', ['10.1.0.2'])),
        synced,
      )
      await lab.clock.advance(10_000)
      await lab.deliver(
        set(slice('a', 'web', ['10.1.0.3'], at(8))),
        set(slice('c', 'shop', ['10.1.0.4'], at(7))),
        remove('EndpointSlice', 'b'),
      )
      assert.deepEqual(await latencies(lab, 'IPv4'), [1, 3])
      await lab.stop()
    })
  })
}

// The periods of the configuration in each mode: the time between two syncs, and the time until a pending change is late.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]
const change = set(slice('web-1', 'web', ['10.1.0.9']))
const callFault = (): number => constants.errno.EAGAIN

/** Time of the last sync of IPv4, in Unix seconds. */
async function lastSync(lab: PipelineLab): Promise<number> {
  const name = 'kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}'
  const lines = (await lab.registry.metrics()).split('\n')
  return Number(lines.find((line) => line.startsWith(name))?.slice(name.length))
}

for (const mode of ['ipvs', 'iptables'] as const) {
  describe(`the periods of ${mode} mode`, () => {
    it('minSyncPeriod separates the end of a sync from the next one, and does not delay the first', async () => {
      const lab = new PipelineLab({ config: { mode, [mode]: { minSyncPeriodMs: 5000 } } })
      await lab.deliver(...web, synced)
      const first = lab.clock.unixMs() / 1000
      assert.equal(await lastSync(lab), first)
      await lab.clock.advance(1000)
      await lab.deliver(change)
      await lab.clock.advance(3999)
      assert.equal(await lastSync(lab), first)
      await lab.clock.advance(1)
      assert.equal(await lastSync(lab), first + 5)
      await lab.stop()
    })

    it('a change that is pending for two periods of syncPeriod is late', async () => {
      const lab = new PipelineLab({ config: { mode, [mode]: { syncPeriodMs: 5000 } } })
      await lab.deliver(...web, synced)
      lab.kernel.ipvs.batches.plan = { callFault }
      lab.kernel.xtables('ipv4', 'nat').plan = { callFault }
      await lab.deliver(change)
      await lab.clock.advance(9999)
      assert.ok(lab.isHealthy.ipv4())
      await lab.clock.advance(1)
      assert.equal(lab.isHealthy.ipv4(), false)
      await lab.stop()
    })
  })
}

// The values of kube-proxy's metrics after events, in each mode.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { KernelError } from '../../src/errors.js'
import type { ProxyMode } from '../../src/config/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { linesWith } from '../support/iptables-lab.js'
import { endpoint, port, service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]
const family = '{ip_family="IPv4"}'
const change = set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))
const localOnly = {
  type: 'NodePort',
  externalIPs: ['192.0.2.50'],
  externalTrafficPolicy: 'Local',
  internalTrafficPolicy: 'Local',
} as const
const elsewhere = [
  set(service('far', '10.96.0.2', localOnly)),
  set(slice('far-1', 'far', [endpoint('10.2.0.1', { nodeName: 'there' })])),
]

/** Sample lines that begin with this text. */
async function samples(lab: PipelineLab, start: string): Promise<readonly string[]> {
  const lines = (await lab.registry.metrics()).split('\n')
  return lines.filter((line) => line.startsWith(start))
}

async function assertSamples(lab: PipelineLab, expected: readonly string[]): Promise<void> {
  const lines = new Set(await samples(lab, 'kubeproxy_'))
  for (const line of expected) assert.ok(lines.has(line), line)
}

/** The expected samples for each policy. */
function noneHere(count: number): readonly string[] {
  const name = 'kubeproxy_sync_proxy_rules_no_local_endpoints_total'
  return ['internal', 'external'].map(
    (policy) => `${name}{ip_family="IPv4",traffic_policy="${policy}"} ${count}`,
  )
}

/** Makes every write of an IPv4 table fail. Call the result to end this. */
function refuseTables(lab: PipelineLab): () => void {
  const allXtables = (['nat', 'filter'] as const).map((table) => lab.kernel.xtables('ipv4', table))
  for (const xtables of allXtables)
    xtables.plan = { callFault: (call) => (call === 'apply' ? constants.errno.EAGAIN : undefined) }
  return () => {
    for (const xtables of allXtables) xtables.plan = {}
  }
}

/** A lab whose tables cannot be watched, so that a look comes every second. Changes wait for it. */
function unwatched(): PipelineLab {
  const lab = new PipelineLab({ config: { mode: 'iptables', iptables: { minSyncPeriodMs: 1000 } } })
  lab.kernel.look(['ipv4', 'ipv6']).watchTables = () => {
    throw new KernelError({
      errno: constants.errno.EMFILE,
      subsystem: 'xtables',
      operation: 'open socket',
    })
  }
  return lab
}

for (const mode of ['ipvs', 'iptables'] as const satisfies readonly ProxyMode[]) {
  describe(`metrics of ${mode} mode`, () => {
    it('count syncs, and have the times of the last request and the last success', async () => {
      const lab = new PipelineLab({ config: { mode } })
      await lab.deliver(...web, synced)
      const startSeconds = lab.clock.unixMs() / 1000
      await lab.clock.advance(10_000)
      await lab.deliver(change)
      await assertSamples(lab, [
        `kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds${family} ${startSeconds + 10}`,
        `kubeproxy_sync_proxy_rules_last_timestamp_seconds${family} ${startSeconds + 10}`,
      ])
      const [counted = ''] = await samples(lab, `kubeproxy_sync_proxy_rules_duration_seconds_count${family}`)
      assert.ok(Number(counted.split(' ')[1]) >= 2, counted)
      await lab.stop()
    })

    it('count changes and pending changes of both families together (Q-15)', async () => {
      const lab = new PipelineLab({ config: { mode } })
      await lab.deliver(...web, synced)
      lab.intake.deliver([...elsewhere, change])
      await assertSamples(lab, [
        'kubeproxy_sync_proxy_rules_service_changes_pending 1',
        'kubeproxy_sync_proxy_rules_endpoint_changes_pending 2',
      ])
      await lab.deliver()
      await assertSamples(lab, [
        'kubeproxy_sync_proxy_rules_service_changes_pending 0',
        'kubeproxy_sync_proxy_rules_endpoint_changes_pending 0',
        'kubeproxy_sync_proxy_rules_service_changes_total 2',
        'kubeproxy_sync_proxy_rules_endpoint_changes_total 3',
      ])
      await lab.stop()
    })

    it('count Services without local endpoints, by policy, once for all ports', async () => {
      const lab = new PipelineLab({ config: { mode } })
      const counts = async (): Promise<readonly string[]> =>
        await samples(lab, 'kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4"')
      await lab.deliver(...elsewhere, synced)
      assert.deepEqual(await counts(), noneHere(1))
      const ports = [port(80, { name: 'a' }), port(443, { name: 'b' })]
      const on = (nodeName: string): ObjectEvent =>
        set(
          slice('far-1', 'far', [endpoint('10.2.0.1', { nodeName })], {
            ports: ports.map(({ name, protocol }) => ({ name, protocol, port: 8080 })),
          }),
        )
      await lab.deliver(set(service('far', '10.96.0.2', { ...localOnly, ports })), on('there'))
      assert.deepEqual(await counts(), noneHere(1))
      await lab.deliver(set(service('far', '10.96.0.2', { ...localOnly, ports: ports.slice(1) })))
      assert.deepEqual(await counts(), noneHere(1))
      await lab.deliver(on('here'))
      assert.deepEqual(await counts(), noneHere(0))
      await lab.stop()
    })

    it('count failed writes of tables, which are retried before the end of the sync period (Q-07)', async () => {
      const lab = new PipelineLab({ config: { mode } })
      const repair = refuseTables(lab)
      await lab.deliver(...elsewhere, synced)
      const name = 'kubeproxy_sync_proxy_rules_iptables_restore_failures_total'
      const [failed = ''] = await samples(lab, `${name}{ip_family="IPv4"}`)
      assert.ok(Number(failed.split(' ')[1]) > 0, failed)
      assert.deepEqual(await samples(lab, `${name}{ip_family="IPv6"}`), [])
      repair()
      await lab.clock.advance(5000)
      assert.ok(lab.log.find('info', 'Network programming recovered').length > 0)
      await lab.stop()
    })
  })
}

describe('metrics of iptables mode alone', () => {
  const full = 'kubeproxy_sync_full_proxy_rules_duration_seconds'
  const partial = 'kubeproxy_sync_partial_proxy_rules_duration_seconds'
  const partialFailures = 'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total'

  it('distinguish full and partial syncs, also for failures', async () => {
    const lab = new PipelineLab({ config: { mode: 'iptables' } })
    await lab.deliver(...web, synced)
    const fullCount = await samples(lab, `${full}_count${family}`)
    assert.match(fullCount.join(), / [1-9]/u)
    for (const name of [`${partial}_count`, partialFailures])
      assert.deepEqual(await samples(lab, `${name}{`), [])
    await lab.deliver(change)
    assert.deepEqual(await samples(lab, `${full}_count${family}`), fullCount)
    await assertSamples(lab, [`${partial}_count${family} 1`])
    const repair = refuseTables(lab)
    await lab.deliver(...web.slice(1))
    await assertSamples(lab, [`${partialFailures}${family} 1`])
    repair()
    await lab.stop()
  })

  // Such a sync counted as a full one.
  it('count a change that is written after a look at the size of the tables as a partial sync', async () => {
    const lab = unwatched()
    await lab.deliver(...web, synced)
    await lab.clock.advance(5000)
    const fullCount = await samples(lab, `${full}_count${family}`)
    await lab.clock.advance(300)
    await lab.deliver(change)
    await lab.clock.advance(1000)
    assert.deepEqual(await samples(lab, `${full}_count${family}`), fullCount)
    await assertSamples(lab, [`${partial}_count${family} 1`])
    await lab.stop()
  })

  it('count the retries of a full sync as full syncs', async () => {
    const lab = unwatched()
    const repair = refuseTables(lab)
    await lab.deliver(...web, synced)
    await lab.clock.advance(10_000)
    repair()
    await lab.clock.advance(10_000)
    assert.equal(linesWith(lab.kernel.xtNamespace, '--to-destination 10.1.0.1:8080').length, 1)
    for (const name of [`${partial}_count`, partialFailures])
      assert.deepEqual(await samples(lab, `${name}{`), [])
    await lab.stop()
  })

  it('count rules in the kernel, and rules of the last sync', async () => {
    const lab = new PipelineLab({ config: { mode: 'iptables' } })
    await lab.deliver(...web, synced)
    const rules = async (name: string): Promise<number> => {
      const [line = ''] = await samples(lab, `${name}{ip_family="IPv4",table="nat"}`)
      return Number(line.split(' ')[1])
    }
    const total = 'kubeproxy_sync_proxy_rules_iptables_total'
    const last = 'kubeproxy_sync_proxy_rules_iptables_last'
    const inKernel = (): number =>
      linesWith(lab.kernel.xtNamespace, 'ipv4 nat').filter((line) => line.includes(' -j ')).length
    const before = inKernel()
    assert.deepEqual([await rules(total), await rules(last)], [before, before])
    await lab.deliver(change)
    assert.ok(inKernel() > before)
    assert.equal(await rules(total), inKernel())
    const given = await rules(last)
    assert.ok(given >= inKernel() - before && given < before, String(given))
    await lab.stop()
  })
})

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { systemClock } from '../../../src/clock.js'
import {
  LoopDelays,
  openHealthcheckMetrics,
  openKernelMetrics,
  openLocalhostNodePortMetrics,
  openRelayMetrics,
  type RelayTotals,
  openMetrics,
  openProcessMetrics,
  type PacketTotals,
} from '../../../src/metrics/index.js'
import { ManualClock } from '../../support/manual-clock.js'

const commit = '0123456789abcdef0123456789abcdef01234567'
const build = { version: '1.2.3', commit, featureGates: { AllowServiceExternalIPs: true } }

/** Sample lines of one metric in the text that Prometheus scrapes. */
async function samples(registry: Registry, name: string): Promise<string[]> {
  const text = await registry.metrics()
  return text.split('\n').filter((line) => line.startsWith(name))
}

describe('openMetrics', () => {
  it("has kube-proxy's names and our own, and no other", () => {
    const registry = new Registry()
    openMetrics(registry)
    const names = registry.getMetricsAsArray().map(({ name }) => name)
    assert.deepEqual(names.toSorted(), [
      'kubeproxy_conntrack_reconciler_deleted_entries_total',
      'kubeproxy_conntrack_reconciler_sync_duration_seconds',
      'kubeproxy_network_programming_duration_seconds',
      'kubeproxy_proxy_healthz_total',
      'kubeproxy_proxy_livez_total',
      'kubeproxy_sync_full_proxy_rules_duration_seconds',
      'kubeproxy_sync_partial_proxy_rules_duration_seconds',
      'kubeproxy_sync_proxy_rules_duration_seconds',
      'kubeproxy_sync_proxy_rules_endpoint_changes_pending',
      'kubeproxy_sync_proxy_rules_endpoint_changes_total',
      'kubeproxy_sync_proxy_rules_iptables_last',
      'kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total',
      'kubeproxy_sync_proxy_rules_iptables_restore_failures_total',
      'kubeproxy_sync_proxy_rules_iptables_total',
      'kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds',
      'kubeproxy_sync_proxy_rules_last_timestamp_seconds',
      'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total',
      'kubeproxy_sync_proxy_rules_nftables_sync_failures_total',
      'kubeproxy_sync_proxy_rules_no_local_endpoints_total',
      'kubeproxy_sync_proxy_rules_service_changes_pending',
      'kubeproxy_sync_proxy_rules_service_changes_total',
      'rest_client_request_duration_seconds',
      'rest_client_requests_total',
      'viaduct_api_events_total',
      'viaduct_api_links_down',
      'viaduct_api_object_errors',
      'viaduct_dirty_routes_total',
      'viaduct_drift_total',
      'viaduct_event_to_kernel_seconds',
      'viaduct_events_total',
      'viaduct_frontend_conflicts',
      'viaduct_kernel_errors_total',
      'viaduct_ledger_objects',
      'viaduct_manifest_errors',
      'viaduct_nftables_full_client_sets',
      'viaduct_nftables_transaction_seconds',
      'viaduct_objects_failed',
      'viaduct_proxy_mode',
      'viaduct_sync_operations_total',
      'viaduct_xtables_lock_wait_seconds',
    ])
  })

  it('counts rules and missing local endpoints of iptables mode', async () => {
    const registry = new Registry()
    const { ipv4, ipv6 } = openMetrics(registry)
    ipv4.iptablesRules('nat').total.set(70)
    ipv4.iptablesRules('nat').last.set(3)
    ipv6.iptablesRules('filter').last.set(1)
    ipv6.iptablesRestoreFailures.inc()
    ipv4.noLocalEndpoints('external').set(2)
    assert.deepEqual(await samples(registry, 'kubeproxy_sync_proxy_rules_iptables_'), [
      'kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"} 1',
      'kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="nat"} 70',
      'kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv4",table="nat"} 3',
      'kubeproxy_sync_proxy_rules_iptables_last{ip_family="IPv6",table="filter"} 1',
    ])
    assert.deepEqual(await samples(registry, 'kubeproxy_sync_proxy_rules_no_local_endpoints_total'), [
      'kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 2',
    ])
  })

  it('counts failures and transactions of nftables mode, without samples in the other modes', async () => {
    const registry = new Registry()
    const { ipv4, ipv6 } = openMetrics(registry)
    const names = ['kubeproxy_sync_proxy_rules_nftables_', 'viaduct_nftables_transaction_seconds_count']
    const all = async (): Promise<string[][]> =>
      await Promise.all(names.map(async (name) => await samples(registry, name)))
    assert.deepEqual(await all(), [[], []])
    ipv4.nftablesSyncFailures.inc()
    ipv6.nftablesCleanupFailures.inc(2)
    ipv6.nftablesTransactionSeconds.observe(0.0003)
    assert.deepEqual(await all(), [
      [
        'kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv4"} 1',
        'kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv6"} 2',
      ],
      ['viaduct_nftables_transaction_seconds_count{ip_family="IPv6"} 1'],
    ])
  })

  it('has the active mode and the configured one', async () => {
    const registry = new Registry()
    openMetrics(registry).proxyMode('iptables', 'ipvs')
    assert.deepEqual(await samples(registry, 'viaduct_proxy_mode'), [
      'viaduct_proxy_mode{mode="iptables",configured="ipvs"} 1',
    ])
  })

  it('counts operations by family, operation and result', async () => {
    const registry = new Registry()
    const { ipv4, ipv6 } = openMetrics(registry)
    ipv4.operation('set-real-server').applied.inc(3)
    ipv4.operation('set-real-server').failed.inc()
    ipv6.operation('set-real-server').applied.inc()
    assert.equal(ipv4.operation('x'), ipv4.operation('x'))
    assert.deepEqual((await samples(registry, 'viaduct_sync_operations_total{')).slice(0, 3), [
      'viaduct_sync_operations_total{ip_family="IPv4",operation="set-real-server",result="applied"} 3',
      'viaduct_sync_operations_total{ip_family="IPv4",operation="set-real-server",result="failed"} 1',
      'viaduct_sync_operations_total{ip_family="IPv6",operation="set-real-server",result="applied"} 1',
    ])
  })

  it('counts kernel errors and drift', async () => {
    const registry = new Registry()
    const { ipv6 } = openMetrics(registry)
    ipv6.kernelError('add-virtual-server', 'EINVAL')
    ipv6.drift('missing').inc(2)
    assert.deepEqual(await samples(registry, 'viaduct_kernel_errors_total{'), [
      'viaduct_kernel_errors_total{ip_family="IPv6",operation="add-virtual-server",code="EINVAL"} 1',
    ])
    assert.deepEqual(await samples(registry, 'viaduct_drift_total{'), [
      'viaduct_drift_total{ip_family="IPv6",kind="missing"} 2',
    ])
  })

  it("has kube-proxy's buckets for syncs, and 100 microseconds first for single events", async () => {
    const registry = new Registry()
    const { ipv4 } = openMetrics(registry)
    ipv4.syncDurationSeconds.observe(0.0015)
    ipv4.eventToKernelSeconds.observe(0.00005)
    const bounds = async (name: string): Promise<(string | undefined)[]> =>
      (await samples(registry, `${name}_bucket`)).map(
        (line) => /le="(?<le>[^"]+)"/u.exec(line)?.groups?.['le'],
      )
    const sync = await bounds('kubeproxy_sync_proxy_rules_duration_seconds')
    assert.deepEqual([sync[0], sync[14], sync[15]], ['0.001', '16.384', '+Inf'])
    assert.equal((await bounds('viaduct_event_to_kernel_seconds'))[0], '0.0001')
  })

  it('keeps registries apart', async () => {
    const [one, two] = [new Registry(), new Registry()]
    openMetrics(one).manifestErrors.set(7)
    openMetrics(two)
    assert.deepEqual(await samples(two, 'viaduct_manifest_errors'), ['viaduct_manifest_errors 0'])
  })

  it("has kube-proxy's buckets for the time of a change through the cluster", async () => {
    const registry = new Registry()
    openMetrics(registry).ipv4.networkProgrammingSeconds.observe(0.3)
    const name = 'kubeproxy_network_programming_duration_seconds'
    const lines = await samples(registry, `${name}_bucket`)
    const bounds = lines.map((line) => Number(/le="(?<le>[^"]+)"/u.exec(line)?.groups?.['le']))
    const expected = [0, 0.25, 0.5]
    for (let second = 1; second < 60; second++) expected.push(second)
    for (let second = 60; second < 120; second += 5) expected.push(second)
    for (let second = 120; second <= 300; second += 30) expected.push(second)
    assert.deepEqual(bounds.slice(0, -1), expected)
    assert.match(lines[1] ?? '', / 0$/u)
    assert.match(lines[2] ?? '', / 1$/u)
  })
})

/** Values of all samples, by name and labels. */
async function values(registry: Registry): Promise<ReadonlyMap<string, number>> {
  const lines = (await registry.metrics()).split('\n').filter((line) => /^\w/u.test(line))
  return new Map(
    lines.map((line) => [
      line.slice(0, line.lastIndexOf(' ')),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ]),
  )
}

async function delays(registry: Registry): Promise<readonly (number | undefined)[]> {
  const present = await values(registry)
  return ['0.5', '0.99', '1'].map((quantile) =>
    present.get(`viaduct_event_loop_delay_seconds{quantile="${quantile}"}`),
  )
}

describe('openProcessMetrics', () => {
  const trees = [
    [`${commit}-dirty`, commit, 'dirty'],
    ['unknown', 'unknown', ''],
  ] as const
  for (const [made, gitCommit, state] of trees)
    it(`describes a build of ${made}`, async () => {
      const registry = new Registry()
      openProcessMetrics(registry, {
        build: { ...build, commit: made },
        clock: systemClock,
        log: { lostLines: 0 },
        loopDelays: new LoopDelays(),
      })
      const [line = ''] = await samples(registry, 'kubernetes_build_info')
      assert.match(line, new RegExp(`,git_commit="${gitCommit}",git_tree_state="${state}",`, 'u'))
    })

  it('describes the process and the build', async () => {
    const registry = new Registry()
    openProcessMetrics(registry, {
      build,
      clock: systemClock,
      log: { lostLines: 7 },
      loopDelays: new LoopDelays(),
    })
    const before = await values(registry)
    assert.equal(before.get('kubernetes_feature_enabled{name="AllowServiceExternalIPs",stage=""}'), 1)
    assert.equal(
      before.get(
        `kubernetes_build_info{major="1",minor="2",git_version="v1.2.3",git_commit="${commit}",git_tree_state="clean",build_date="",go_version="${process.version}",compiler="v8",platform="linux/${process.arch}"}`,
      ),
      1,
    )
    for (const name of [
      'process_resident_memory_bytes',
      'process_virtual_memory_bytes',
      'process_open_fds',
      'process_max_fds',
    ])
      assert.ok((before.get(name) ?? 0) > 0, name)
    assert.equal(before.get('viaduct_log_lines_dropped_total'), 7)
    for (const kind of ['resident', 'heap', 'heap_used', 'external'])
      assert.ok((before.get(`viaduct_memory_bytes{kind="${kind}"}`) ?? 0) > 0, kind)
    const startedSeconds = before.get('process_start_time_seconds') ?? 0
    assert.ok(startedSeconds > 0 && startedSeconds * 1000 <= Date.now())
    const cpu = 'process_cpu_seconds_total'
    assert.ok(((await values(registry)).get(cpu) ?? 0) >= (before.get(cpu) ?? Infinity))
  })

  // Before, the first scrape began ten samples a second, for ever: 1,500 wakes per minute of an agent at rest in place of 330.
  it('has the delay of the event loop in the last whole minute, by the looks of another monitor', async () => {
    const registry = new Registry()
    const loopDelays = new LoopDelays()
    openProcessMetrics(registry, { build, clock: systemClock, log: {}, loopDelays })
    const looks = [300, ...Array.from({ length: 30 }, () => 2), ...Array.from({ length: 28 }, () => -1)]
    for (const delayMs of looks) loopDelays.note(delayMs)
    assert.deepEqual(await delays(registry), [undefined, undefined, undefined])
    loopDelays.note(0)
    for (const delayMs of looks) loopDelays.note(10 * delayMs)
    assert.deepEqual(await delays(registry), [0.002, 0.3, 0.3])
    loopDelays.note(0)
    assert.deepEqual(await delays(registry), [0.02, 3, 3])
  })
})

function registryOf(packets: () => Promise<PacketTotals | undefined>, clock = new ManualClock()): Registry {
  const registry = new Registry()
  const calls = new Map([['ipvs', 3]])
  openKernelMetrics(registry, { calls: () => calls, packets, clock })
  return registry
}

describe('openKernelMetrics', () => {
  const total = 'kubeproxy_iptables_'

  it('reads the kernel only in a scrape, once', async () => {
    let asked = 0
    const registry = registryOf(async () => ({ invalidDropped: ++asked, localhostAccepted: 10 * asked }))
    assert.equal(asked, 0)
    for (const times of [1, 2]) {
      assert.deepEqual(await samples(registry, total), [
        `kubeproxy_iptables_ct_state_invalid_dropped_packets_total ${times}`,
        `kubeproxy_iptables_localhost_nodeports_accepted_packets_total ${10 * times}`,
      ])
    }
    assert.deepEqual(await samples(registry, 'viaduct_kernel_calls_total'), [
      'viaduct_kernel_calls_total{subsystem="ipvs"} 3',
    ])
  })

  it('counts nothing twice when scrapes overlap', async () => {
    const registry = registryOf(
      async () => await Promise.resolve({ invalidDropped: 5, localhostAccepted: 7 }),
    )
    const expected = [
      'kubeproxy_iptables_ct_state_invalid_dropped_packets_total 5',
      'kubeproxy_iptables_localhost_nodeports_accepted_packets_total 7',
    ]
    const scrapes = await Promise.all([samples(registry, total), samples(registry, total)])
    assert.deepEqual(scrapes, [expected, expected])
  })

  it('has the last counts if the kernel does not answer', async () => {
    const clock = new ManualClock()
    let answer: Promise<PacketTotals> = Promise.resolve({ invalidDropped: 1, localhostAccepted: 2 })
    const registry = registryOf(async () => await answer, clock)
    const first = await samples(registry, total)
    assert.equal(first.length, 2)
    assert.equal(clock.pending, 0, 'a reading that is done leaves no timer')
    answer = new Promise(() => undefined)
    for (let scrape = 0; scrape < 2; scrape++) {
      const late = samples(registry, total)
      await clock.advance(1000)
      assert.deepEqual(await late, first)
    }
  })

  it('leaves out counts that the mode does not have, or that cannot be read', async () => {
    const readings: (() => Promise<PacketTotals | undefined>)[] = [
      async () => undefined,
      async () => await Promise.reject(new Error('no')),
    ]
    for (const read of readings) assert.deepEqual(await samples(registryOf(read), total), [])
  })
})

describe('openRelayMetrics', () => {
  const numbers = {
    listeners: 1,
    connections: 2,
    flows: 3,
    acceptedConnections: 4,
    failedConnections: 5,
    refusedConnections: 6,
    shedConnections: 7,
    startedFlows: 8,
    evictedFlows: 9,
    spentHops: 10,
    receivedBytes: 11,
    sentBytes: 12,
  }
  const expected = [
    'viaduct_relay_listeners 1',
    'viaduct_relay_connections 2',
    'viaduct_relay_flows 3',
    'viaduct_relay_accepted_connections_total 4',
    'viaduct_relay_failed_connections_total 5',
    'viaduct_relay_refused_connections_total 6',
    'viaduct_relay_shed_connections_total 7',
    'viaduct_relay_started_flows_total 8',
    'viaduct_relay_evicted_flows_total 9',
    'viaduct_relay_spent_hops_total 10',
    'viaduct_relay_received_bytes_total 11',
    'viaduct_relay_sent_bytes_total 12',
  ]

  it('has the numbers of one reading per scrape, and none while the relay is not in use', async () => {
    const registry = new Registry()
    let readings = 0
    let present: RelayTotals | undefined = numbers
    openRelayMetrics(registry, async () => {
      readings++
      return await Promise.resolve(present)
    })
    for (const scrapes of [1, 2]) {
      assert.deepEqual(await samples(registry, 'viaduct_relay_'), expected)
      assert.equal(readings, scrapes)
    }
    present = undefined
    assert.deepEqual(await samples(registry, 'viaduct_relay_'), [])
  })
})

describe('openLocalhostNodePortMetrics', () => {
  const prefix = 'kubeproxy_nftables_localhost_nodeport_'
  const rejected = 'kubeproxy_nftables_localhost_nodeport_rejected_packets_total'

  it("has kube-proxy's series: listeners of the families that have any, and packets refused by protocol", async () => {
    const registry = new Registry()
    let ipv4 = { listeners: 2, creationFailures: 0 }
    openLocalhostNodePortMetrics(registry, () => ({ ipv4, ipv6: undefined }))
    const expected = (listeners: number, failures: number): readonly string[] => [
      `${prefix}listeners{ip_family="IPv4"} ${listeners}`,
      `${prefix}listener_creation_failures_total{ip_family="IPv4"} ${failures}`,
      `${rejected}{ip_family="IPv4",protocol="UDP"} 0`,
      `${rejected}{ip_family="IPv4",protocol="SCTP"} 0`,
      `${rejected}{ip_family="IPv6",protocol="TCP"} 0`,
      `${rejected}{ip_family="IPv6",protocol="UDP"} 0`,
      `${rejected}{ip_family="IPv6",protocol="SCTP"} 0`,
    ]
    assert.deepEqual(await samples(registry, prefix), expected(2, 0))
    ipv4 = { listeners: 1, creationFailures: 3 }
    assert.deepEqual(await samples(registry, prefix), expected(1, 3))
  })
})

describe('openHealthcheckMetrics', () => {
  it('has the last result of each check, and counts them all', async () => {
    const checks = openHealthcheckMetrics()
    checks.count('ping', 'healthz', true)
    checks.count('ping', 'healthz', false)
    const text = await checks.metrics()
    for (const line of [
      'kubernetes_healthcheck{name="ping",type="healthz"} 0',
      'kubernetes_healthchecks_total{name="ping",type="healthz",status="success"} 1',
      'kubernetes_healthchecks_total{name="ping",type="healthz",status="error"} 1',
    ])
      assert.ok(text.split('\n').includes(line), line)
  })
})

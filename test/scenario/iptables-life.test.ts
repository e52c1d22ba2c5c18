// The life of iptables mode: order of writes, drift, faults and restarts.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { KernelError } from '../../src/errors.js'
import { serviceReference } from '../../src/event.js'
import type { XtRule } from '../../src/kernel/index.js'
import { openModelKernel } from '../model/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { IptablesLab, jumpTo, linesWith, ruleLines } from '../support/iptables-lab.js'
import { endpoint, node, port, remove, service, set, slice, synced } from '../support/objects.js'
import { ip } from '../support/pipeline-lab.js'

const listed: ObjectEvent = { type: 'listed' }
const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]
const noEndpoints = set(slice('web-1', 'web', []))

async function started(...events: readonly ObjectEvent[]): Promise<IptablesLab> {
  const lab = new IptablesLab()
  await lab.deliver(...events, synced)
  lab.takeWritten()
  return lab
}

function dnatTo(address: string): string {
  return `--to-destination ${address}:8080`
}

describe('the order of writes to the tables nat and filter', () => {
  const rows: readonly {
    readonly name: string
    readonly before: readonly ObjectEvent[]
    readonly change: readonly ObjectEvent[]
    readonly written: readonly string[]
  }[] = [
    {
      name: 'other endpoints: nat only',
      before: web,
      change: [set(slice('web-1', 'web', ['10.1.0.9']))],
      written: ['nat'],
    },
    {
      name: 'the last endpoint is removed: the rule that refuses comes before the removal of the rules that serve',
      before: web,
      change: [noEndpoints],
      written: ['filter', 'nat'],
    },
    {
      name: 'the first endpoint is added: the rules that serve come before the removal of the rule that refuses',
      before: [...web, noEndpoints],
      change: web.slice(1),
      written: ['nat', 'filter'],
    },
    {
      name: 'both at once: filter, nat, filter',
      before: [...web, noEndpoints, ...shop],
      change: [...web.slice(1), set(slice('shop-1', 'shop', []))],
      written: ['filter', 'nat', 'filter'],
    },
    {
      name: 'a change without effect on rules: no write',
      before: web,
      change: [set(service('web', '10.96.0.1', { labels: { 'topology.kubernetes.io/zone': 'b' } }))],
      written: [],
    },
  ]
  for (const { name, before, change, written } of rows) {
    it(name, async () => {
      const lab = await started(...before)
      await lab.deliver(...change)
      assert.deepEqual(lab.takeWritten(), written)
      await lab.stop()
    })
  }

  it('holds if the first table fails: the second waits, and no change is lost', async () => {
    const lab = await started(...web, noEndpoints)
    const nat = lab.kernel.xtables('ipv4', 'nat')
    nat.plan = { callFault: (call) => (call === 'apply' ? constants.errno.ENOMEM : undefined) }
    await lab.deliver(...web.slice(1))
    assert.equal(linesWith(lab.kernel.xtNamespace, 'REJECT').length, 1)
    nat.plan = {}
    await lab.clock.advance(1000)
    assert.equal(linesWith(lab.kernel.xtNamespace, 'REJECT').length, 0)
    assert.equal(linesWith(lab.kernel.xtNamespace, dnatTo('10.1.0.1')).length, 1)
    await lab.stop()
  })
})

describe('Services that share an address', () => {
  it('have 20 warnings in the log, and debug lines for the others (issue 18, C11)', async () => {
    const lab = new IptablesLab()
    const services = Array.from({ length: 100 }, (_, i) => set(service(`web-${i}`, '10.96.0.1')))
    await lab.deliver(...services, synced)
    const levels = lab.log.lines
      .filter(({ message }) => message.includes('10.96.0.1'))
      .map(({ level }) => level)
    assert.equal(levels.length, 99)
    assert.deepEqual(new Set(levels.slice(0, 20)), new Set(['warn']))
    assert.deepEqual(new Set(levels.slice(20)), new Set(['debug']))
    await lab.stop()
  })
})

describe('a refusal of the kernel', () => {
  it('is reported once, retried with back-off, and its end is reported', async () => {
    const lab = new IptablesLab()
    const allXtables = (['nat', 'filter'] as const).map((table) => lab.kernel.xtables('ipv4', table))
    for (const xtables of allXtables)
      xtables.plan = { callFault: (call) => (call === 'apply' ? constants.errno.EAGAIN : undefined) }
    await lab.deliver(...web, synced)
    assert.deepEqual(lab.takeWritten(), ['nat'], 'table filter waits for it')
    await lab.clock.advance(10_000)
    // After 1, 3 and 7 seconds.
    assert.deepEqual(lab.takeWritten(), ['nat', 'nat', 'nat'])
    const errors = lab.log.find('error', 'Network programming failed')
    assert.equal(errors.length, 1)
    assert.match(errors[0]?.message ?? '', /IPv4 table nat: .*EAGAIN/u)
    for (const xtables of allXtables) xtables.plan = {}
    await lab.clock.advance(10_000)
    assert.equal(linesWith(lab.kernel.xtNamespace, dnatTo('10.1.0.1')).length, 1)
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 1)
    await lab.stop()
  })

  it('is logged with the kernel’s text only, for a table that is too large (issue 18, C11)', async () => {
    const lab = new IptablesLab()
    const words = 'the kernel has no memory for a table of this size'
    lab.kernel.xtables('ipv4', 'nat').apply = async () => {
      const { ENOMEM } = constants.errno
      throw new KernelError({
        errno: ENOMEM,
        subsystem: 'xtables',
        operation: 'replace the table',
        extack: words,
      })
    }
    await lab.deliver(...web, synced)
    assert.deepEqual(
      lab.log.find('error', 'Network programming failed').map(({ message }) => message),
      [`Network programming failed: IPv4 table nat: xtables: replace the table: ENOMEM (${words})`],
    )
    await lab.stop()
  })

  it('makes the data plane unhealthy after a change has waited for two periods, until it is in the kernel', async () => {
    const lab = await started(...web)
    const nat = lab.kernel.xtables('ipv4', 'nat')
    nat.plan = { callFault: () => constants.errno.EAGAIN }
    await lab.deliver(set(slice('web-1', 'web', ['10.1.0.9'])))
    const seen: boolean[] = []
    for (let second = 0; second < 120; second++) {
      seen.push(lab.isHealthy.ipv4())
      await lab.clock.advance(1000)
    }
    assert.deepEqual([seen.lastIndexOf(true), seen.indexOf(false)], [59, 60])
    assert.equal(lab.isHealthy.ipv6(), false, 'a node that is behind in one family is behind')
    assert.deepEqual(
      lab.synchronizer.health.map(({ family, isHealthy }) => `${family} ${isHealthy}`),
      ['ipv4 false', 'ipv6 true'],
    )
    nat.plan = {}
    await lab.clock.advance(30_000)
    assert.ok(lab.isHealthy.ipv4())
    await lab.stop()
  })

  it('of one table does not affect the other', async () => {
    const lab = new IptablesLab()
    lab.kernel.xtables('ipv4', 'filter').plan = { callFault: () => constants.errno.ENOENT }
    await lab.deliver(...web, synced)
    assert.equal(linesWith(lab.kernel.xtNamespace, dnatTo('10.1.0.1')).length, 1)
    await lab.stop()
  })

  it('of a read is retried with back-off', async () => {
    const lab = await started(...web)
    const filter = lab.kernel.xtables('ipv4', 'filter')
    filter.plan = { callFault: () => constants.errno.ENOMEM }
    await lab.clock.advance(10_000)
    assert.deepEqual(lab.takeWritten(), ['filter', 'filter', 'filter'])
    filter.plan = {}
    await lab.clock.advance(10_000)
    // Of the looks, and of the writes.
    assert.equal(lab.log.find('info', 'Network programming recovered').length, 2)
    await lab.stop()
  })
})

/** Reverses the rules of a Service. The table keeps its size. */
function reverseRules({ kernel }: IptablesLab): void {
  const nat = kernel.xtNamespace.table('ipv4', 'nat')
  const chain = [...nat.chains.keys()].find((name) => name.startsWith('KUBE-SVC-')) ?? ''
  const rules = nat.chains.get(chain) ?? []
  nat.flush(chain)
  nat.append(chain, ...rules.toReversed())
}

describe('another program', () => {
  it('flushes tables: they are restored within a second, and the log names the differences', async () => {
    const lab = await started(...web)
    const before = ruleLines(lab.kernel.xtNamespace)
    lab.kernel.xtNamespace.table('ipv4', 'nat').flush()
    await lab.clock.advance(1000)
    assert.deepEqual(ruleLines(lab.kernel.xtNamespace), before)
    const [line, ...more] = lab.log.find('info', 'Kernel state differs')
    assert.equal(more.length, 0)
    assert.equal(line?.fields['table'], 'nat')
    assert.match(JSON.stringify(line?.fields['changed']), /KUBE-SERVICES.*PREROUTING/u)
    assert.match(await lab.registry.metrics(), /viaduct_drift_total\{[^}]*kind="chain-changed"[^}]*\} [1-9]/u)
    await lab.stop()
  })

  for (const { how, unlocks, foundMs } of [
    { how: 'with the lock of the tables: found within a second (issue 18, C8)', unlocks: 1, foundMs: 1000 },
    { how: 'without the lock: found within a sync period', unlocks: 0, foundMs: 30_000 },
  ])
    it(`replaces a rule by one of the same size ${how}`, async () => {
      const lab = await started(...web)
      const before = ruleLines(lab.kernel.xtNamespace)
      reverseRules(lab)
      lab.kernel.xtNamespace.unlocks += unlocks
      await lab.clock.advance(foundMs - 500)
      assert.notDeepEqual(ruleLines(lab.kernel.xtNamespace), before)
      await lab.clock.advance(500)
      assert.deepEqual(ruleLines(lab.kernel.xtNamespace), before)
      await lab.stop()
    })

  it('takes the lock without a change of our rules: one comparison, no write and no log line', async () => {
    const lab = await started(...web)
    await lab.clock.advance(10_000)
    const { writes } = lab
    const lines = lab.log.lines.length
    const calls: string[] = []
    for (const family of ['ipv4', 'ipv6'] as const)
      lab.kernel.xtables(family, 'nat').plan = { callFault: (call) => void calls.push(call) }
    lab.kernel.xtNamespace.unlocks++
    await lab.clock.advance(15_000)
    assert.deepEqual(
      calls.filter((call) => call !== 'check'),
      ['compare', 'compare'],
      'one for each family',
    )
    assert.deepEqual([lab.writes, lab.takeWritten().length, lab.log.lines.length], [writes, 0, lines])
    await lab.stop()
  })

  it('changes nothing: comparisons become rare, and a later flush is still repaired within a second', async () => {
    const lab = await started(...web)
    await lab.clock.advance(10_000)
    const calls: string[] = []
    const allXtables = (['ipv4', 'ipv6'] as const).flatMap((family) =>
      (['nat', 'filter'] as const).map((table) => lab.kernel.xtables(family, table)),
    )
    for (const xtables of allXtables) xtables.plan = { callFault: (call) => void calls.push(call) }
    await lab.clock.advance(15_000)
    assert.deepEqual(calls, [])
    await lab.clock.advance(575_000)
    const comparisons = calls.filter((call) => call === 'compare').length
    assert.equal(comparisons / allXtables.length, 4, 'of each table, after 30, 90, 210 and 450 s')
    assert.equal(
      (calls.length - comparisons) / allXtables.length,
      20,
      'the size of each table, once a sync period',
    )
    const before = ruleLines(lab.kernel.xtNamespace)
    lab.kernel.xtNamespace.table('ipv6', 'filter').flush()
    await lab.clock.advance(1000)
    assert.deepEqual(ruleLines(lab.kernel.xtNamespace), before)
    await lab.stop()
  })

  it('adds its own rules: they stay, are not drift, and cause no write', async () => {
    const lab = await started(...web)
    const filter = lab.kernel.xtNamespace.table('ipv4', 'filter')
    filter.append('INPUT', {
      source: { address: ip('192.0.2.1'), prefixLength: 32 },
      target: { kind: 'drop' },
    })
    const { writes } = lab
    await lab.clock.advance(90_000)
    assert.equal(lab.writes, writes)
    assert.equal(lab.log.find('info', 'Kernel state differs').length, 0)
    assert.deepEqual(lab.takeWritten(), ['filter'], 'once, to know the table again')
    await lab.stop()
  })

  it('restores an old table with a chain of a deleted Service: the chain is removed again', async () => {
    const lab = await started(...web)
    const before = ruleLines(lab.kernel.xtNamespace)
    const nat = lab.kernel.xtNamespace.table('ipv4', 'nat')
    nat.addChain('KUBE-SVC-AAAAAAAAAAAAAAAA')
    nat.prepend('KUBE-SERVICES', jumpTo('KUBE-SVC-AAAAAAAAAAAAAAAA'))
    await lab.clock.advance(1000)
    assert.deepEqual(ruleLines(lab.kernel.xtNamespace), before)
    await lab.stop()
  })
})

describe('a start', () => {
  it('on the tables of a former run writes nothing', async () => {
    const former = await started(...web, ...shop)
    await former.stop()
    const { xtNamespace } = former.kernel
    const { writes } = former
    const lab = new IptablesLab({ xtNamespace })
    await lab.deliver(...web, ...shop, synced)
    await lab.clock.advance(60_000)
    assert.equal(lab.writes, writes)
    assert.equal(lab.log.find('info', 'Kernel state differs').length, 0)
    await lab.stop()
  })

  it('removes rules of a former run for deleted Services', async () => {
    const former = await started(...web, ...shop)
    await former.stop()
    const lab = new IptablesLab({ xtNamespace: former.kernel.xtNamespace })
    await lab.deliver(...web, synced)
    const fresh = await started(...web)
    assert.deepEqual(ruleLines(lab.kernel.xtNamespace), ruleLines(fresh.kernel.xtNamespace))
    await Promise.all([lab.stop(), fresh.stop()])
  })

  it("takes over kube-proxy's tables in one write each, and keeps foreign chains", async () => {
    const kernel = openModelKernel()
    layKubeProxyTables(kernel)
    const lab = new IptablesLab({ kernel })
    const { writes } = lab
    await lab.deliver(...web, synced)
    assert.equal(lab.writes - writes, 4, 'two tables of two families')
    const kept = ['MINE', 'KUBE-FIREWALL', 'KUBE-KUBELET-CANARY']
    const lines = linesWith(kernel.xtNamespace, '')
    for (const chain of kept) assert.ok(lines.includes(`ipv4 nat ${chain}`), chain)
    for (const gone of ['KUBE-SEP-', 'KUBE-SVC-OLD', 'KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER'])
      assert.deepEqual(linesWith(kernel.xtNamespace, gone), [])
    await lab.stop()
  })

  it('while some objects are unknown keeps former rules, and puts the rules of known objects before them', async () => {
    const former = await started(...web, ...shop)
    await former.stop()
    const { xtNamespace } = former.kernel
    const before = linesWith(xtNamespace, 'nat KUBE-SERVICES ')
    const lab = new IptablesLab({ xtNamespace })
    await lab.deliver(...web.slice(0, 1), set(slice('web-1', 'web', ['10.1.0.9'])), listed)
    assert.deepEqual(linesWith(xtNamespace, 'nat KUBE-SERVICES '), before, 'the former dispatch stays')
    assert.equal(linesWith(xtNamespace, dnatTo('10.2.0.1')).length, 1, 'shop, which is not known')
    assert.equal(linesWith(xtNamespace, dnatTo('10.1.0.9')).length, 1, 'web, as it is now')
    assert.equal(linesWith(xtNamespace, dnatTo('10.1.0.2')).length, 0)
    const [first] = linesWith(xtNamespace, 'nat PREROUTING -')
    assert.match(first ?? '', /-j KUBE-FW-_S$/u)
    await lab.deliver(remove('Service', 'web'))
    await lab.deliver(...web, ...shop, synced)
    const fresh = await started(...web, ...shop)
    assert.deepEqual(ruleLines(xtNamespace), ruleLines(fresh.kernel.xtNamespace))
    await Promise.all([lab.stop(), fresh.stop()])
  })

  it('on empty tables serves the known objects while others are unknown', async () => {
    const lab = new IptablesLab()
    await lab.deliver(...web, listed)
    const before = ruleLines(lab.kernel.xtNamespace)
    assert.equal(linesWith(lab.kernel.xtNamespace, dnatTo('10.1.0.1')).length, 1)
    await lab.deliver(synced)
    assert.deepEqual(ruleLines(lab.kernel.xtNamespace), before)
    await lab.stop()
  })
})

/** Adds the chains and rules of a kube-proxy that ran in iptables mode or in ipvs mode, and foreign ones. */
function layKubeProxyTables(kernel: ReturnType<typeof openModelKernel>): void {
  const nat = kernel.xtNamespace.table('ipv4', 'nat')
  const chains =
    'KUBE-SERVICES KUBE-SVC-OLDAAAAAAAAAAAAA KUBE-SEP-OLDAAAAAAAAAAAAA KUBE-MARK-MASQ KUBE-NODE-PORT'
  for (const chain of `${chains} KUBE-LOAD-BALANCER KUBE-FIREWALL KUBE-KUBELET-CANARY MINE`.split(' '))
    nat.addChain(chain)
  const mark: XtRule = { target: { kind: 'mark', value: 0x4000, mask: 0x4000 } }
  nat.append('KUBE-MARK-MASQ', mark)
  nat.append('KUBE-SEP-OLDAAAAAAAAAAAAA', jumpTo('KUBE-MARK-MASQ'))
  nat.append('KUBE-SVC-OLDAAAAAAAAAAAAA', jumpTo('KUBE-SEP-OLDAAAAAAAAAAAAA'))
  nat.append('KUBE-SERVICES', jumpTo('KUBE-SVC-OLDAAAAAAAAAAAAA'), jumpTo('KUBE-NODE-PORT'))
  nat.append('KUBE-LOAD-BALANCER', jumpTo('KUBE-MARK-MASQ'))
  nat.append('PREROUTING', jumpTo('KUBE-SERVICES', { comment: 'kubernetes service portals' }), jumpTo('MINE'))
  nat.append('OUTPUT', jumpTo('KUBE-SERVICES', { comment: 'kubernetes service portals' }))
}

describe('two Services that want one frontend', () => {
  const rival = [set(service('awaits', '10.96.0.1')), set(slice('awaits-1', 'awaits', ['10.3.0.1']))]

  it('the one that sorts first has the frontend; the other is logged, and gets it when the first is removed', async () => {
    const lab = await started(...web, ...rival)
    assert.match(
      linesWith(lab.kernel.xtNamespace, 'KUBE-SERVICES -d 10.96.0.1').join(),
      /default\/awaits cluster IP/u,
    )
    const [warning, ...more] = lab.log.find('warn', 'tcp 10.96.0.1:80 already belongs to default/awaits:/TCP')
    assert.equal(more.length, 0)
    assert.ok(warning)
    assert.deepEqual(lab.events, [
      {
        type: 'Warning',
        reason: 'FrontendConflict',
        action: 'Sync',
        regarding: { apiVersion: 'v1', kind: 'Service', namespace: 'default', name: 'web' },
        note: 'Service port default/web:/TCP: tcp 10.96.0.1:80 already belongs to default/awaits:/TCP, which sorts first',
      },
    ])
    await lab.deliver(remove('Service', 'awaits'))
    assert.match(
      linesWith(lab.kernel.xtNamespace, 'KUBE-SERVICES -d 10.96.0.1').join(),
      /default\/web cluster IP/u,
    )
    assert.deepEqual(
      lab.log.find('info', 'Service is programmed as specified now').map(({ fields }) => fields),
      [
        {
          service: 'default/web:/TCP',
          frontend: 'tcp 10.96.0.1:80',
          owner: 'default/awaits:/TCP',
          reason: 'which sorts first',
          ipFamily: 'IPv4',
        },
      ],
    )
    await lab.stop()
  })

  it('two ports of one Service conflict too', async () => {
    const ports = [port(80, { name: 'a', nodePort: 30080 }), port(443, { name: 'b', nodePort: 30080 })]
    const lab = await started(set(service('web', '10.96.0.1', { type: 'NodePort', ports })))
    const warning = 'tcp node port 30080 already belongs to default/web:a/TCP'
    assert.equal(lab.log.find('warn', warning).length, 1)
    await lab.stop()
  })

  it('the loser is not served if the winner has no endpoints', async () => {
    const lab = await started(...web, ...rival, set(slice('awaits-1', 'awaits', [])))
    assert.equal(linesWith(lab.kernel.xtNamespace, 'nat KUBE-SERVICES -d 10.96.0.1').length, 0)
    assert.match(
      linesWith(lab.kernel.xtNamespace, 'filter KUBE-SERVICES -d 10.96.0.1').join(),
      /awaits has no endpoints/u,
    )
    await lab.stop()
  })

  it('ports of one Service share its health check', async () => {
    const balancer = service('lb', '10.96.0.5', {
      type: 'LoadBalancer',
      ports: [port(80, { name: 'a' }), port(443, { name: 'b' })],
      loadBalancerIngress: [{ ip: '192.0.2.5', ipMode: 'VIP' }],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: 30999,
    })
    const lab = await started(set(balancer))
    assert.equal(linesWith(lab.kernel.xtNamespace, '--dport 30999').length, 1)
    assert.equal(lab.log.find('warn', '').length, 0)
    await lab.stop()
  })
})

describe('after a sync', () => {
  const local = service('lb', '10.96.0.5', {
    type: 'LoadBalancer',
    loadBalancerIngress: [{ ip: '192.0.2.5', ipMode: 'VIP' }],
    externalTrafficPolicy: 'Local',
    healthCheckNodePort: 30999,
  })
  const elsewhere = set(slice('lb-1', 'lb', [endpoint('10.1.0.1', { nodeName: 'there' })]))

  it('health checks are served; one that cannot be opened is logged and retried', async () => {
    const lab = new IptablesLab()
    const event = {
      type: 'Warning',
      reason: 'FailedToStartServiceHealthcheck',
      action: 'Listen',
      regarding: serviceReference('default', 'lb'),
      note: 'port 30999 is taken',
    } as const
    lab.healthChecks.failures = [{ service: 'default/lb', event }]
    await lab.deliver(set(local), elsewhere, synced)
    assert.deepEqual(
      [...lab.healthChecks.checks.values()],
      [{ namespace: 'default', name: 'lb', port: 30999, localEndpoints: 0 }],
    )
    assert.equal(lab.healthChecks.addresses, 'all')
    assert.equal(lab.log.find('warn', 'port 30999 is taken').length, 1)
    assert.deepEqual(lab.events, [event])
    lab.healthChecks.failures = []
    await lab.clock.advance(30_000)
    assert.equal(lab.log.find('info', 'Service is programmed as specified now').length, 1)
    await lab.stop()
  })
})

function big(count: number): ObjectEvent {
  return set(
    slice(
      'big',
      'big',
      Array.from({ length: count }, (_, i) => `10.9.${i >> 8}.${i & 255}`),
    ),
  )
}

describe('rules depend on', () => {
  it("node port addresses: the machine's addresses in the configured networks, as they change", async () => {
    const kernel = openModelKernel()
    const { index: interfaceIndex } = await kernel.links.addDummy('eth0')
    const address = { address: ip('192.0.2.7'), prefixLength: 24, interfaceIndex }
    const lab = new IptablesLab({ kernel, config: { nodePortAddresses: ['192.0.2.0/24'] } })
    await lab.deliver(...web, synced)
    const ways = (): readonly string[] => linesWith(kernel.xtNamespace, 'this must be the last rule')
    assert.equal(ways().length, 0)
    await kernel.routes.apply([{ op: 'add-address', address }])
    await lab.clock.advance(0)
    assert.match(ways().join(), /-d 192\.0\.2\.7/u)
    await kernel.routes.apply([{ op: 'remove-address', address }])
    await lab.clock.advance(0)
    assert.equal(ways().length, 0)
    await lab.stop()
  })

  it('node ports on loopback addresses: they set route_localnet', async () => {
    const home = set(node('here', { ips: ['192.0.2.7'] }))
    const cases = [
      [{}, [], '2'],
      [{ iptables: { localhostNodePorts: false } }, [], '0'],
      [{ nodePortAddresses: ['127.0.0.0/8'] }, [], '2'],
      [{ nodePortAddresses: ['192.0.2.0/24'] }, [], '0'],
      [{ nodePortAddresses: ['primary'] }, [home], '0'],
    ] as const
    for (const [config, objects, expected] of cases) {
      const lab = new IptablesLab({ config })
      await lab.deliver(...objects, synced)
      assert.equal(await lab.kernel.sysctl.read('net/ipv4/conf/all/route_localnet'), expected)
      await lab.stop()
    }
  })

  it('route_localnet is set after the rule that drops packets of neighbours (CVE-2020-8558)', async () => {
    // Before the fix, the setting came first: 0 chains.
    const lab = new IptablesLab({})
    const { sysctl } = lab.kernel
    const write = sysctl.write.bind(sysctl)
    const guards: number[] = []
    sysctl.write = async (path, value) => {
      if (path.endsWith('route_localnet'))
        guards.push(linesWith(lab.kernel.xtNamespace, 'block incoming localnet connections').length)
      await write(path, value)
    }
    await lab.deliver(synced)
    assert.deepEqual(guards, [1])
    await lab.stop()
  })

  it("the node's address: source ranges that contain it admit the node", async () => {
    const balancer = service('lb', '10.96.0.5', {
      type: 'LoadBalancer',
      loadBalancerIngress: [{ ip: '192.0.2.5', ipMode: 'VIP' }],
      loadBalancerSourceRanges: ['198.51.100.0/24'],
    })
    const lab = await started(set(balancer), set(slice('lb-1', 'lb', ['10.1.0.1'])))
    const allowed = (): number => linesWith(lab.kernel.xtNamespace, '-s 192.0.2.5').length
    assert.equal(allowed(), 0)
    await lab.deliver(set(node('here', { ips: ['198.51.100.9'] })))
    assert.equal(allowed(), 1)
    await lab.stop()
  })

  it('the size of the cluster: comments are dropped above 1,000 endpoints, and added again below 800', async () => {
    const lab = await started(...web, set(service('big', '10.96.0.9')), big(998))
    const comments = (): number => linesWith(lab.kernel.xtNamespace, 'default/web cluster IP').length
    const seen: number[] = [comments()]
    for (const count of [999, 801, 798, 900]) {
      await lab.deliver(big(count))
      seen.push(comments())
    }
    assert.deepEqual(seen, [1, 0, 0, 1, 1])
    await lab.stop()
  })
})

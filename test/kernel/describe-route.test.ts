// The description of a route has the same lines as the output of the tools.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { resolveConfig } from '../../src/config/index.js'
import type { IpsetOp, IpsetSettings } from '../../src/kernel/index.js'
import { compileRoute, compileSkeleton, describeDesired } from '../../src/modes/iptables/testing.js'
import { IptablesLedger } from '../../src/layers/xtables/testing.js'
import { compileRoute as compileIpvsRoute, describeServers } from '../../src/modes/ipvs/testing.js'
import { setName, setSpec } from '../../src/layers/ipvs/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { applyAll } from '../contract/law.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { openRealSubject, save, type XtSubject } from '../contract/xtables-subjects.js'
import { makeSettings } from '../support/packet-model-settings.js'
import { mustRun } from '../support/processes.js'
import { backends, cidr, ip, plainRoute } from '../support/routes.js'

requireFreshNamespace()

const nodeIP = ip('192.168.50.1')
const route = plainRoute({
  portName: 'http',
  nodePort: 30080,
  isExternallyAccessible: true,
  isExternalLocal: true,
  externalIPs: [ip('192.0.2.1')],
  loadBalancerIPs: [ip('198.51.100.1')],
  sourceRanges: [cidr('203.0.113.0/24')],
  healthCheckNodePort: 30100,
  affinitySeconds: 600,
  hasEndpoints: true,
  clusterBackends: backends(8080, '10.1.0.1', '10.1.0.2', '10.1.0.3'),
})

describe('the description of a route', () => {
  let namespace: XtSubject
  before(async () => {
    namespace = await openRealSubject()
  })
  after(() => namespace.close())

  it('of iptables mode is what iptables-save prints', async () => {
    const settings = makeSettings('ipv4', { withComments: true })
    const desired = compileRoute(route, settings)
    const ledger = new IptablesLedger({ isBeside: false })
    ledger.setSkeleton(compileSkeleton(settings))
    ledger.claim(route.key, desired)
    const client = namespace.open()
    let described = 0
    for (const table of ['nat', 'filter'] as const) {
      await client.xtables('ipv4', table).apply(ledger.take(table))
      const saved = new Set((await save('ipv4', table)).split('\n'))
      const lines = describeDesired(desired, 'ipv4')
      const start = lines.indexOf(`*${table}`)
      const end = table === 'nat' ? lines.indexOf('*filter') : lines.length
      for (const line of lines.slice(start, end)) {
        assert.ok(saved.has(line), `${line}\nis not in\n${[...saved].join('\n')}`)
        described++
      }
    }
    assert.equal(described, describeDesired(desired, 'ipv4').length)
    await client.close()
  })

  it('of ipvs mode is what ipset save prints', async () => {
    const { ipvs } = resolveConfig({ manifests: 'none' })
    const node = { nodePortAddresses: [nodeIP], nodeAddresses: new Set([nodeIP]), nodeIP }
    const settings = { ...ipvs, masqueradeMark: 0x4000, missing: new Set<string>(), ...node }
    const servers = compileIpvsRoute(route, settings, 7)
    const entries = servers.flatMap((server) => server.entries)
    const sets = new Map(
      entries.map(({ set }): [string, IpsetSettings] => {
        const { type, hasMarks = false } = setSpec(set)
        const name = setName(set, 'ipv4')
        const common = { family: 'ipv4', maxElements: 65_536, hashSize: 1024, hasComments: false } as const
        return [set, { name, type, hasMarks, ...common }]
      }),
    )
    const kernel = openRealKernel()
    await applyAll(
      kernel.ipset,
      [...sets.values()].map((set): IpsetOp => ({ op: 'create-set', set })),
    )
    await applyAll(
      kernel.ipset,
      entries.map(({ set, entry }): IpsetOp => ({
        op: 'add-entry',
        set: sets.get(set) ?? assert.fail(),
        entry,
      })),
    )
    const saved = (await mustRun(['ipset', 'save'])).split('\n').map((line) => line.trimEnd())
    const lines = describeServers(servers).filter((line) => line.startsWith('add '))
    assert.ok(lines.length > 8, lines.join('\n'))
    assert.deepEqual(
      lines.filter((line) => !saved.includes(line)),
      [],
      saved.join('\n'),
    )
    await applyAll(
      kernel.ipset,
      [...sets.values()].map(({ name }): IpsetOp => ({ op: 'destroy-set', name })),
    )
    await kernel.close()
  })
})

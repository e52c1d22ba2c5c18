// A switch from and to nftables mode: the new mode is in force before the objects of the former one go.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { cleanUpAll } from '../../src/agent/testing.js'
import { KernelError } from '../../src/errors.js'
import { openModelKernel } from '../model/index.js'
import { IptablesLab, linesWith } from '../support/iptables-lab.js'
import { NftModeLab, nftLines } from '../support/nft-mode-lab.js'
import { service, set, slice, synced } from '../support/objects.js'
import { PipelineLab, snapshot } from '../support/pipeline-lab.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]

function isServedByNft(lab: NftModeLab): boolean {
  return nftLines(lab.namespace).some((line) =>
    line.includes('service-endpoint-1 { 10.96.0.1 . tcp . 80 : 10.1.0.2 . 8080'),
  )
}

describe('a switch to nftables mode', () => {
  it('from iptables mode: the chains go when the table is in force', async () => {
    const former = new IptablesLab()
    await former.deliver(...web, synced)
    await former.stop()
    const { xtNamespace } = former.kernel
    const lab = new NftModeLab({ kernel: openModelKernel({ xtNamespace }) })
    const nat = lab.kernel.xtables('ipv4', 'nat')
    const apply = nat.apply.bind(nat)
    const wasServed: boolean[] = []
    nat.apply = async (ops, options) => {
      wasServed.push(isServedByNft(lab))
      return await apply(ops, options)
    }
    await lab.deliver(...web, synced)
    assert.deepEqual(wasServed, [true])
    assert.deepEqual(linesWith(xtNamespace, 'KUBE-SVC-'), [])
    assert.equal(lab.log.find('info', 'Leftovers of iptables mode: removed').length, 1)
    await lab.stop()
  })

  it('from ipvs mode: virtual servers, routes and sets go when the table is in force', async () => {
    const former = new PipelineLab()
    await former.deliver(...web, synced)
    await former.stop()
    const lab = new NftModeLab({ kernel: former.kernel })
    await lab.deliver(...web, synced)
    assert.ok(isServedByNft(lab))
    assert.deepEqual(await snapshot(lab.kernel), [])
    assert.deepEqual(await lab.kernel.ipset.sets(), [])
    await lab.stop()
  })
})

describe('the guard of the VIPs of ipvs mode (docs/adr/0027)', () => {
  async function guarded(): Promise<PipelineLab> {
    const lab = new PipelineLab()
    const key = { family: 'ipv4', table: 'cni_hostport' } as const
    const hook = { type: 'nat', hook: 'prerouting', priority: -100 } as const
    await lab.kernel.nftables.apply([
      { op: 'add-table', table: key },
      { op: 'add-chain', chain: { ...key, chain: 'prerouting', hook } },
    ])
    await lab.deliver(...web, synced)
    await lab.stop()
    assert.ok(nftLines(lab.kernel.nftables.namespace).includes(element))
    return lab
  }
  const syncPeriodMs = 30_000
  const element = 'add element ip viaduct-ipvs vips { 10.96.0.1 }'

  for (const mode of ['iptables', 'nftables'] as const)
    it(`goes before ${mode} mode writes a rule, and the log says so`, async () => {
      const { kernel } = await guarded()
      const lab = mode === 'iptables' ? new IptablesLab({ kernel }) : new NftModeLab({ kernel })
      const nat = kernel.xtNamespace.table('ipv4', 'nat')
      const isGuarded = (): boolean => nftLines(kernel.nftables.namespace).includes(element)
      const wasGuarded: boolean[] = []
      const replace = nat.replace.bind(nat)
      nat.replace = (chains) => {
        wasGuarded.push(isGuarded())
        replace(chains)
      }
      kernel.nftables.namespace.listeners.add((objects) => {
        if (objects.some(({ table }) => table === 'kube-proxy')) wasGuarded.push(isGuarded())
      })
      await lab.deliver(...web, synced)
      assert.deepEqual([...new Set(wasGuarded)], [false])
      assert.equal(lab.log.find('info', 'Guard of VIPs: removed the table viaduct-ipvs').length, 1)
      await lab.stop()
    })

  for (const mode of ['iptables', 'nftables'] as const) {
    it(`stays until ${mode} mode knows the objects, as ipvs mode's objects serve until then`, async () => {
      const { kernel } = await guarded()
      const lab = mode === 'iptables' ? new IptablesLab({ kernel }) : new NftModeLab({ kernel })
      await lab.deliver(...web)
      await lab.clock.advance(syncPeriodMs)
      assert.ok(nftLines(kernel.nftables.namespace).includes(element))
      await lab.deliver(synced)
      assert.ok(!nftLines(kernel.nftables.namespace).includes(element))
      await lab.stop()
    })

    it(`is removed in a later try if the kernel refused in ${mode} mode, and the log says so`, async () => {
      const { kernel } = await guarded()
      const discard = kernel.nftChains.discardTable.bind(kernel.nftChains)
      let refusals = 3
      kernel.nftChains.discardTable = async (family, table) => {
        if (table === 'viaduct-ipvs' && family === 'ipv4' && refusals-- > 0)
          throw new KernelError({
            errno: constants.errno.ENOMEM,
            subsystem: 'nftables',
            operation: 'delete table',
          })
        return await discard(family, table)
      }
      const lab = mode === 'iptables' ? new IptablesLab({ kernel }) : new NftModeLab({ kernel })
      const problem = 'The guard of VIPs that another mode left cannot be removed'
      const recovery = 'The guard of VIPs that another mode left is removed now'
      await lab.deliver(...web, { type: 'listed' })
      assert.ok(nftLines(kernel.nftables.namespace).includes(element))
      await lab.clock.advance(3000)
      assert.ok(!nftLines(kernel.nftables.namespace).includes(element))
      assert.equal(lab.log.find('warn', problem).length, 1)
      assert.equal(lab.log.find('info', recovery).length, 1)
      await lab.deliver(synced)
      await lab.stop()
    })
  }

  it('stays where ipvs mode starts again, and goes with --cleanup', async () => {
    const { kernel } = await guarded()
    const lab = new PipelineLab({ kernel })
    await lab.deliver(...web, synced)
    await lab.stop()
    assert.ok(nftLines(kernel.nftables.namespace).includes(element))
    const { text, isComplete } = await cleanUpAll(kernel, [])
    assert.ok(isComplete)
    assert.match(text, /removed the table viaduct-ipvs of nf_tables in IPv4/u)
    assert.deepEqual(
      nftLines(kernel.nftables.namespace).filter((line) => line.includes('viaduct')),
      [],
    )
  })
})

for (const mode of ['iptables', 'ipvs'] as const) {
  it(`a switch from nftables mode to ${mode} mode: the tables go when the new mode is in force`, async () => {
    const former = new NftModeLab()
    await former.deliver(...web, synced)
    await former.stop()
    const { kernel } = former
    const lab = mode === 'iptables' ? new IptablesLab({ kernel }) : new PipelineLab({ kernel })
    const discard = kernel.nftChains.discardTable.bind(kernel.nftChains)
    const wasServed: boolean[] = []
    kernel.nftChains.discardTable = async (family, table) => {
      const byRules = linesWith(kernel.xtNamespace, '--to-destination 10.1.0.1:8080').length === 1
      const byServers = (await snapshot(kernel)).some((line) => line.startsWith('tcp 10.96.0.1:80'))
      if (table === 'kube-proxy') wasServed.push(byRules || byServers)
      return await discard(family, table)
    }
    await lab.deliver(...web, synced)
    assert.deepEqual(wasServed, [true, true])
    assert.deepEqual(nftLines(former.namespace), [])
    assert.equal(
      lab.log.find(
        'info',
        'Leftovers of nftables mode: removed the table kube-proxy of nf_tables in IPv4 and IPv6',
      ).length,
      1,
    )
    await lab.stop()
  })
}

it('--cleanup removes the tables of nftables mode, and no other table', async () => {
  const lab = new NftModeLab()
  await lab.deliver(...web, synced)
  await lab.stop()
  await lab.asOther({ op: 'add-table', table: { family: 'ipv4', table: 'mine' } })
  const { text, isComplete } = await cleanUpAll(lab.kernel, [])
  assert.ok(isComplete)
  assert.match(text, /removed the table kube-proxy of nf_tables in IPv4 and IPv6/u)
  assert.deepEqual(nftLines(lab.namespace), ['add table ip mine'])
})

// Leftovers of another mode: the new mode removes them after its first sync, and --cleanup removes them.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { KernelError } from '../../src/errors.js'
import { RouteCursor } from '../../src/kernel/index.js'
import {
  type ModelKernel,
  type ModelXtNamespace,
  type ModelXtTable,
  openModelKernel,
} from '../model/index.js'
import type { ObjectEvent } from '../../src/source/index.js'
import { cleanUpAll } from '../../src/agent/testing.js'
import { IptablesLab, jumpTo, linesWith, refusePruning, ruleLines } from '../support/iptables-lab.js'
import { service, set, slice, synced } from '../support/objects.js'
import { ip, PipelineLab, snapshot } from '../support/pipeline-lab.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1', '10.1.0.2']))]
const web6 = [
  set(service('web6', 'fd00::1', { ipFamilies: ['IPv6'] })),
  set(slice('web6-1', 'web6', ['fd01::1'], { addressType: 'IPv6' })),
]
const shop = [set(service('shop', '10.96.0.2')), set(slice('shop-1', 'shop', ['10.2.0.1']))]

async function started(...events: readonly ObjectEvent[]): Promise<IptablesLab> {
  const lab = new IptablesLab()
  await lab.deliver(...events, synced)
  return lab
}

const refuse = (): number => constants.errno.EAGAIN

function refusal(code: 'EIO' | 'EPERM'): () => Promise<never> {
  return async () => {
    throw new KernelError({ errno: constants.errno[code], subsystem: 'route', operation: 'list' })
  }
}

/** The virtual servers of IPv6 cannot be read. */
function refuseIpv6({ ipvs }: ModelKernel): void {
  const dump = ipvs.dump.bind(ipvs)
  const refused = refusal('EIO')
  ipvs.dump = async (family) => await (family === 'ipv4' ? dump(family) : refused())
}

describe('a switch of the mode', () => {
  it('to iptables: our virtual servers are removed after the rules are written', async () => {
    const former = new PipelineLab()
    await former.deliver(...web, synced)
    await former.stop()
    const { kernel } = former
    assert.notDeepEqual(await snapshot(kernel), [])
    const lab = new IptablesLab({ kernel })
    let wasServed = false
    const ipvs = kernel.ipvs.apply.bind(kernel.ipvs)
    kernel.ipvs.apply = async (ops) => {
      wasServed = linesWith(kernel.xtNamespace, '--to-destination 10.1.0.1:8080').length === 1
      return await ipvs(ops)
    }
    await lab.deliver(...web, synced)
    assert.ok(wasServed)
    assert.deepEqual(await snapshot(kernel), [])
    assert.equal(lab.log.find('info', 'Leftovers of ipvs mode: removed 1 virtual servers').length, 1)
    await lab.stop()
  })

  for (const mode of ['iptables', 'ipvs'] as const) {
    it(`to ${mode}: a forwarded address of Google's guest agent keeps its route (issue 18, A1)`, async () => {
      const kernel = openModelKernel()
      const { index: interfaceIndex } = await kernel.links.addDummy('eth0')
      const route = { address: ip('203.0.113.5'), interfaceIndex, protocol: 66 }
      await kernel.routes.apply([{ op: 'add-route', route }])
      kernel.routes.batches.take()
      const lab = mode === 'iptables' ? new IptablesLab({ kernel }) : new PipelineLab({ kernel })
      await lab.deliver(...web, synced)
      await lab.stop()
      await cleanUpAll(kernel, [])
      const touched = kernel.routes.batches.take().filter((op) => 'route' in op && op.route.protocol === 66)
      assert.deepEqual(touched, [])
    })
  }

  it('to iptables after a kill: routes of an earlier build, with protocol 66, are removed by their set entries', async () => {
    const former = new PipelineLab()
    await former.deliver(...web, synced)
    await former.stop()
    const { kernel } = former
    const route = { address: ip('10.96.0.1'), interfaceIndex: 1, protocol: 66 }
    await kernel.routes.apply([{ op: 'replace-route', route }])
    const lab = new IptablesLab({ kernel })
    await lab.deliver(...web, synced)
    await lab.stop()
    const left = new RouteCursor(await kernel.routes.dumpLocalRoutes('ipv4'))
    const addresses = Array.from({ length: left.length }, (_, index) => left.address(index))
    assert.deepEqual(addresses, ['127.0.0.1'])
  })

  it('to ipvs: our rules of iptables mode are removed after the virtual servers are added', async () => {
    const former = await started(...web)
    await former.stop()
    const { xtNamespace } = former.kernel
    const lab = new PipelineLab({ kernel: openModelKernel({ xtNamespace }) })
    await lab.deliver(...web, synced)
    assert.deepEqual(linesWith(xtNamespace, 'KUBE-SVC'), [])
    assert.deepEqual(linesWith(xtNamespace, 'KUBE-SEP'), [])
    assert.match(
      lab.log
        .find('info', 'Leftovers of iptables mode')
        .map(({ message }) => message)
        .join(),
      /chains from IPv4 nat/u,
    )
    await lab.stop()
  })

  for (const [mode, other] of [
    ['iptables', 'ipvs'],
    ['ipvs', 'iptables'],
  ] as const) {
    it(`to ${mode}: leftovers that cannot be removed are reported and retried`, async () => {
      const former = other === 'ipvs' ? new PipelineLab() : await started(...web)
      await former.deliver(...web, synced)
      await former.stop()
      const { xtNamespace } = former.kernel
      const kernel = other === 'ipvs' ? former.kernel : openModelKernel({ xtNamespace })
      const nat = kernel.xtables('ipv4', 'nat')
      if (other === 'ipvs') kernel.ipvs.batches.plan = { fault: refuse }
      const allowPruning = other === 'ipvs' ? undefined : refusePruning(nat)
      const lab = mode === 'iptables' ? new IptablesLab({ kernel }) : new PipelineLab({ kernel })
      await lab.deliver(...web, synced)
      await lab.clock.advance(65_000)
      const warnings = lab.log.find('warn', `Leftovers of ${other} mode cannot all be removed`)
      assert.match(
        warnings.map(({ message }) => message).join('\n'),
        /^.*cannot all be removed: .*EAGAIN.*$/u,
      )
      kernel.ipvs.batches.plan = {}
      nat.plan = {}
      allowPruning?.()
      await lab.clock.advance(30_000)
      assert.equal(lab.log.find('info', `Leftovers of ${other} mode are removed now`).length, 1)
      if (other === 'ipvs') assert.deepEqual(await snapshot(kernel), [])
      else assert.deepEqual(linesWith(xtNamespace, 'KUBE-SVC-'), [])
      await lab.stop()
    })
  }

  for (const mode of ['iptables', 'ipvs'] as const) {
    it(`to ${mode} from kube-proxy's nftables mode: its tables are removed, and no other tables of nf_tables`, async () => {
      const kernel = openModelKernel()
      const other = { table: 'nat', chain: 'KUBE-SERVICES' }
      for (const family of ['ipv4', 'ipv6'] as const)
        kernel.nftChains.chains[family] = [{ table: 'kube-proxy', chain: 'services' }, other]
      const wasServed: boolean[] = []
      const discard = kernel.nftChains.discardTable.bind(kernel.nftChains)
      kernel.nftChains.discardTable = async (family, table) => {
        const servers = (await snapshot(kernel)).filter((line) => line.startsWith('tcp 10.96.0.1:80'))
        const rules = linesWith(kernel.xtNamespace, '--to-destination 10.1.0.1:8080')
        if (table === 'kube-proxy') wasServed.push((mode === 'iptables' ? rules : servers).length === 1)
        return await discard(family, table)
      }
      const lab = mode === 'iptables' ? new IptablesLab({ kernel }) : new PipelineLab({ kernel })
      await lab.deliver(...web, synced)
      assert.deepEqual(kernel.nftChains.chains, { ipv4: [other], ipv6: [other] })
      assert.deepEqual(wasServed, [true, true], 'the new rules stand first (issue 18, C7)')
      const message = 'Leftovers of nftables mode: removed the table kube-proxy of nf_tables in IPv4 and IPv6'
      assert.equal(lab.log.find('info', message).length, 1)
      await lab.stop()
    })
  }

  // Such a removal was not logged.
  const manglings = [
    ['alone', () => {}, '; removed 0 virtual servers, 0 VIP routes', 0],
    ['before sets that cannot be read', (kernel: ModelKernel) => (kernel.ipset.sets = refusal('EIO')), '', 1],
  ] as const
  for (const [when, spoil, rest, warnings] of manglings) {
    it(`to iptables: chains of ipvs mode in mangle ${when} are removed, and logged`, async () => {
      const kernel = openModelKernel()
      kernel.xtNamespace.table('ipv4', 'mangle').addChain('KUBE-IPVS-IN')
      spoil(kernel)
      const lab = new IptablesLab({ kernel })
      await lab.deliver(...web, synced)
      assert.deepEqual(linesWith(kernel.xtNamespace, 'KUBE-IPVS-IN'), [])
      const lines = lab.log.find('info', 'Leftovers of ipvs mode').map(({ message }) => message)
      assert.deepEqual(lines, [`Leftovers of ipvs mode: removed 1 chains from IPv4 mangle${rest}`])
      assert.equal(lab.log.find('warn', 'Leftovers of ipvs mode cannot all be removed').length, warnings)
      await lab.stop()
    })
  }

  it('to ipvs creates only its own chains', async () => {
    const lab = new PipelineLab()
    await lab.deliver(...web, synced)
    assert.deepEqual(await lab.kernel.activeTables('ipv4'), ['mangle', 'filter', 'nat'])
    assert.equal(lab.log.find('info', 'Leftovers of iptables mode').length, 0)
    await lab.stop()
  })
})

/** Adds chains of kube-proxy before 1.24 and of its userspace mode, with their jumps, and a foreign chain. */
function leaveOldReleases(namespace: ModelXtNamespace): void {
  const [nat, filter] = [namespace.table('ipv4', 'nat'), namespace.table('ipv4', 'filter')]
  const portals = [
    'KUBE-PORTALS-CONTAINER',
    'KUBE-PORTALS-HOST',
    'KUBE-NODEPORT-CONTAINER',
    'KUBE-NODEPORT-HOST',
  ]
  for (const chain of [...portals, 'KUBE-MARK-DROP', 'KUBE-XLB-OLDAAAAAAAAAAAAA', 'KUBE-PORTALS-MINE'])
    nat.addChain(chain)
  nat.append('KUBE-XLB-OLDAAAAAAAAAAAAA', jumpTo('KUBE-MARK-DROP'))
  nat.append('PREROUTING', jumpTo('KUBE-PORTALS-CONTAINER'), jumpTo('KUBE-NODEPORT-CONTAINER'))
  nat.append('OUTPUT', jumpTo('KUBE-PORTALS-HOST'), jumpTo('KUBE-NODEPORT-HOST'), jumpTo('KUBE-PORTALS-MINE'))
  filter.addChain('KUBE-NODEPORT-NON-LOCAL')
  filter.append('INPUT', jumpTo('KUBE-NODEPORT-NON-LOCAL'))
}

/** Rules of those chains, and jumps to them. */
function linesOfOldReleases(namespace: ModelXtNamespace): readonly string[] {
  return ruleLines(namespace).filter((line) => /KUBE-(?:XLB|PORTALS|NODEPORT-[CHN]|MARK-DROP)/u.test(line))
}

/** The ways to remove objects of other modes. */
const takers: Readonly<Record<string, (kernel: ModelKernel) => Promise<void>>> = {
  '--cleanup': async (kernel) => void (await cleanUpAll(kernel, [])),
  'iptables mode': async (kernel) => {
    const lab = new IptablesLab({ kernel })
    await lab.deliver(...web, synced)
    await lab.stop()
  },
  'ipvs mode': async (kernel) => {
    const lab = new PipelineLab({ kernel })
    await lab.deliver(...web, synced)
    await lab.stop()
  },
}

describe('chains of old releases of kube-proxy (issue 18, B7)', () => {
  for (const [name, take] of Object.entries(takers)) {
    it(`are removed by ${name}, and no other chains`, async () => {
      const kernel = openModelKernel()
      leaveOldReleases(kernel.xtNamespace)
      await take(kernel)
      assert.deepEqual(linesOfOldReleases(kernel.xtNamespace), [
        'ipv4 nat KUBE-PORTALS-MINE',
        'ipv4 nat OUTPUT -j KUBE-PORTALS-MINE',
      ])
    })

    it(`except KUBE-MARK-DROP with kubelet's rule, by ${name}`, async () => {
      const kernel = openModelKernel()
      const nat = kernel.xtNamespace.table('ipv4', 'nat')
      nat.addChain('KUBE-MARK-DROP')
      nat.append('KUBE-MARK-DROP', { target: { kind: 'mark', value: 0x8000, mask: 0x8000 } })
      const before = linesOfOldReleases(kernel.xtNamespace)
      await take(kernel)
      assert.deepEqual(linesOfOldReleases(kernel.xtNamespace), before)
    })
  }

  it('except an empty KUBE-MARK-DROP to which another program jumps: kubelet may fill it', async () => {
    const kernel = openModelKernel()
    const nat = kernel.xtNamespace.table('ipv4', 'nat')
    for (const chain of ['KUBE-MARK-DROP', 'MINE']) nat.addChain(chain)
    nat.append('MINE', jumpTo('KUBE-MARK-DROP'))
    const lab = new IptablesLab({ kernel })
    await lab.deliver(...web, synced)
    nat.append('KUBE-MARK-DROP', { target: { kind: 'mark', value: 0x8000, mask: 0x8000 } })
    const before = linesOfOldReleases(kernel.xtNamespace)
    await lab.deliver(...shop)
    await lab.clock.advance(120_000)
    assert.deepEqual(linesOfOldReleases(kernel.xtNamespace), before)
    assert.deepEqual(lab.log.find('error', 'Network programming failed'), [])
    await lab.stop()
  })
})

/** Adds a jump from the foreign chain MINE to the first chain with this prefix. */
function jumpFromMine(kernel: ModelXtTable, prefix: string): string {
  const chain = [...kernel.chains.keys()].find((name) => name.startsWith(prefix)) ?? ''
  kernel.addChain('MINE')
  kernel.append('MINE', jumpTo(chain))
  return chain
}

// The chain kept its rules and was not reported.
describe('a leftover chain of another mode to which a foreign chain jumps (issue 18, C2)', () => {
  const rows = [
    ['ipvs', 'iptables', 'nat', 'KUBE-SVC-'],
    ['iptables', 'ipvs', 'mangle', 'KUBE-IPVS-IN'],
  ] as const
  for (const [mode, other, table, prefix] of rows) {
    it(`to ${mode}: stays, empty, is reported, and is removed after the jump`, async () => {
      const former = other === 'ipvs' ? new PipelineLab() : new IptablesLab()
      await former.deliver(...web, synced)
      await former.stop()
      const { xtNamespace } = former.kernel
      const kernel = xtNamespace.table('ipv4', table)
      const chain = jumpFromMine(kernel, prefix)
      assert.notDeepEqual(kernel.chains.get(chain), [])
      const opened = openModelKernel({ xtNamespace })
      const lab =
        mode === 'iptables' ? new IptablesLab({ kernel: opened }) : new PipelineLab({ kernel: opened })
      await lab.deliver(...web, synced)
      assert.deepEqual(kernel.chains.get(chain), [])
      await lab.clock.advance(65_000)
      const opening = `Leftovers of ${other} mode cannot all be removed`
      assert.deepEqual(lab.log.find('info', 'stays, empty'), [])
      assert.deepEqual(
        lab.log.find('warn', opening).map(({ message }) => message),
        [`${opening}: IPv4 table ${table}: chain ${chain} stays, empty, as chain MINE jumps to it`],
      )
      kernel.flush('MINE')
      await lab.clock.advance(65_000)
      assert.equal(kernel.chains.has(chain), false)
      assert.equal(lab.log.find('info', `Leftovers of ${other} mode are removed now`).length, 1)
      await lab.stop()
    })
  }

  it('with --cleanup: stays, empty, and is named; a --cleanup after the jump is gone removes it', async () => {
    const lab = await started(...web)
    await lab.stop()
    const { xtNamespace } = lab.kernel
    const nat = xtNamespace.table('ipv4', 'nat')
    const chain = jumpFromMine(nat, 'KUBE-SVC-')
    const first = await cleanUpAll(openModelKernel({ xtNamespace }), [])
    assert.equal(first.isComplete, false)
    const words = `; failed: IPv4 table nat: chain ${chain} stays, empty, as chain MINE jumps to it`
    assert.ok(first.text.endsWith(words), first.text)
    assert.deepEqual(linesWith(xtNamespace, 'KUBE-S'), [`ipv4 nat ${chain}`, `ipv4 nat MINE -j ${chain}`])
    nat.flush('MINE')
    assert.equal((await cleanUpAll(openModelKernel({ xtNamespace }), [])).isComplete, true)
    assert.deepEqual(linesWith(xtNamespace, 'KUBE-S'), [])
  })
})

describe('a set that a killed agent created to test the kernel (issue 18, C4)', () => {
  const settings = { type: 'hash:net', family: 'ipv4', maxElements: 64, hashSize: 64 } as const
  const names = ['viaduct-probe-7', 'viaduct-probe-mine', 'my-viaduct-probe-7']

  for (const taker of ['--cleanup', 'iptables mode'] as const) {
    it(`is removed by ${taker}, and no other set`, async () => {
      const kernel = openModelKernel()
      const sets = names.map((name) => ({ ...settings, name, hasMarks: false, hasComments: false }))
      await kernel.ipset.apply(sets.map((made) => ({ op: 'create-set', set: made })))
      await takers[taker]?.(kernel)
      const left = (await kernel.ipset.sets()).map(({ name }) => name)
      assert.deepEqual(left.toSorted(), names.slice(1).toSorted())
    })
  }
})

describe('--cleanup', () => {
  it('restores the former tables, in every mode', async () => {
    const kernel = openModelKernel()
    kernel.xtNamespace.table('ipv4', 'filter').append('INPUT', { target: { kind: 'accept' } })
    const before = ruleLines(kernel.xtNamespace)
    const lab = new IptablesLab({ kernel, config: { iptables: { localhostNodePorts: false } } })
    await lab.deliver(...web, ...shop, synced)
    await lab.stop()
    const again = openModelKernel({ xtNamespace: kernel.xtNamespace })
    again.nftChains.chains.ipv6 = [{ table: 'kube-proxy', chain: 'services' }]
    const { text, isComplete } = await cleanUpAll(again, [])
    assert.ok(isComplete)
    assert.match(text, /removed \d+ chains from IPv4 filter/u)
    assert.match(text, /removed the table kube-proxy of nf_tables in IPv6/u)
    assert.deepEqual(again.nftChains.chains.ipv6, [])
    assert.deepEqual(ruleLines(kernel.xtNamespace), before)
    const { writes } = kernel.xtNamespace.table('ipv4', 'nat')
    assert.match((await cleanUpAll(again, [])).text, /removed no chains/u)
    assert.equal(kernel.xtNamespace.table('ipv4', 'nat').writes, writes)
  })

  it("keeps kubelet's chain, with its rule and its jumps", async () => {
    const lab = await started(...web)
    await lab.stop()
    await cleanUpAll(openModelKernel({ xtNamespace: lab.kernel.xtNamespace }), [])
    assert.equal(linesWith(lab.kernel.xtNamespace, '-j KUBE-FIREWALL').length, 2)
  })

  it('continues with the other tables if one fails, and reports the failure', async () => {
    const lab = await started(...web)
    await lab.stop()
    const kernel = openModelKernel({ xtNamespace: lab.kernel.xtNamespace })
    kernel.xtables('ipv4', 'nat').plan = { callFault: () => constants.errno.EAGAIN }
    const { text, isComplete } = await cleanUpAll(kernel, [])
    assert.ok(!isComplete)
    assert.match(text, /chains from IPv4 filter.*; failed: .*EAGAIN/u)
  })

  // The first mode that threw ended the clean-up.
  const unreadable = [
    [
      'the list of tables',
      (kernel: ModelKernel) => (kernel.activeTables = refusal('EIO')),
      /; removed 1 virtual servers, .*; removed the table kube-proxy .* IPv6; failed: route: list: EIO$/u,
    ],
    [
      'the list of devices',
      (kernel: ModelKernel) => (kernel.links.find = refusal('EPERM')),
      /; removed the table kube-proxy .* IPv6; failed: CAP_NET_ADMIN is missing: .*\(route: list: EPERM\)$/u,
    ],
  ] as const
  for (const [what, spoil, expected] of unreadable) {
    it(`continues with the other modes if ${what} cannot be read, and reports it`, async () => {
      const former = new PipelineLab()
      await former.deliver(...web, synced)
      await former.stop()
      const { kernel } = former
      kernel.nftChains.chains.ipv6 = [{ table: 'kube-proxy', chain: 'services' }]
      spoil(kernel)
      const { text, isComplete } = await cleanUpAll(kernel, [])
      assert.match(text, expected)
      assert.equal(isComplete, false)
      assert.deepEqual(kernel.nftChains.chains.ipv6, [])
    })
  }

  // An error hid what was removed before it.
  const lateErrors = [
    [
      'the virtual servers of IPv6',
      /; removed 1 virtual servers, 1 VIP routes; failed: route: list: EIO$/u,
      refuseIpv6,
    ],
    [
      'IPv6, after a refusal for IPv4,',
      /^removed no chains; removed 0 virtual servers, .*; failed: .*EAGAIN; failed: route: list: EIO$/u,
      (kernel: ModelKernel) => {
        kernel.ipvs.batches.plan = { fault: refuse }
        refuseIpv6(kernel)
      },
    ],
    [
      'the device',
      /; removed 2 virtual servers, 2 VIP routes; failed: route: list: EIO$/u,
      ({ links }: ModelKernel) => (links.remove = refusal('EIO')),
    ],
    [
      'the sets',
      /; removed 2 virtual servers, 2 VIP routes, the device .*; failed: route: list: EIO$/u,
      ({ ipset, links }: ModelKernel) => {
        const remove = links.remove.bind(links)
        links.remove = async (index) => {
          ipset.sets = refusal('EIO')
          await remove(index)
        }
      },
    ],
  ] as const
  for (const [what, expected, spoil] of lateErrors) {
    it(`reports what was done before ${what} failed`, async () => {
      const former = new PipelineLab()
      await former.deliver(...web, ...web6, synced)
      await former.stop()
      const { kernel } = former
      spoil(kernel)
      const { text, isComplete } = await cleanUpAll(kernel, [])
      assert.match(text, expected)
      assert.equal(isComplete, false)
    })
  }

  it('continues with the other family if a table of nftables mode fails', async () => {
    const kernel = openModelKernel()
    const { chains } = kernel.nftChains
    chains.ipv6 = [{ table: 'kube-proxy', chain: 'services' }]
    const discard = kernel.nftChains.discardTable.bind(kernel.nftChains)
    kernel.nftChains.discardTable = async (family, table) => {
      if (family === 'ipv6') return await discard(family, table)
      const errno = constants.errno.EBUSY
      throw new KernelError({ errno, subsystem: 'nftables', operation: 'remove a table', family })
    }
    const { text, isComplete } = await cleanUpAll(kernel, [])
    assert.ok(!isComplete)
    assert.match(text, /removed the table kube-proxy of nf_tables in IPv6; failed: .*EBUSY$/u)
  })
})

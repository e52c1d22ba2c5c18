// Section 9 of the facts about iptables-nft: which flavour of x_tables a node uses.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { IptablesFlavour } from '../../../src/config/index.js'
import { chooseFlavour, kubeletSigns } from '../../../src/host/index.js'
import { flavourContradiction } from '../../../src/host/testing.js'
import type { IpFamily } from '../../../src/address.js'
import type { XtFlavour, XtTableName } from '../../../src/kernel/index.js'
import { type ModelKernel, openModelKernel } from '../../model/index.js'

const { EOPNOTSUPP, EPERM, EPROTONOSUPPORT } = constants.errno

/** `nft ipv4 mangle KUBE-IPTABLES-HINT`: another program made this chain. */
type Chain = `${XtFlavour} ${IpFamily} ${XtTableName} ${string}`

const isName =
  <T extends string>(...names: readonly T[]) =>
  (text: string | undefined): text is T =>
    names.some((name) => name === text)
const isFamily = isName<IpFamily>('ipv4', 'ipv6')
const isTable = isName<XtTableName>('nat', 'filter', 'mangle', 'raw')

function kernelWith(chains: readonly Chain[]): ModelKernel {
  const kernel = openModelKernel()
  for (const each of chains) {
    const [flavour, family, table, chain = ''] = each.split(' ')
    assert.ok(isFamily(family) && isTable(table))
    if (flavour === 'legacy') kernel.xtNamespace.table(family, table).addChain(chain)
    else kernel.nftChains.chains[family] = [...kernel.nftChains.chains[family], { table, chain }]
  }
  return kernel
}

async function choose(
  kernel: ModelKernel,
  setting: IptablesFlavour = 'auto',
): Promise<{ readonly flavour: XtFlavour; readonly reason: string; readonly problem: string | undefined }> {
  const kubelet = await kubeletSigns(kernel)
  const chosen = await chooseFlavour(kernel, setting)
  return { ...chosen, problem: flavourContradiction(chosen.flavour, kubelet) }
}

describe('the flavour of x_tables', () => {
  const cases: readonly {
    readonly name: string
    readonly chains: readonly Chain[]
    readonly setting?: IptablesFlavour
    readonly flavour: XtFlavour
    readonly reason: string
    /** Words of the contradiction; absent: there is none. */
    readonly problem?: readonly string[]
  }[] = [
    {
      name: "is nft by kubelet's hint",
      chains: ['nft ipv4 mangle KUBE-IPTABLES-HINT', 'nft ipv4 mangle KUBE-KUBELET-CANARY'],
      flavour: 'nft',
      reason: 'kubelet made IPv4 mangle KUBE-IPTABLES-HINT in nf_tables',
    },
    {
      name: "is nft by an older kubelet's canary, also of IPv6 alone",
      chains: ['nft ipv6 mangle KUBE-KUBELET-CANARY', 'legacy ipv4 nat KUBE-SERVICES'],
      flavour: 'nft',
      reason: 'kubelet made IPv6 mangle KUBE-KUBELET-CANARY in nf_tables',
    },
    {
      name: "is legacy by kubelet's hint, regardless of kube-proxy's chains",
      chains: ['legacy ipv4 mangle KUBE-IPTABLES-HINT', 'nft ipv4 nat KUBE-SERVICES'],
      flavour: 'legacy',
      reason: 'kubelet made IPv4 mangle KUBE-IPTABLES-HINT in the legacy tables',
    },
    {
      name: 'is nft when kubelet used both, with a report',
      chains: ['nft ipv4 mangle KUBE-IPTABLES-HINT', 'legacy ipv4 mangle KUBE-KUBELET-CANARY'],
      flavour: 'nft',
      reason: 'kubelet made IPv4 mangle KUBE-IPTABLES-HINT in nf_tables',
      problem: [
        'IPv4 mangle KUBE-IPTABLES-HINT in nf_tables and IPv4 mangle KUBE-KUBELET-CANARY in the legacy tables',
        'uses the flavour nft',
      ],
    },
    {
      name: "is nft by kube-proxy's chains",
      chains: ['nft ipv4 nat KUBE-SERVICES'],
      flavour: 'nft',
      reason: 'there is IPv4 nat KUBE-SERVICES in nf_tables',
    },
    {
      name: "is legacy by kube-proxy's chains",
      chains: ['legacy ipv6 nat KUBE-SERVICES'],
      flavour: 'legacy',
      reason: 'there is IPv6 nat KUBE-SERVICES in the legacy tables',
    },
    {
      name: "is nft on a kernel with nft_compat when kube-proxy's chains are in both",
      chains: ['legacy ipv4 nat KUBE-SERVICES', 'nft ipv4 nat KUBE-SERVICES'],
      flavour: 'nft',
      reason: 'no other program shows one, and the kernel has nft_compat',
    },
    {
      name: 'is nft on a kernel with nft_compat, regardless of other chains',
      chains: ['legacy ipv4 mangle CNI', 'legacy ipv4 filter KUBE-IPTABLES-HINT', 'nft ipv4 nat DOCKER'],
      flavour: 'nft',
      reason: 'no other program shows one, and the kernel has nft_compat',
    },
    {
      name: 'is the setting',
      chains: ['nft ipv4 mangle KUBE-IPTABLES-HINT'],
      setting: 'nft',
      flavour: 'nft',
      reason: 'the setting iptablesFlavour',
    },
    {
      name: 'is the setting against the facts, with a report',
      chains: ['nft ipv4 mangle KUBE-IPTABLES-HINT'],
      setting: 'legacy',
      flavour: 'legacy',
      reason: 'the setting iptablesFlavour',
      problem: [
        'uses the flavour legacy, but kubelet made IPv4 mangle KUBE-IPTABLES-HINT in nf_tables',
        '--iptables-flavour=nft',
      ],
    },
  ]
  for (const { name, chains, setting, flavour, reason, problem } of cases) {
    it(name, async () => {
      const found = await choose(kernelWith(chains), setting)
      assert.deepEqual([found.flavour, found.reason], [flavour, reason])
      if (problem === undefined) assert.equal(found.problem, undefined)
      for (const words of problem ?? []) assert.ok(found.problem?.includes(words), found.problem)
    })
  }

  for (const [name, errno] of [
    ['nf_tables', EPROTONOSUPPORT],
    ['nft_compat', EOPNOTSUPP],
  ] as const) {
    it(`is legacy on a kernel without ${name}`, async () => {
      const kernel = openModelKernel()
      kernel.nftables.plan = { fault: (op) => (op.op === 'add-rule' ? errno : undefined) }
      const { flavour, reason } = await choose(kernel)
      assert.deepEqual(
        [flavour, reason],
        ['legacy', 'no other program shows one, and the kernel has no nft_compat'],
      )
    })
  }

  it('is not found by a process that may not use nf_tables', async () => {
    const kernel = openModelKernel()
    kernel.nftables.plan = { transactionFault: () => EPERM }
    await assert.rejects(choose(kernel), { code: 'EPERM' })
  })

  it('creates no legacy table, and changes nothing', async () => {
    const kernel = openModelKernel()
    await choose(kernel)
    assert.deepEqual(
      [await kernel.activeTables('ipv4'), await kernel.activeTables('ipv6'), kernel.nftables.transactions],
      [[], [], []],
    )
    assert.deepEqual([...kernel.nftables.namespace.tables.ipv4], [])
  })
})

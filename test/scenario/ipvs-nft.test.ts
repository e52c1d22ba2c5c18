// ipvs mode with its rules in nf_tables.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import type { NfOp, NfRuleState, XtFlavour } from '../../src/kernel/index.js'
import { ModelNftables, type ModelKernel, openModelKernel } from '../model/index.js'
import { settle } from '../support/manual-clock.js'
import { service, set, slice, synced } from '../support/objects.js'
import { PipelineLab } from '../support/pipeline-lab.js'

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]
const families: readonly IpFamily[] = ['ipv4', 'ipv6']

function labOf(kernel = openModelKernel()): PipelineLab {
  return new PipelineLab({ kernel, flavour: 'nft' })
}

async function startedLab(kernel?: ModelKernel): Promise<PipelineLab> {
  const lab = labOf(kernel)
  await lab.deliver(...web, synced)
  await lab.clock.advance(1500)
  return lab
}

async function rulesOf({ kernel }: PipelineLab, place: Place): Promise<readonly NfRuleState[]> {
  return await kernel.nftables.rules(place)
}

interface Place {
  readonly family: IpFamily
  readonly table: string
  readonly chain: string
}

/** A line for each chain: its name, and a hash of its rules without their handles. */
async function allChains({ kernel }: PipelineLab): Promise<readonly string[]> {
  const { nftables } = kernel
  const lines: string[] = []
  for (const family of families)
    for (const { table, chain } of await nftables.chains({ family })) {
      const rules = await nftables.rules({ family, table, chain })
      const hash = createHash('sha1').update(JSON.stringify(rules.map(({ expressions }) => expressions)))
      lines.push(`${family} ${table} ${chain} ${hash.digest('hex')}`)
    }
  return lines.toSorted()
}

const services: Place = { family: 'ipv4', table: 'nat', chain: 'KUBE-SERVICES' }
const preroutingOfNat: Place = { family: 'ipv4', table: 'nat', chain: 'PREROUTING' }
const input6: Place = { family: 'ipv6', table: 'mangle', chain: 'KUBE-IPVS-IN' }

it('writes its rules to nf_tables, and creates no legacy table', async () => {
  const lab = await startedLab()
  const { kernel } = lab
  for (const family of families) {
    const chains = (await kernel.nftables.chains({ family })).map(({ table, chain }) => `${table} ${chain}`)
    for (const chain of ['nat KUBE-SERVICES', 'mangle KUBE-IPVS-OUT', 'filter KUBE-IPVS-FILTER'])
      assert.ok(chains.includes(chain), `${family} has no ${chain}`)
    assert.deepEqual(kernel.xtNamespace.active(family), [])
  }
  await lab.stop()
})

it('writes its rules without the right to list legacy tables', async () => {
  const kernel = openModelKernel()
  kernel.activeTables = async (family, flavour) => {
    if (flavour === 'nft') return []
    throw new KernelError({
      errno: constants.errno.EACCES,
      subsystem: 'xtables',
      operation: 'list tables',
      family,
    })
  }
  const lab = await startedLab(kernel)
  assert.notDeepEqual(await rulesOf(lab, services), [])
  await lab.stop()
})

it('a restart writes nothing', async () => {
  const former = await startedLab()
  await former.stop()
  const { kernel } = former
  const { length } = kernel.nftables.transactions
  const lab = labOf(kernel)
  await lab.deliver(...web, synced)
  await lab.clock.advance(60_000)
  assert.deepEqual(kernel.nftables.transactions.slice(length), [])
  await lab.stop()
})

describe('rules of iptables mode in one flavour serve until virtual servers do, so ours in the other wait', () => {
  const cases: readonly {
    readonly flavour: XtFlavour
    readonly leave: (kernel: ModelKernel) => void
  }[] = [
    {
      flavour: 'nft',
      leave: ({ xtNamespace }) => xtNamespace.table('ipv4', 'nat').addChain('KUBE-SVC-AAAAAAAAAAAAAAAA'),
    },
    {
      flavour: 'legacy',
      leave: ({ nftChains }) => {
        nftChains.chains.ipv4 = [{ table: 'nat', chain: 'KUBE-SVC-AAAAAAAAAAAAAAAA' }]
      },
    },
  ]
  for (const { flavour, leave } of cases) {
    it(`ours in the flavour ${flavour}`, async () => {
      const kernel = openModelKernel()
      leave(kernel)
      kernel.ipvs.batches.plan = {
        callFault: (call) => (call === 'apply' ? constants.errno.ENOMEM : undefined),
      }
      const lab = new PipelineLab({ kernel, flavour })
      const hasServices = async (): Promise<boolean> =>
        (await kernel.xtables('ipv4', 'nat', flavour).chains()).some(({ chain }) => chain === 'KUBE-SERVICES')
      await lab.deliver(...web, synced)
      assert.equal(await hasServices(), false)
      kernel.ipvs.batches.plan = {}
      await lab.clock.advance(10_000)
      assert.equal(await hasServices(), true)
      await lab.stop()
    })
  }
})

describe('a change of another program to our rules is repaired at once', () => {
  const changes: readonly {
    readonly name: string
    readonly by: (lab: PipelineLab) => Promise<readonly NfOp[]>
  }[] = [
    {
      name: 'a deleted jump',
      by: async (lab) =>
        (await rulesOf(lab, preroutingOfNat)).map(({ handle }) => ({
          op: 'delete-rule',
          rule: preroutingOfNat,
          handle,
        })),
    },
    { name: 'a flushed chain', by: async () => [{ op: 'flush-chain', chain: services }] },
    { name: 'a flushed chain of IPv6', by: async () => [{ op: 'flush-chain', chain: input6 }] },
    {
      name: 'a rule in our chain',
      by: async () => [
        {
          op: 'insert-rule',
          rule: {
            ...services,
            expressions: [{ kind: 'immediate', to: 'verdict', data: { verdict: { code: 'drop' } } }],
          },
        },
      ],
    },
    { name: 'a deleted table', by: async () => [{ op: 'delete-table', table: services }] },
  ]
  for (const { name, by } of changes) {
    it(name, async () => {
      const lab = await startedLab()
      const before = await allChains(lab)
      const other = new ModelNftables(lab.kernel.nftables.namespace)
      const { state } = await other.apply(await by(lab))
      assert.equal(state, 'applied')
      assert.notDeepEqual(await allChains(lab), before)
      await settle()
      assert.deepEqual(await allChains(lab), before)
      await lab.clock.advance(60_000)
      assert.equal(lab.log.find('info', 'Kernel state differs').length, 1)
      await lab.stop()
    })
  }
})

it('a program that changes our rules all the time causes two comparisons a second', async () => {
  const lab = await startedLab()
  const before = await allChains(lab)
  const other = new ModelNftables(lab.kernel.nftables.namespace)
  const flush = async (): Promise<void> => {
    await other.apply([{ op: 'flush-chain', chain: services }])
    await settle()
  }
  await flush()
  assert.deepEqual(await allChains(lab), before)
  await flush()
  assert.notDeepEqual(await allChains(lab), before)
  await lab.clock.advance(500)
  assert.deepEqual(await allChains(lab), before)
  await lab.stop()
})

it("changes of other programs' chains cause no comparison", async () => {
  const lab = await startedLab()
  const { nftables } = lab.kernel
  let reads = 0
  const rules = nftables.rules.bind(nftables)
  nftables.rules = async (scope) => {
    reads++
    return await rules(scope)
  }
  const other = new ModelNftables(nftables.namespace)
  const chain = { family: 'ipv4', table: 'nat', chain: 'CNI-HOSTPORT-DNAT' } as const
  await other.apply([{ op: 'add-chain', chain }])
  await other.apply([{ op: 'add-rule', rule: { ...chain, expressions: [{ kind: 'counter' }] } }])
  await settle()
  assert.equal(reads, 0)
  await lab.stop()
})

it('where nf_tables cannot be watched, changes are repaired within a sync period, with one warning', async () => {
  const kernel = openModelKernel()
  kernel.nftables.watch = () => {
    throw new KernelError({ errno: constants.errno.EMFILE, subsystem: 'nftables', operation: 'open socket' })
  }
  const lab = await startedLab(kernel)
  const before = await allChains(lab)
  await new ModelNftables(kernel.nftables.namespace).apply([{ op: 'flush-chain', chain: services }])
  await lab.clock.advance(30_000)
  assert.deepEqual(await allChains(lab), before)
  assert.equal(lab.log.find('warn', 'nf_tables cannot be watched').length, 1)
  await lab.stop()
})

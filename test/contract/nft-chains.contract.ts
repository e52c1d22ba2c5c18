// Laws of NftChains, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import type { NftChains, Xtables, XtTableName } from '../../src/kernel/index.js'
import type { NftChain } from '../../src/kernel/testing.js'
import { rejectsWith } from './law.js'

export interface NftChainsSubject {
  readonly nftChains: NftChains
  /** A legacy table of the same namespace. */
  xtables(family: IpFamily, table: XtTableName): Xtables
  /** Adds nf_tables chains, like a kube-proxy that uses iptables-nft. */
  addChains(family: IpFamily, chains: readonly NftChain[]): Promise<void>
}

const kubeChains: readonly NftChain[] = [
  { table: 'nat', chain: 'KUBE-SERVICES' },
  { table: 'nat', chain: 'KUBE-SVC-TCOU7JCQXEZGVUNU' },
  { table: 'filter', chain: 'KUBE-FORWARD' },
]

/** The chains of a family as text, sorted by table and name. */
async function sorted(nftChains: NftChains, family: IpFamily): Promise<readonly string[]> {
  return (await nftChains.list(family)).map(({ table, chain }) => `${table} ${chain}`).toSorted()
}

/** Runs the laws in order in one network namespace without rules. */
export function nftChainsContract(subject: string, open: () => NftChainsSubject): void {
  describe(`${subject}: NftChains`, () => {
    let namespace: NftChainsSubject
    before(() => {
      namespace = open()
    })
    after(async () => {
      await namespace.nftChains.close()
      await namespace.nftChains.close()
      await rejectsWith(namespace.nftChains.list('ipv4'), 'EBADF')
      await rejectsWith(namespace.nftChains.loadXtables('ipv4'), 'EBADF')
      await rejectsWith(namespace.nftChains.discardTable('ipv4', 'nat'), 'EBADF')
    })

    it('lists nothing in a namespace without tables', async () => {
      assert.deepEqual(await namespace.nftChains.list('ipv4'), [])
      assert.deepEqual(await namespace.nftChains.list('ipv6'), [])
    })
    for (const [family, other] of [
      ['ipv6', 'ipv4'],
      ['ipv4', undefined],
    ] as const) {
      it(`lists the chains of ${family} with their tables`, async () => {
        await namespace.addChains(family, kubeChains)
        assert.deepEqual(
          await sorted(namespace.nftChains, family),
          kubeChains.map(({ table, chain }) => `${table} ${chain}`).toSorted(),
        )
        if (other !== undefined) assert.deepEqual(await namespace.nftChains.list(other), [])
      })
    }
    it('deletes a table with its chains, and nothing else', async () => {
      const { nftChains } = namespace
      assert.equal(await nftChains.discardTable('ipv6', 'nat'), true)
      assert.deepEqual(await sorted(nftChains, 'ipv6'), ['filter KUBE-FORWARD'])
      assert.equal((await nftChains.list('ipv4')).length, kubeChains.length)
      assert.equal(await nftChains.discardTable('ipv6', 'nat'), false)
      assert.equal(await nftChains.discardTable('ipv4', 'kube-proxy'), false)
    })
    for (const family of ['ipv4', 'ipv6'] as const) {
      it(`loads the legacy tables of ${family}, and changes no nf_tables chain`, async () => {
        const chains = await sorted(namespace.nftChains, family)
        await namespace.nftChains.loadXtables(family)
        // check() throws ENOPROTOOPT for an absent table. This table exists, and this object has not written it: false.
        assert.equal(await namespace.xtables(family, 'nat').check(), false)
        assert.deepEqual(await sorted(namespace.nftChains, family), chains)
      })
    }
    it('lists thousands of chains', async () => {
      const many = Array.from({ length: 3000 }, (_, index) => ({ table: 'nat', chain: `KUBE-SEP-${index}` }))
      await namespace.addChains('ipv4', many)
      const names = new Set((await namespace.nftChains.list('ipv4')).map(({ chain }) => chain))
      assert.equal(names.size, many.length + kubeChains.length)
    })
  })
}

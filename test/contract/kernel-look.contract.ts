// Laws of KernelLook, run on the model and on the kernel.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import type {
  Ipset,
  IpsetSettings,
  Ipvs,
  KernelLook,
  LookWatch,
  NftChains,
  VirtualServerKey,
  Xtables,
  XtTableName,
} from '../../src/kernel/index.js'
import type { LookFinding } from '../../src/kernel/testing.js'
import { ip, rejectsWith } from './law.js'

export interface KernelLookSubject {
  look(families: readonly IpFamily[]): KernelLook
  xtables(family: IpFamily, table: XtTableName): Xtables
  activeTables(family: IpFamily): Promise<readonly XtTableName[]>
  readonly nftChains: Pick<NftChains, 'loadXtables'>
  readonly ipvs: Ipvs
  readonly ipset: Ipset
  /** Another program takes and releases the lock of the tables. */
  useLock(): void
  close(): Promise<void>
}

const families = ['ipv4', 'ipv6'] as const
const chain = 'VIADUCT-LOOK'
const set: IpsetSettings = {
  name: chain,
  family: 'ipv4',
  type: 'bitmap:port',
  maxElements: 65_536,
  hashSize: 64,
  hasMarks: false,
  hasComments: false,
}

const nothing: LookFinding = { isOther: false, isUnlocked: false }
const different: LookFinding = { isOther: true, isUnlocked: false }
const unlocked: LookFinding = { isOther: false, isUnlocked: true }

/** The next finding of the watch. It may take many calls: slow reads of sets make looks at the sets rare. */
async function findingOf(
  watch: LookWatch,
  sample: readonly VirtualServerKey[] = [],
): Promise<LookFinding | undefined> {
  for (;;) {
    const found = await watch.next(sample)
    if (found === undefined || found.isOther || found.isUnlocked) return found
  }
}

/** Runs the laws in order in one network namespace without rules. `hasIpvs`: IP_VS is available. */
export function kernelLookContract(
  subject: string,
  open: () => KernelLookSubject,
  { hasIpvs }: { readonly hasIpvs: boolean },
): void {
  describe(`${subject}: KernelLook`, () => {
    let kernel: KernelLookSubject
    before(async () => {
      kernel = open()
      // The legacy tables do not load themselves.
      for (const family of families) await kernel.nftChains.loadXtables(family)
    })
    after(async () => {
      await kernel.look(['ipv4']).close()
      await kernel.look(['ipv4']).close()
      await rejectsWith(kernel.look(['ipv4']).take(), 'EBADF')
      await kernel.close()
    })
    const take = async (...of: readonly IpFamily[]): Promise<string> =>
      Buffer.from(await kernel.look(of).take()).toString('hex')

    it('without families looks at no table, and creates none', async () => {
      // Tests of other subjects may have made tables.
      const activeTables = async () =>
        await Promise.all(families.map(async (family) => await kernel.activeTables(family)))
      const tables = await activeTables()
      const empty = await take()
      const watch = kernel.look([]).watch('VIADUCT-')
      assert.deepEqual(await watch.next([]), nothing)
      await watch.close()
      assert.deepEqual(await activeTables(), tables)
      await kernel.xtables('ipv4', 'nat').apply([{ op: 'set-chain', chain, rules: [] }])
      assert.equal(await take(), empty)
      await kernel.xtables('ipv4', 'nat').apply([{ op: 'remove-chain', chain }])
    })

    for (const family of families) {
      it(`${family}: is unchanged while nothing changes`, async () => {
        assert.notEqual(await take(family), '')
        assert.equal(await take(family), await take(family))
      })
      for (const table of ['nat', 'mangle', 'filter'] as const) {
        it(`${family}: changes when a chain is added to or removed from ${table}`, async () => {
          const xtables = kernel.xtables(family, table)
          const empty = await take(family)
          const ofBoth = await take(...families)
          await xtables.apply([{ op: 'set-chain', chain, rules: [{ target: { kind: 'return' } }] }])
          assert.notEqual(await take(family), empty)
          assert.notEqual(await take(...families), ofBoth)
          await xtables.apply([{ op: 'remove-chain', chain }])
          assert.equal(await take(family), empty)
          assert.equal(await take(...families), ofBoth)
        })
      }
    }

    it('a watch reports a new chain and a new set once each', async () => {
      const watch = kernel.look(families).watch('VIADUCT-')
      assert.deepEqual(await watch.next([]), nothing)
      const xtables = kernel.xtables('ipv4', 'nat')
      const changes: readonly (() => Promise<unknown>)[] = [
        () => xtables.apply([{ op: 'set-chain', chain, rules: [{ target: { kind: 'return' } }] }]),
        () => xtables.apply([{ op: 'remove-chain', chain }]),
        () => kernel.ipset.apply([{ op: 'create-set', set }]),
        () => kernel.ipset.apply([{ op: 'add-entry', set, entry: { port: 80 } }]),
        () => kernel.ipset.apply([{ op: 'destroy-set', name: set.name }]),
      ]
      for (const change of changes) {
        const next = findingOf(watch)
        await change()
        assert.deepEqual(await next, different)
      }
      await kernel.ipset.apply([{ op: 'create-set', set: { ...set, name: 'FOREIGN' } }])
      assert.deepEqual(await watch.next([]), nothing)
      await kernel.ipset.apply([{ op: 'destroy-set', name: 'FOREIGN' }])
      await watch.close()
    })

    it('a watch without sets reports only nat and filter', async () => {
      const watch = kernel.look(families).watchTables()
      assert.deepEqual(await watch.next([]), nothing)
      for (const table of ['nat', 'filter'] as const) {
        for (const family of families) {
          const xtables = kernel.xtables(family, table)
          const added = findingOf(watch)
          await xtables.apply([{ op: 'set-chain', chain, rules: [{ target: { kind: 'return' } }] }])
          assert.deepEqual(await added, different)
          const removed = findingOf(watch)
          await xtables.apply([{ op: 'remove-chain', chain }])
          assert.deepEqual(await removed, different)
        }
      }
      const mangle = kernel.xtables('ipv4', 'mangle')
      await mangle.apply([{ op: 'set-chain', chain, rules: [{ target: { kind: 'return' } }] }])
      assert.deepEqual(await watch.next([]), nothing)
      await mangle.apply([{ op: 'remove-chain', chain }])
      await watch.close()
    })

    it('a watch reports that another program released the lock, and ignores our own use (issue 18, C8)', async () => {
      const look = kernel.look(families)
      const xtables = kernel.xtables('ipv4', 'nat')
      await xtables.apply([]) // creates the lock file
      const watches = [look.watchTables(), look.watch('VIADUCT-')]
      const next = Promise.all(watches.map((watch) => findingOf(watch)))
      kernel.useLock()
      assert.deepEqual(await next, [unlocked, unlocked])
      await xtables.apply([])
      assert.deepEqual(await Promise.all(watches.map((watch) => watch.next([]))), [nothing, nothing])
      await Promise.all(watches.map((watch) => watch.close()))
    })

    it('close ends a waiting watch', async () => {
      const watch = kernel.look(families).watch('VIADUCT-')
      const next = watch.next([])
      await watch.close()
      assert.equal(await next, undefined)
      assert.equal(await watch.next([]), undefined)
    })

    it('overlapping calls get a result', async () => {
      const look = kernel.look(families)
      const [one, other] = await Promise.all([look.take(), look.take()])
      assert.deepEqual(one, other)
    })

    if (!hasIpvs) return
    it('a watch reports changes of the sampled virtual servers', async () => {
      const key = { family: 'ipv6', protocol: 'tcp', address: ip('2001:db8::7'), port: 80 } as const
      const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 128 }
      const watch = kernel.look(families).watch('VIADUCT-')
      assert.deepEqual(await watch.next([key]), nothing)
      const next = findingOf(watch, [key])
      await kernel.ipvs.apply([{ op: 'add-virtual-server', server: { key, settings } }])
      assert.deepEqual(await next, different)
      const last = findingOf(watch, [key])
      const server = { key, settings: { ...settings, scheduler: 'lc' } }
      await kernel.ipvs.apply([{ op: 'set-virtual-server', server }])
      assert.deepEqual(await last, different)
      await kernel.ipvs.apply([{ op: 'remove-virtual-server', server: key }])
      await watch.close()
    })

    it('changes when an IPv4 virtual server is added or removed', async () => {
      const key = { family: 'ipv4', protocol: 'tcp', address: ip('192.0.2.7'), port: 80 } as const
      const settings = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, netmaskLength: 32 }
      const empty = await take('ipv4')
      await kernel.ipvs.apply([{ op: 'add-virtual-server', server: { key, settings } }])
      assert.notEqual(await take('ipv4'), empty)
      await kernel.ipvs.apply([{ op: 'remove-virtual-server', server: key }])
      assert.equal(await take('ipv4'), empty)
    })
  })
}

import assert from 'node:assert/strict'
import { describe, it, mock } from 'node:test'
import { Registry } from 'prom-client'
import { type IpFamily, readAddress } from '../../../../src/address.js'
import { KernelQuestions, openProblems } from '../../../../src/engine/index.js'
import { openMetrics } from '../../../../src/metrics/index.js'
import { NatGuard, type NatGuardOptions, natGuardSet } from '../../../../src/layers/vips/index.js'
import { type ModelKernel, openModelKernel } from '../../../model/index.js'
import type { XtFlavour, XtTableName } from '../../../../src/kernel/index.js'
import { ip, MemoryLog } from '../../../support/pipeline-lab.js'

type Place = Awaited<ReturnType<NatGuardOptions['nftables']['tablesWithNat']>>[number]

interface Others {
  /** Tables of nf_tables that translate addresses. */
  readonly tables: Place[]
  readonly legacy: XtTableName[]
}

function openGuard(
  kernel: ModelKernel,
  { tables, legacy }: Others,
  options: Pick<NatGuardOptions, 'ownFlavour' | 'mayGuard'> = {},
): NatGuard {
  const log = new MemoryLog()
  const own = kernel.nftables.tablesWithNat.bind(kernel.nftables)
  return new NatGuard({
    ...options,
    family: 'ipv4',
    table: 'viaduct-ipvs',
    nftables: Object.assign(kernel.nftables, {
      tablesWithNat: async (family: IpFamily) => [...(await own(family)), ...tables],
    }),
    activeTables: async () => legacy,
    questions: new KernelQuestions({
      family: 'ipv4',
      metrics: openMetrics(new Registry()).ipv4,
      problems: openProblems({ log }),
    }),
    hints: openProblems({ log }),
  })
}

/** undefined: there is no table. */
async function guarded(kernel: ModelKernel): Promise<readonly string[] | undefined> {
  const tables = await kernel.nftables.tables('ipv4')
  if (!tables.some(({ table }) => table === 'viaduct-ipvs')) return undefined
  const { bytes, stride, length } = await kernel.nftables.elements(natGuardSet('ipv4', 'viaduct-ipvs'))
  return Array.from({ length }, (_, index) => readAddress(bytes, index * stride, 'ipv4')).toSorted()
}

describe('the guard of VIPs', () => {
  it('gets those that came while no other program translated addresses, when one begins', async () => {
    const kernel = openModelKernel()
    const others: Others = { tables: [], legacy: [] }
    const guard = openGuard(kernel, others)
    for (const address of ['192.0.2.1', '192.0.2.2']) guard.put(ip(address), true)
    await guard.write({ isComplete: true })
    guard.put(ip('192.0.2.3'), true)
    const added = mock.method(Set.prototype, 'add')
    guard.put(ip('192.0.2.1'), false)
    added.mock.restore()
    assert.equal(added.mock.callCount(), 0, 'no record of an address that is gone')
    assert.equal(guard.isWriteDue, false)
    others.tables.push({ family: 'ipv4', table: 'other' })
    await guard.read()
    await guard.write({ isComplete: true })
    assert.deepEqual(await guarded(kernel), ['192.0.2.2', '192.0.2.3'])
    assert.equal(guard.isWriteDue, false)
  })

  it('goes when no other program translates addresses any more', async () => {
    const kernel = openModelKernel()
    const others: Others = { tables: [{ family: 'inet', table: 'other' }], legacy: [] }
    const guard = openGuard(kernel, others)
    guard.put(ip('192.0.2.1'), true)
    await guard.write({ isComplete: true })
    assert.deepEqual(await guarded(kernel), ['192.0.2.1'])
    others.tables.pop()
    await guard.read()
    assert.equal(await guarded(kernel), undefined)
    assert.equal(guard.placeOf(ip('192.0.2.1')), undefined)
    others.tables.push({ family: 'ipv4', table: 'other' })
    await guard.read()
    await guard.write({ isComplete: true })
    assert.deepEqual(await guarded(kernel), ['192.0.2.1'])
  })

  it("leaves out the machine's own addresses, and follows them", async () => {
    const kernel = openModelKernel()
    const others: Others = { tables: [{ family: 'ipv4', table: 'other' }], legacy: [] }
    const guard = openGuard(kernel, others)
    guard.setMachine([ip('192.0.2.1')])
    guard.put(ip('192.0.2.1'), true)
    await guard.write({ isComplete: true })
    assert.equal(await guarded(kernel), undefined, 'no table for no VIP')
    for (const address of ['192.0.2.2', '192.0.2.3']) guard.put(ip(address), true)
    await guard.write({ isComplete: true })
    assert.deepEqual(await guarded(kernel), ['192.0.2.2', '192.0.2.3'])
    guard.setMachine([ip('192.0.2.2'), ip('192.0.2.9')])
    assert.equal(guard.isWriteDue, true)
    guard.put(ip('192.0.2.3'), false)
    await guard.write({ isComplete: false })
    assert.deepEqual(await guarded(kernel), ['192.0.2.1', '192.0.2.3'], 'the former VIP waits')
    await guard.write({ isComplete: true })
    assert.deepEqual(await guarded(kernel), ['192.0.2.1'])
    guard.setMachine([ip('192.0.2.8')])
    await guard.write({ isComplete: true })
    assert.deepEqual(await guarded(kernel), ['192.0.2.1', '192.0.2.2'])
    guard.setMachine([ip('192.0.2.9')])
    assert.equal(guard.isWriteDue, false, 'of addresses of no VIP it does nothing')
  })

  it('waits until the mode serves VIPs without table nat', async () => {
    const kernel = openModelKernel()
    let mayGuard = false
    const others: Others = { tables: [{ family: 'ipv4', table: 'other' }], legacy: [] }
    const guard = openGuard(kernel, others, { mayGuard: () => mayGuard })
    guard.put(ip('192.0.2.1'), true)
    await guard.write({ isComplete: true })
    assert.deepEqual([await guarded(kernel), guard.isWriteDue], [undefined, false])
    mayGuard = true
    assert.equal(guard.isWriteDue, true)
    await guard.write({ isComplete: true })
    assert.deepEqual(await guarded(kernel), ['192.0.2.1'])
  })

  const nat = 'nat' as const
  const cases: readonly (readonly [
    flavour: XtFlavour,
    tables: Place[],
    legacy: XtTableName[],
    needs: boolean,
  ])[] = [
    ['legacy', [], [nat], false],
    ['legacy', [{ family: 'ipv4', table: nat }], [nat], true],
    ['nft', [{ family: 'ipv4', table: nat }], [], false],
    ['nft', [{ family: 'ipv4', table: nat }], [nat], true],
    ['nft', [{ family: 'inet', table: nat }], [], true],
    ['nft', [{ family: 'ipv4', table: 'cni_hostport' }], [], true],
  ]
  for (const [flavour, tables, legacy, needs] of cases) {
    const found = [
      ...tables.map(({ family, table }) => `${family} ${table}`),
      ...legacy.map((name) => `legacy ${name}`),
    ]
    it(`${needs ? 'stands' : 'does not stand'} beside rules of flavour ${flavour} with ${found.join(', ') || 'no table'}`, async () => {
      const kernel = openModelKernel()
      const guard = openGuard(kernel, { tables, legacy }, { ownFlavour: flavour })
      guard.put(ip('192.0.2.1'), true)
      await guard.write({ isComplete: true })
      assert.deepEqual(await guarded(kernel), needs ? ['192.0.2.1'] : undefined)
    })
  }
})

// A large write: the table plans one transaction while the kernel works on the one before.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { NfOp, NfOutcome, NfTransaction } from '../../../../src/kernel/index.js'
import { compileRoute } from '../../../../src/layers/nft-table/testing.js'
import type { Route } from '../../../../src/routing/index.js'
import { ModelNftables } from '../../../model/nftables.js'
import { countElements, inByteOrder, modelContent, NftLab, wantedContent } from '../../../support/nft-lab.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

const { EINVAL, ENOMEM } = constants.errno
const endpointsEach = 200
/** Endpoints in a transaction: those of 40 services. */
const part = 8000

/** A kernel that starts on a transaction only when a test says so. */
class SlowNftables extends ModelNftables {
  readonly #waiting: (() => void)[] = []
  /** Transactions that wait for `work`. */
  waiting = 0
  /** The most that ever waited together. */
  mostWaiting = 0

  override async apply(transaction: NfTransaction): Promise<NfOutcome> {
    this.waiting++
    this.mostWaiting = Math.max(this.mostWaiting, this.waiting)
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.waiting--
    return await super.apply(transaction)
  }

  /** Works on the oldest transaction, and returns when the table has done what follows without the next answer. */
  async work(): Promise<void> {
    this.#waiting.shift()?.()
    await nextTurn()
  }
}

const routes: readonly Route[] = Array.from({ length: 200 }, (_, index) => {
  const endpoints = Array.from({ length: endpointsEach }, (__, host) => `10.244.1.${host + 1}`)
  const clusterIP = ip(`10.96.1.${index + 1}`)
  return plainRoute({ service: `default/s${index}`, clusterIP, clusterBackends: backends(80, ...endpoints) })
})

const other = plainRoute({ service: 'default/other', clusterBackends: backends(80, '10.244.2.1') })

interface LargeWrite {
  readonly lab: NftLab<SlowNftables>
  readonly nftables: SlowNftables
  readonly writing: Promise<boolean>
}

/** The write of 40,000 endpoints whose first transaction waits in the kernel. `former`: what the table has already. */
async function largeWrite(...former: readonly Route[]): Promise<LargeWrite> {
  const nftables = new SlowNftables()
  const lab = new NftLab(nftables, {})
  lab.claim(...former)
  if (former.length > 0) assert.equal(await finish(nftables, lab.write()), true)
  nftables.transactions.splice(0)
  lab.claim(...routes)
  const writing = lab.write()
  await nextTurn()
  return { lab, nftables, writing }
}

/** Lets the kernel work until the write ends. */
async function finish(nftables: SlowNftables, writing: Promise<boolean>): Promise<boolean> {
  let isDone = false
  const done = writing.finally(() => (isDone = true))
  for (;;) {
    await nextTurn()
    if (isDone) return await done
    await nftables.work()
  }
}

function elementsOf({ transactions }: ModelNftables): readonly (number | undefined)[] {
  return transactions.map((ops) => countElements([ops])['add-elements'])
}

function assertContent(lab: NftLab<SlowNftables>, wanted: readonly Route[]): void {
  const desired = wanted.map((route) => compileRoute(route, lab.settings))
  assert.deepEqual(inByteOrder(modelContent(lab)), inByteOrder(wantedContent(desired, 'ipv4')))
}

function isBaseChain(op: NfOp): boolean {
  return op.op === 'add-chain' && op.chain.hook !== undefined
}

describe('a large write of the table of nftables mode', () => {
  it('goes on while the kernel works, with one transaction in the kernel at a time', async () => {
    const { lab, nftables, writing } = await largeWrite()
    // The structure is sent before the elements are planned.
    assert.deepEqual([nftables.waiting, lab.clock.pauses], [1, 0])
    await nftables.work()
    // It pauses after it has sent elements, before the answer.
    assert.deepEqual([nftables.waiting, lab.clock.pauses], [1, 1])
    await nftables.work()
    assert.deepEqual([nftables.waiting, lab.clock.pauses], [1, 2])
    assert.equal(await finish(nftables, writing), true)
    assert.equal(nftables.mostWaiting, 1)
    assertContent(lab, routes)
  })

  it('makes a new table that no packet enters before the last transaction', async () => {
    const { nftables, writing } = await largeWrite()
    assert.equal(await finish(nftables, writing), true)
    assert.deepEqual(elementsOf(nftables), [undefined, ...Array<number>(5).fill(8120), 200])
    for (const ops of nftables.transactions.slice(0, -1)) assert.ok(!ops.some(isBaseChain))
    assert.ok(nftables.transactions.at(-1)?.some(isBaseChain))
  })

  it('publishes numbers of endpoints in a table that serves only after the kernel has taken all endpoints', async () => {
    const { lab, nftables, writing } = await largeWrite(other)
    assert.equal(await finish(nftables, writing), true)
    assert.deepEqual(elementsOf(nftables), [...Array<number>(5).fill(part), 800])
    for (const ops of nftables.transactions.slice(0, -1))
      for (const op of ops)
        if (op.op === 'add-elements') assert.match(op.elements.set.set, /^service-endpoint-\d+$/u)
    assertContent(lab, [other, ...routes])
  })

  for (const [name, fault, taken] of [
    ['refused', ENOMEM, 1],
    ['lost', 'lost', 1],
    ['the last one with endpoints and refused', ENOMEM, 4],
  ] as const)
    it(`sends nothing more when the transaction in the kernel is ${name}, and goes on later`, async () => {
      const { lab, nftables, writing } = await largeWrite(other)
      for (let count = 0; count < taken; count++) await nftables.work()
      nftables.plan = { transactionFault: () => fault }
      await nftables.work()
      assert.equal(nftables.waiting, 0)
      assert.equal(await writing, false)
      assert.equal(nftables.transactions.length, taken + 1)
      assert.equal(modelContent(lab)['service-endpoint-0']?.length, (taken * part) / endpointsEach + 1)
      assert.equal(modelContent(lab)['services-with-endpoints']?.length, 1)
      nftables.plan = {}
      nftables.transactions.splice(0)
      await lab.clock.advance(1000)
      assert.equal(await finish(nftables, lab.write()), true)
      assertContent(lab, [other, ...routes])
      const added = elementsOf(nftables).reduce<number>((sum, count = 0) => sum + count, 0)
      assert.equal(added, (5 - taken) * part + 800)
    })

  it('leaves out the service port of a refused element although the next transaction is planned', async () => {
    const { lab, nftables, writing } = await largeWrite()
    const refused = Buffer.from([10, 96, 1, 7]).toString('latin1')
    nftables.plan = {
      fault: (op) => {
        if (op.op !== 'add-elements') return undefined
        for (let element = 0; element < op.elements.length; element++)
          if (Buffer.from(op.elements.key(element)).toString('latin1').startsWith(refused))
            return { errno: EINVAL, element }
        return undefined
      },
    }
    assert.equal(await finish(nftables, writing), true)
    assertContent(
      lab,
      routes.filter((_, index) => index !== 6),
    )
    assert.match(lab.log.find('error', 'default/s6')[0]?.message ?? '', /EINVAL/)
  })

  it('that is stopped sends nothing more, and ends when the kernel has answered', async () => {
    const { lab, nftables, writing } = await largeWrite()
    let isDone = false
    const done = writing.finally(() => (isDone = true))
    await nftables.work()
    lab.tables.stopSoon()
    await nextTurn()
    assert.equal(isDone, false)
    await nftables.work()
    assert.equal(isDone, true)
    assert.equal(await done, false)
    assert.deepEqual(elementsOf(nftables), [undefined, 8120])
  })
})

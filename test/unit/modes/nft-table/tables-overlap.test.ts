// A large write: the table plans one transaction while the kernel works on the one before.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { NfOp, NfOutcome, NfTransaction } from '../../../../src/kernel/index.js'
import { compileRoute } from '../../../../src/modes/nft-table/index.js'
import type { Route } from '../../../../src/routing/index.js'
import { ModelNftables } from '../../../model/nftables.js'
import { countElements, inByteOrder, modelContent, NftLab, wantedContent } from '../../../support/nft-lab.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

const { EINVAL, ENOMEM } = constants.errno
const endpointsEach = 200
/** Elements of a transaction of a large write: 40 services. */
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

interface LargeWrite {
  readonly lab: NftLab<SlowNftables>
  readonly nftables: SlowNftables
  readonly writing: Promise<boolean>
}

/** A first write of 40,000 endpoints whose first transaction waits in the kernel. */
async function largeWrite(): Promise<LargeWrite> {
  const nftables = new SlowNftables()
  const lab = new NftLab(nftables, {})
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
    // It pauses after it has sent, before the answer.
    assert.deepEqual([nftables.waiting, lab.clock.pauses], [1, 1])
    await nftables.work()
    assert.deepEqual([nftables.waiting, lab.clock.pauses], [1, 2])
    assert.equal(await finish(nftables, writing), true)
    assert.equal(nftables.mostWaiting, 1)
    assertContent(lab, routes)
  })

  it('publishes numbers of endpoints only after the kernel has taken all endpoints', async () => {
    const { nftables, writing } = await largeWrite()
    assert.equal(await finish(nftables, writing), true)
    assert.deepEqual(elementsOf(nftables), [...Array<number>(5).fill(part), 400])
    const last = nftables.transactions.at(-1) ?? []
    assert.ok(last.some(isBaseChain))
    for (const ops of nftables.transactions.slice(0, -1))
      for (const op of ops) {
        assert.ok(!isBaseChain(op))
        if (op.op === 'add-elements') assert.equal(op.elements.set.set, 'service-endpoints')
      }
  })

  for (const [name, fault] of [
    ['refused', ENOMEM],
    ['lost', 'lost'],
  ] as const)
    it(`sends nothing more when the transaction in the kernel is ${name}, and goes on later`, async () => {
      const { lab, nftables, writing } = await largeWrite()
      await nftables.work()
      nftables.plan = { transactionFault: () => fault }
      await nftables.work()
      assert.equal(nftables.waiting, 0)
      assert.equal(await writing, false)
      assert.equal(nftables.transactions.length, 2)
      assert.equal(modelContent(lab)['service-endpoints']?.length, part)
      nftables.plan = {}
      await lab.clock.advance(1000)
      assert.equal(await finish(nftables, lab.write()), true)
      assertContent(lab, routes)
      // The kernel refuses nothing of it: only what it has not is added.
      assert.equal(
        elementsOf(nftables)
          .slice(2)
          .reduce<number>((sum, each = 0) => sum + each, 0),
        32_400,
      )
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
    lab.tables.stopSoon()
    await nextTurn()
    assert.equal(isDone, false)
    await nftables.work()
    assert.equal(isDone, true)
    assert.equal(await done, false)
    assert.deepEqual(elementsOf(nftables), [part])
  })
})

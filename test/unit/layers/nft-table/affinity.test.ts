// Session affinity that leads to endpoints which are gone, or lasts longer than its Service says.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { beforeEach, describe, it } from 'node:test'
import { NfElements, type NfSet } from '../../../../src/kernel/index.js'
import { schemaOf } from '../../../../src/layers/nft-table/testing.js'
import type { Route } from '../../../../src/routing/index.js'
import { ModelNftables } from '../../../model/nftables.js'
import { type NftLab, openNftLab } from '../../../support/nft-lab.js'
import { backends, ip, plainRoute } from '../../../support/routes.js'

const { sessionAffinity } = schemaOf('ipv4').services

/** Frontends by the last byte of their cluster IP. */
function sticky(frontend: number, ...endpoints: readonly number[]): Route {
  return plainRoute({
    service: `default/sticky-${frontend}`,
    clusterIP: ip(`10.96.0.${frontend}`),
    affinitySeconds: 600,
    clusterBackends: backends(80, ...endpoints.map((endpoint) => `10.244.0.${endpoint}`)),
  })
}

const both = sticky(50, 4, 5)
const one = sticky(50, 4)

/** A client of a frontend, as rules of the kernel record it. */
function recorded(client: number, endpoint: number, { frontend = 50, seconds = 600, protocol = 6 } = {}) {
  const key = Uint8Array.from([192, 0, 2, client, 10, 96, 0, frontend, protocol, 0, 0, 0, 0, 80, 0, 0])
  const data = Uint8Array.from([10, 244, 0, endpoint, 0, 80, 0, 0])
  return new NfElements(sessionAffinity).add(key, { data, timeoutMs: seconds * 1000 })
}

describe('session affinity in the table of nftables mode', () => {
  let lab: NftLab
  /** Searches and transactions of the agent, in order. */
  let steps: string[]
  /** Duration of the next searches. */
  let searchMs: number

  beforeEach(async () => {
    steps = []
    searchMs = 0
    lab = openNftLab()
    const { nftables } = lab
    const read = nftables.elements.bind(nftables)
    nftables.elements = async (set: NfSet) => {
      if (set.set === sessionAffinity.set) {
        steps.push('search')
        await lab.clock.advance(searchMs)
      }
      return await read(set)
    }
    const apply = nftables.apply.bind(nftables)
    nftables.apply = async (transaction, options) => {
      const isOfClients = transaction.some(
        (op) => op.op === 'delete-elements' && op.elements.set.set === sessionAffinity.set,
      )
      steps.push(isOfClients ? 'delete clients' : 'change')
      return await apply(transaction, options)
    }
    lab.claim(both, sticky(60, 6, 7))
    assert.equal(await lab.write(), true)
    await record(recorded(1, 4), recorded(2, 5), recorded(3, 5))
    steps.length = 0
  })

  async function record(...added: readonly NfElements[]): Promise<void> {
    const rules = new ModelNftables(lab.nftables.namespace)
    for (const elements of added)
      assert.deepEqual((await rules.apply([{ op: 'add-elements', elements }])).failures, [])
    await rules.close()
  }

  async function claim(...routes: readonly Route[]): Promise<void> {
    lab.claim(...routes)
    assert.equal(await lab.write(), true)
  }

  /** Last bytes of the addresses. */
  async function clients(): Promise<readonly string[]> {
    const elements = await new ModelNftables(lab.nftables.namespace).elements(sessionAffinity)
    return Array.from({ length: elements.length }, (_, index) => String(elements.key(index)[3])).toSorted()
  }

  /** Lets time pass in steps, with a write when one is due. Returns the times of searches, in seconds. */
  async function searchTimes(seconds: number, stepMs = 100): Promise<readonly number[]> {
    const times: number[] = []
    const start = lab.clock.now()
    while (lab.clock.now() < start + seconds * 1000) {
      steps.length = 0
      const nowMs = lab.clock.now()
      if (lab.tables.isWriteDue) await lab.write()
      if (steps.includes('search')) times.push((nowMs - start) / 1000)
      await lab.clock.advance(stepMs)
    }
    return times
  }

  it('of a removed endpoint goes after it, by one search that no change waits for', async () => {
    await claim(one)
    assert.deepEqual(steps, ['change', 'search', 'delete clients'])
    assert.deepEqual(await clients(), ['1'])
    assert.equal(lab.tables.isWriteDue, false)
  })

  it('that a client gets after the removal goes too', async () => {
    await claim(one)
    await record(recorded(9, 5))
    await lab.clock.advance(1000)
    assert.equal(lab.tables.isWriteDue, true)
    await lab.write()
    assert.deepEqual(await clients(), ['1'])
  })

  it('is searched 1, 10 and 130 seconds after the last removal of an endpoint', async () => {
    await claim(one)
    assert.deepEqual(await searchTimes(0.5), [])
    await claim(sticky(60, 6))
    assert.deepEqual(await searchTimes(200), [0.5, 1, 9.5, 10, 129.5, 130])
    assert.equal(lab.tables.nextInMs(), undefined)
  })

  it('is not searched for ten times the duration of a search; then one search serves all that wait', async () => {
    searchMs = 2000
    await claim(one)
    await record(recorded(4, 7, { frontend: 60 }), recorded(9, 5))
    steps.length = 0
    searchMs = 0
    await claim(sticky(60, 6))
    assert.deepEqual(steps, ['change'])
    assert.deepEqual(await searchTimes(19), [])
    assert.equal(lab.tables.nextInMs(), 1000)
    assert.deepEqual(await clients(), ['1', '4', '9'])
    assert.deepEqual(await searchTimes(2), [1])
    assert.deepEqual(await clients(), ['1'])
    // Their searches after 1 and 10 seconds are done with it.
    assert.deepEqual(await searchTimes(200), [107, 109])
  })

  it('goes when its Service has none any more', async () => {
    await claim({ ...both, affinitySeconds: 0 })
    assert.deepEqual(await clients(), [])
  })

  it('of a longer time goes when the time gets shorter, and new clients stay', async () => {
    await claim({ ...both, affinitySeconds: 60 })
    assert.deepEqual(await clients(), [])
    await record(recorded(7, 4, { seconds: 60 }), recorded(8, 4, { seconds: 600 }))
    await searchTimes(200)
    assert.deepEqual(await clients(), ['7'])
  })

  it('stays when the time gets longer', async () => {
    await claim({ ...both, affinitySeconds: 1200 })
    assert.deepEqual(steps, ['change'])
    assert.deepEqual(await clients(), ['1', '2', '3'])
  })

  it('stays when another frontend changes, or an endpoint comes', async () => {
    await claim(sticky(60, 6, 7, 8), sticky(50, 4, 5, 6))
    assert.deepEqual(await clients(), ['1', '2', '3'])
    assert.equal(lab.tables.nextInMs(), undefined)
  })

  it('that expires between the search and the deletion is no error', async () => {
    let expiring = true
    lab.nftables.plan = {
      fault: (op) => {
        if (op.op !== 'delete-elements' || op.elements.set.set !== sessionAffinity.set || !expiring)
          return undefined
        expiring = false
        return { errno: constants.errno.ENOENT, element: 0 }
      },
    }
    await claim(one)
    assert.equal(expiring, false)
    assert.deepEqual(await clients(), ['1'])
    assert.deepEqual(lab.log.find('error', ''), [])
  })

  it('is searched again after a while when the kernel refuses', async () => {
    lab.nftables.plan = {
      fault: (op) =>
        op.op === 'delete-elements' && op.elements.set.set === sessionAffinity.set
          ? constants.errno.ENOMEM
          : undefined,
    }
    await claim(one)
    assert.equal(lab.tables.isBehind, false)
    assert.equal(lab.tables.isWriteDue, false)
    lab.nftables.plan = {}
    await lab.clock.advance(1000)
    assert.equal(lab.tables.isWriteDue, true)
    await lab.write()
    assert.deepEqual(await clients(), ['1'])
  })

  it('of UDP that goes is reported once, so that flows of these clients are checked', async () => {
    const udp = { ...sticky(70, 4, 5), protocol: 'UDP' } as const
    await claim(udp)
    await claim(one)
    assert.equal(lab.tables.takeDeletedUdpAffinity(), false)
    await record(recorded(1, 5, { frontend: 70, protocol: 17 }))
    await claim({ ...sticky(70, 4), protocol: 'UDP' })
    assert.deepEqual(await clients(), ['1'])
    assert.equal(lab.tables.takeDeletedUdpAffinity(), true)
    assert.equal(lab.tables.takeDeletedUdpAffinity(), false)
  })
})

// Chains and sets that no rule or element leads to any more: a packet may still be on its way to them.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NfHook } from '../../../../src/kernel/index.js'
import { schemaOf } from '../../../../src/layers/nft-table/testing.js'
import type { NftLab } from '../../../support/nft-lab.js'
import { api, namesOf, service, web, written } from '../../../support/nft-tables.js'

const { table } = schemaOf('ipv4')
const onlyOfTwo = ['service-endpoint-1', 'service-endpoint-1', 'service-with-2', 'services-with-2']

/** The names that the table of `api` alone does not have. */
async function unneededIn(lab: NftLab): Promise<readonly string[]> {
  const needed = [...namesOf(await written(api))]
  return namesOf(lab).filter((name) => {
    const at = needed.indexOf(name)
    if (at >= 0) needed.splice(at, 1)
    return at < 0
  })
}

/** A table whose rules lead to one endpoint alone since the last write; before, they led to two. */
async function shrunk(): Promise<NftLab> {
  const lab = await written(web, api)
  lab.release(web.key)
  await lab.write()
  await lab.tables.look('full')
  await lab.write()
  return lab
}

describe('what nothing leads to any more', () => {
  it('stays as it is for a second after the rule that led to it, and goes then', async () => {
    const lab = await shrunk()
    assert.deepEqual(await unneededIn(lab), onlyOfTwo)
    const rules = await lab.nftables.rules({ ...table, chain: 'service-with-2' })
    assert.equal(rules.length, 2)
    assert.equal(lab.tables.nextInMs(), 1000)
    await lab.clock.advance(999)
    assert.equal(lab.tables.isWriteDue, false)
    // A change of something else is no reason to hurry.
    lab.claim(service(2, '10.244.0.9'))
    await lab.write()
    assert.deepEqual(await unneededIn(lab), onlyOfTwo)
    await lab.clock.advance(1)
    assert.equal(lab.tables.isWriteDue, true)
    await lab.write()
    assert.deepEqual(await unneededIn(lab), [])
    assert.equal(lab.tables.isWriteDue, false)
  })

  it('serves again without an operation on chains when it is needed within the second', async () => {
    const lab = await shrunk()
    lab.nftables.transactions.length = 0
    await lab.clock.advance(500)
    lab.claim(web)
    await lab.write()
    await lab.clock.advance(5000)
    await lab.write()
    assert.deepEqual(await unneededIn(lab), onlyOfTwo)
    const changed = lab.nftables.transactions.flat().filter(({ op }) => !op.endsWith('elements'))
    assert.deepEqual(
      changed.map(({ op }) => op),
      ['flush-chain', 'add-rule', 'add-rule', 'add-rule', 'add-rule'],
    )
  })

  it('has its own second each: a chain that comes later does not keep the others', async () => {
    const lab = await shrunk()
    await lab.clock.advance(600)
    await lab.nftables.apply([{ op: 'add-chain', chain: { ...table, chain: 'later' } }])
    await lab.tables.look('full')
    await lab.write()
    await lab.clock.advance(400)
    await lab.write()
    assert.deepEqual(await unneededIn(lab), ['later'])
    await lab.clock.advance(600)
    await lab.write()
    assert.deepEqual(await unneededIn(lab), [])
  })

  it('and a base chain of another program goes at once: packets enter it without a rule', async () => {
    const lab = await written(api)
    const hook: NfHook = { type: 'filter', hook: 'input', priority: 0, policy: 'drop' }
    await lab.nftables.apply([
      { op: 'add-chain', chain: { ...table, chain: 'theirs' } },
      { op: 'add-chain', chain: { ...table, chain: 'their-input', hook } },
      {
        op: 'add-rule',
        rule: {
          ...table,
          chain: 'their-input',
          expressions: [
            { kind: 'immediate', to: 'verdict', data: { verdict: { code: 'jump', chain: 'theirs' } } },
          ],
        },
      },
    ])
    await lab.tables.look('full')
    await lab.write()
    assert.deepEqual(await unneededIn(lab), ['theirs'])
    await lab.clock.advance(1000)
    await lab.write()
    assert.deepEqual(await unneededIn(lab), [])
  })
})

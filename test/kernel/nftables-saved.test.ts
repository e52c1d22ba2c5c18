// The shipped agent in nftables mode, whose ruleset is saved with nft, as text and as JSON, and loaded at boot, by the nft of three Debian
// releases.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { nftSuites } from '../support/nft-versions.js'
import { hostTables, SavedLab } from '../traffic/saved-lab.js'
import { assertServed } from '../traffic/switch-lab.js'

describe('nftables mode, saved with nft', { timeout: 240_000 }, () => {
  let saved: SavedLab

  before(async () => {
    const flags = ['--iptables-localhost-nodeports=false']
    saved = await SavedLab.create({ mode: 'nftables', flags, services: ['web', 'dead', 'sticky'] })
    await saved.start()
    await saved.lab.startLoad()
  })

  after(async () => await saved.close())

  for (const suite of nftSuites)
    for (const option of ['', '-s', '-n'])
      it(`${suite}: loads what nft ${option} list ruleset prints`.replace('  ', ' '), async () => {
        const listing = await saved.list(suite, ...(option === '' ? [] : [option]))
        const own = await saved.listOwn(suite)
        for (const first of ['', hostTables]) {
          const loaded = await saved.loadElsewhere(suite, first + listing)
          assert.deepEqual([loaded.code, loaded.stderr], [0, ''], listing)
          assert.equal(loaded.stdout.trim(), own)
        }
      })

  // In this order: nft 1.0.6 crashes at a listing of the anonymous sets that nft 1.1.3 and later made. It does not load its own JSON.
  for (const suite of nftSuites)
    for (const format of suite === 'bookworm' ? ['text'] : ['text', 'JSON'])
      it(`${suite}: the copy from ${format} serves, and the agent adopts it without a write`, async () => {
        const listing = await saved.list(suite, ...(format === 'JSON' ? ['-j'] : []))
        assertServed(await saved.lab.during(async () => await saved.boot(suite, listing)))
        assert.deepEqual(await saved.startSeen(suite), [])
      })

  it('the agent removes what is stale in the copy', async () => {
    await saved.boot('sid', await saved.list('sid'))
    await saved.assertStaleGoes()
  })
})

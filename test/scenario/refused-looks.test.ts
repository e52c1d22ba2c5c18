// Looks at the kernel that it refuses, while it takes writes.
import assert from 'node:assert/strict'
import { constants } from 'node:os'
import { describe, it } from 'node:test'
import { service, set, slice, synced } from '../support/objects.js'
import { type LabOptions, PipelineLab } from '../support/pipeline-lab.js'

const { ENOMEM } = constants.errno

const web = [set(service('web', '10.96.0.1')), set(slice('web-1', 'web', ['10.1.0.1']))]

/** A minute of looks: at once, and after 1, 2, 4, 8, 16 and 30 s. */
const mostAttempts = 7

interface Row {
  readonly options: LabOptions
  readonly tables: readonly ('nat' | 'filter' | 'mangle')[]
}

const rows: Readonly<Record<string, Row>> = {
  'iptables mode': { options: { config: { mode: 'iptables' } }, tables: ['nat', 'filter'] },
  'ipvs mode': { options: {}, tables: ['nat', 'filter', 'mangle'] },
}

describe('looks at x_tables that the kernel refuses', () => {
  for (const [mode, { options, tables }] of Object.entries(rows))
    it(`are reported once, and repeated with back-off, in ${mode}`, async () => {
      const lab = new PipelineLab(options)
      await lab.deliver(...web, synced)
      await lab.clock.advance(10_000)
      const errors = lab.log.find('error', '').length
      const recoveries = lab.log.find('info', 'recovered').length
      let looks = 0
      for (const table of tables)
        lab.kernel.xtables('ipv4', table).plan = {
          callFault: (call) => {
            if (call !== 'check' && call !== 'compare') return undefined
            looks++
            return ENOMEM
          },
        }
      await lab.clock.advance(60_000)
      assert.equal(lab.log.find('error', '').length - errors, tables.length)
      assert.equal(lab.log.find('info', 'recovered').length, recoveries)
      assert.ok(looks <= mostAttempts * tables.length, `${looks} looks in a minute`)
      for (const table of tables) lab.kernel.xtables('ipv4', table).plan = {}
      await lab.clock.advance(60_000)
      assert.equal(lab.log.find('info', 'recovered').length - recoveries, tables.length)
      await lab.stop()
    })
})

/** A sync of each family at the end of each sync period of 30 s. */
const syncsAtRest = 4

describe('readings of sets that the kernel refuses', () => {
  it('are repeated with back-off, without a sync for each', async () => {
    const lab = new PipelineLab()
    await lab.deliver(...web, synced)
    await lab.clock.advance(10_000)
    const before = lab.log.find('debug', 'Sync done').length
    let readings = 0
    lab.kernel.ipset.batches.plan = {
      callFault: (call) => {
        if (call !== 'sets') return undefined
        readings++
        return ENOMEM
      },
    }
    await lab.clock.advance(60_000)
    const syncs = lab.log.find('debug', 'Sync done').length - before
    assert.ok(syncs <= syncsAtRest, `${syncs} syncs in a minute`)
    assert.ok(readings > 2 * syncsAtRest, `${readings} readings in a minute`)
    assert.equal(lab.log.find('error', 'sets').length, 2, 'one of each family')
    lab.kernel.ipset.batches.plan = {}
    await lab.clock.advance(30_000)
    assert.equal(lab.log.find('info', 'recovered').length, 2)
    await lab.stop()
  })

  it('of the rules that match them cause writes with back-off', async () => {
    const lab = new PipelineLab({ flavour: 'nft' })
    await lab.deliver(...web, synced)
    await lab.clock.advance(10_000)
    const before = lab.log.find('debug', 'Sync done').length
    lab.kernel.ipset.batches.plan = { callFault: (call) => (call === 'number' ? ENOMEM : undefined) }
    await lab.clock.advance(120_000)
    const syncs = lab.log.find('debug', 'Sync done').length - before
    assert.ok(syncs <= 2 * (mostAttempts + syncsAtRest), `${syncs} syncs in two minutes`)
    await lab.stop()
  })
})

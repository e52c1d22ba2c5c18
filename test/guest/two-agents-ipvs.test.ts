// Two agents of one build beside each other in ipvs mode. Runs in the guest: it needs IP_VS.
import { after, before, describe, it } from 'node:test'
import { TwoAgents } from '../traffic/two-agents.js'

describe('two agents beside each other: ipvs', { timeout: 300_000 }, () => {
  let agents: TwoAgents
  before(async () => {
    agents = await TwoAgents.create()
    await agents.start('ipvs')
  })
  after(async () => {
    await agents.close()
  })

  it('rest when both have started', async () => {
    await agents.start('ipvs')
    await agents.assertBothRest()
  })
})

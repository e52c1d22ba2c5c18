// The whole traffic table on the shipped agent in nftables mode, with the guest's kernel. docs/nftables.md has the command and the
// result. No suite runs it.
import { inNftables } from '../table-in-nftables.js'
import { AgentSubject, guestPatience, runTable } from '../table-runner.js'
import { trafficTable } from '../table/index.js'

const protocols = ['TCP', 'UDP'] as const

runTable('the traffic table in nftables mode, in the guest', inNftables(trafficTable(protocols)), {
  subject: new AgentSubject('nftables'),
  protocols,
  patience: guestPatience,
})

// The traffic table on the shipped agent in nftables mode: real connections through this machine's kernel.
import { inNftables } from '../traffic/table-in-nftables.js'
import { AgentSubject, runTable } from '../traffic/table-runner.js'
import { trafficTable } from '../traffic/table/index.js'

const protocols = ['TCP', 'UDP'] as const

runTable('the traffic table in nftables mode', inNftables(trafficTable(protocols)), {
  subject: new AgentSubject('nftables'),
  protocols,
  explains: true,
})

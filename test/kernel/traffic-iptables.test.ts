// The traffic table on the shipped agent in iptables mode of the legacy flavour, with real connections through this machine's kernel.
import { AgentSubject, runTable } from '../traffic/table-runner.js'
import { trafficTable } from '../traffic/table/index.js'

const protocols = ['TCP', 'UDP'] as const

runTable('the traffic table in iptables mode', trafficTable(protocols), {
  subject: new AgentSubject('iptables', ['--iptables-flavour=legacy']),
  protocols,
  explains: true,
})

// The traffic table on the shipped agent in userspace mode: real connections through the relay.
import { inUserspace } from '../traffic/table-in-userspace.js'
import { AgentSubject, runTable } from '../traffic/table-runner.js'
import { trafficTable } from '../traffic/table/index.js'

const protocols = ['TCP', 'UDP'] as const

runTable('the traffic table in userspace mode', inUserspace(trafficTable(protocols)), {
  // With the default of 250 ms a UDP flow could end between two requests of a case.
  subject: new AgentSubject('userspace', ['--udp-timeout=1m']),
  protocols,
  explains: true,
})

// The traffic table on the shipped agent in iptables mode of the flavour nft: real connections through this machine's kernel.
import { inIptablesNft } from '../traffic/table-in-iptables-nft.js'
import { AgentSubject, runTable } from '../traffic/table-runner.js'
import { trafficTable } from '../traffic/table/index.js'

const protocols = ['TCP', 'UDP'] as const

runTable('the traffic table in iptables mode of the flavour nft', inIptablesNft(trafficTable(protocols)), {
  subject: new AgentSubject('iptables', ['--iptables-flavour=nft']),
  protocols,
  explains: true,
  nodeFlavour: 'nft',
})

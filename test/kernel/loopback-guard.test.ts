// Packets of other machines to node ports without endpoints at a loopback address, in both flavours of iptables mode. In the flavour nft they
// were refused: the table's chain comes before KUBE-FIREWALL, which drops them. Issue 35, B5.
import { guardedLoopbackCase } from '../traffic/table/exposure.js'
import type { TrafficGroup } from '../traffic/table/index.js'
import { placed } from '../traffic/table/slot.js'
import { clusterNetwork } from '../traffic/table/world.js'
import { AgentSubject, runTable } from '../traffic/table-runner.js'

const protocols = ['TCP', 'UDP'] as const
/** Beyond the addresses of the traffic table. */
const place = 200
const group: TrafficGroup = {
  name: 'node ports on localhost',
  settings: { detectLocal: { mode: 'ClusterCIDR', networks: clusterNetwork } },
  cases: placed([guardedLoopbackCase], protocols, place),
}

for (const flavour of ['legacy', 'nft'] as const)
  runTable(`the guard of the loopback network in the flavour ${flavour}`, [group], {
    subject: new AgentSubject('iptables', [`--iptables-flavour=${flavour}`]),
    protocols,
    nodeFlavour: flavour,
  })

// The traffic table on the shipped agent in ipvs mode with its rules in nf_tables. Runs in the guest: it needs IP_VS.
import { type ChosenCases, chosenGroups } from '../traffic/chosen-groups.js'
import { trafficTable } from '../traffic/table/index.js'
import { inIpvs } from '../traffic/table-in-ipvs.js'
import { AgentSubject, guestPatience, runTable } from '../traffic/table-runner.js'

/** Cases that need each kind of rule. VIADUCT_WHOLE_TABLE=1 runs all cases: docs/ipvs.md has the command and the result. */
const chosen: ChosenCases = {
  'local traffic known by ClusterCIDR': [
    'policy Cluster: all clients to every frontend',
    'policy Local: all clients to every frontend',
    'policy Local: a pod to itself by every frontend',
    'a port that the Service does not have is not translated',
    'a Service without a slice refuses',
    'without an endpoint here, policy Local drops; the node and its pods reach the others',
    "a load balancer's source ranges let in who is in them, and guard its addresses alone",
    'a health check counts the addresses of ready endpoints here, and follows them',
  ],
  "others' rules at INPUT: a bit in every mark, node ports of TCP closed": 'all',
}

const groups =
  process.env['VIADUCT_WHOLE_TABLE'] === '1'
    ? trafficTable(['TCP', 'UDP'])
    : chosenGroups(chosen, ['TCP', 'UDP'])

runTable('the traffic table in ipvs mode, flavour nft', inIpvs(groups), {
  subject: new AgentSubject('ipvs', ['--iptables-flavour=nft']),
  nodeFlavour: 'nft',
  // So the guard of VIPs stands (docs/adr/0027), and table mangle alone marks connections to them for masquerading.
  otherNat: 'legacy',
  protocols: ['TCP', 'UDP'],
  patience: guestPatience,
  explains: true,
})

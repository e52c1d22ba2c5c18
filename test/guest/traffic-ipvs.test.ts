// The traffic table on the shipped agent in ipvs mode. Runs in the guest: it needs IP_VS.
import { type ChosenCases, chosenGroups } from '../traffic/chosen-groups.js'
import { trafficTable } from '../traffic/table/index.js'
import { inIpvs } from '../traffic/table-in-ipvs.js'
import { AgentSubject, guestPatience, runTable } from '../traffic/table-runner.js'

/** Cases to run, by group. VIADUCT_WHOLE_TABLE=1 runs all cases: docs/ipvs.md has the command and the result. */
const chosen: ChosenCases = {
  'local traffic known by ClusterCIDR': [
    'policy Cluster: all clients to every frontend',
    'policy Local: all clients to every frontend',
    'policy Cluster: a pod to itself by every frontend',
    'policy Local: a pod to itself by every frontend',
    'internal policy Local with external policy Cluster',
    'internal policy Cluster with external policy Local',
    'an external IP that the node itself has is served to all clients, the node included',
    'a port that the Service does not have is not translated',
    'several named ports go each to its own target port',
    'a Service without a slice refuses',
    'without an endpoint here, policy Local drops; the node and its pods reach the others',
    'internal policy Local without an endpoint here drops, and the outside is served as ever',
    "a load balancer's source ranges let in who is in them, and guard its addresses alone",
    'source ranges and policy Local go together: who is let in is seen as it is',
    "an external IP that is a load balancer's address as well, with source ranges",
    'a segment that belongs to no connection: dropped',
    'a health check counts the addresses of ready endpoints here, and follows them',
    'under policy Local a client keeps its server among those here',
    'a UDP flow whose backend goes away is served by another',
    'a UDP flow stays with a backend that terminates and still serves',
    'a UDP flow under policy Local ends with the last server here, and is served by the next',
    'an established connection outlives the endpoint in the Service, new ones go elsewhere',
    'a change of the traffic policies takes effect, both ways',
    'a Service without a cluster IP is served at its other frontends, while one comes and goes',
    'without a cluster IP, external policy Local has the endpoints here, and drops where there are none',
    'node ports alone without a cluster IP are of IPv4, unless ipFamilies says otherwise',
    'of two Services with the same external frontends one has them all, and the other takes over',
    "external IPs take no cluster IP and no load balancer's address, and among equals the older Service wins",
  ],
  'local traffic not known': [
    'policy Local: all clients to every frontend',
    'policy Local without an endpoint here, where pods cannot be distinguished from outside clients',
  ],
  'masquerade all, by another bit; no localhost node ports; liberal conntrack': [
    'policy Local: all clients to every frontend',
    'internal policy Cluster with external policy Local',
  ],
  "others' rules at INPUT: a bit in every mark, node ports of TCP closed": 'all',
  'node ports on one network of IPv4; a firewall that lets nothing through': 'all',
  'node ports on networks of both families': ['only the addresses in the networks serve'],
  'node ports on the primary addresses and the loopback, by keywords': [
    'the keyword localhost beside primary shuts out no less',
  ],
}

/** A selection of SCTP cases, because SCTP servers are slow in the guest. */
const chosenOfSctp: ChosenCases = {
  'local traffic known by ClusterCIDR': [
    'policy Cluster: all clients to every frontend',
    'policy Local: all clients to every frontend',
    'a Service without a slice refuses',
    'without an endpoint here, policy Local drops; the node and its pods reach the others',
  ],
}

const datagramsAndStreams =
  process.env['VIADUCT_WHOLE_TABLE'] === '1'
    ? trafficTable(['TCP', 'UDP'])
    : chosenGroups(chosen, ['TCP', 'UDP'])
const bySctp = chosenGroups(chosenOfSctp, ['SCTP']).map((group) => ({
  ...group,
  name: `${group.name}, by SCTP`,
}))

// One table for all, because building the network of namespaces takes longer than most groups.
runTable('the traffic table in ipvs mode', inIpvs([...datagramsAndStreams, ...bySctp]), {
  subject: new AgentSubject('ipvs'),
  protocols: ['TCP', 'UDP', 'SCTP'],
  patience: guestPatience,
  explains: true,
})

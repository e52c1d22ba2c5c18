// SCTP through the shipped agent in iptables mode: the cases of the traffic table that show each thing that is done with a
// connection. Runs in the guest: sockets of SCTP exist only there, and every start of a program is dear there.
import { type ChosenCases, chosenGroups } from '../traffic/chosen-groups.js'
import { AgentSubject, runTable } from '../traffic/table-runner.js'

const protocols = ['SCTP'] as const

/** Cases by the names of their groups: two starts of the agent. */
const chosen: ChosenCases = {
  'local traffic known by ClusterCIDR': [
    'policy Cluster: everybody to every frontend',
    'policy Local: everybody to every frontend',
    'policy Cluster: a pod to itself by every frontend',
    'several named ports go each to its own target port',
    "a load balancer's source ranges let in who is in them, and guard its addresses alone",
    'a Service without a slice refuses',
    'without an endpoint here, policy Local drops; the node and its pods reach the others',
    'a client keeps its server over every frontend of a port',
    'an established connection outlives the endpoint in the Service, new ones go elsewhere',
  ],
  'the life of the agent': ['established connections and UDP flows go on over a restart of the agent'],
}

runTable('the traffic table in iptables mode, by SCTP', chosenGroups(chosen, protocols), {
  subject: new AgentSubject('iptables'),
  protocols,
  // Everything takes an order of magnitude longer here; silence is still silence.
  patience: { silenceMs: 3000, answerMs: 60_000, retryMs: 10_000, changeMs: 60_000 },
})

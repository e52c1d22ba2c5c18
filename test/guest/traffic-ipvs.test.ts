// The traffic table through the shipped agent in ipvs mode. Runs in the guest: it needs IP_VS.
import { type ChosenCases, chosenGroups } from '../traffic/chosen-groups.js'
import { AgentSubject, runTable } from '../traffic/table-runner.js'

const protocols = ['TCP'] as const

const chosen: ChosenCases = {
  'local traffic known by ClusterCIDR': [
    'policy Cluster: everybody to every frontend',
    'policy Local: everybody to every frontend',
    'policy Cluster: a pod to itself by every frontend',
    'policy Local: a pod to itself by every frontend',
    'internal policy Local with external policy Cluster',
    'internal policy Cluster with external policy Local',
    'a Service without a slice refuses',
    'without an endpoint here, policy Local drops; the node and its pods reach the others',
    "a load balancer's source ranges let in who is in them, and guard its addresses alone",
    'several named ports go each to its own target port',
  ],
}

runTable('the traffic table in ipvs mode', chosenGroups(chosen, protocols), {
  subject: new AgentSubject('ipvs'),
  protocols,
  // Everything takes an order of magnitude longer here; silence is still silence.
  patience: { silenceMs: 3000, answerMs: 60_000, retryMs: 10_000, changeMs: 60_000 },
})

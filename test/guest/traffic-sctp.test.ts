// SCTP through the shipped agent in iptables mode: the cases of the traffic table that show each thing that is done with a
// connection. Runs in the guest: sockets of SCTP exist only there, and every start of a program is dear there.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { before } from 'node:test'
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

// A node on which nobody used iptables: the agent, which executes no modprobe, makes the kernel load what it needs.
before(async () => {
  const modules = await readFile('/proc/modules', 'utf8')
  assert.doesNotMatch(modules, /^ip6?_tables /m, 'this file runs before x_tables are loaded')
})

runTable('the traffic table in iptables mode, by SCTP', chosenGroups(chosen, protocols), {
  subject: new AgentSubject('iptables'),
  protocols,
  // Everything takes an order of magnitude longer here; silence is still silence.
  patience: { silenceMs: 3000, answerMs: 60_000, retryMs: 10_000, changeMs: 60_000 },
})

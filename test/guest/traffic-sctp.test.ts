// A selection of the traffic table with SCTP, on the shipped agent in iptables and nftables mode. Runs in the guest: SCTP sockets exist
// only there.
// Each start of a program is slow there.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { connect, Namespace } from '../support/namespaces.js'
import { Prober } from '../support/probes.js'
import { type ChosenCases, chosenGroups } from '../traffic/chosen-groups.js'
import { inNftables } from '../traffic/table-in-nftables.js'
import { AgentSubject, guestPatience, runTable } from '../traffic/table-runner.js'

const protocols = ['SCTP'] as const

/** Cases to run, by group. They need two starts of the agent. */
const chosen: ChosenCases = {
  'local traffic known by ClusterCIDR': [
    'policy Cluster: all clients to every frontend',
    'policy Local: all clients to every frontend',
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

const groups = chosenGroups(chosen, protocols)

runTable('the traffic table in iptables mode, by SCTP', groups, {
  subject: new AgentSubject('iptables', ['--iptables-flavour=legacy']),
  protocols,
  patience: guestPatience,
})

runTable('the traffic table in nftables mode, by SCTP', inNftables(groups), {
  subject: new AgentSubject('nftables'),
  protocols,
  patience: guestPatience,
})

describe('a client of the traffic table', () => {
  it('connects by SCTP from one address, although its machine has two', async () => {
    const client = await Namespace.create('client')
    const server = await Namespace.create('server')
    try {
      await connect(
        { namespace: client, interfaceName: 'eth0', addresses: ['192.0.2.1/24', '198.51.100.1/24'] },
        { namespace: server, interfaceName: 'eth0', addresses: ['192.0.2.2/24'] },
      )
      const target = { protocol: 'SCTP', address: '192.0.2.2', port: 8080 } as const
      await new Prober(server).serve([target])
      const outcome = await new Prober(client).ask('one path', target, 60_000)
      assert.equal(outcome.kind, 'answer')
      assert.deepEqual(await localAddresses(client, target.port), ['192.0.2.1'])
    } finally {
      await Promise.all([client.close(), server.close()])
    }
  })
})

/** The namespace's addresses in its association with the server's port. */
async function localAddresses(namespace: Namespace, serverPort: number): Promise<readonly string[]> {
  const table = await namespace.must('cat', '/proc/net/sctp/assocs')
  const [, list] = new RegExp(` ${serverPort} +(.*?) *<->`).exec(table) ?? []
  assert.ok(list !== undefined, table)
  return list.split(' ').map((address) => address.replace('*', ''))
}

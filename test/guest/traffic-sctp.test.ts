// A selection of the traffic table with SCTP, on the shipped agent in iptables and nftables mode; held SCTP ports. Runs in the guest: SCTP
// sockets exist only there.
// Each start of a program is slow there.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { apiService } from '../support/api-documents.js'
import { connect, Namespace } from '../support/namespaces.js'
import { takePort } from '../support/port-taker.js'
import { Prober } from '../support/probes.js'
import type { Program } from '../support/processes.js'
import { AgentProcess } from '../traffic/agent-process.js'
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
  explains: true,
})

runTable('the traffic table in nftables mode, by SCTP', inNftables(groups), {
  subject: new AgentSubject('nftables'),
  protocols,
  patience: guestPatience,
  explains: true,
})

describe('SCTP node ports', { timeout: 300_000 }, () => {
  it('are held while the agent runs, and a taken one is reported', async () => {
    const node = await Namespace.create('node-a')
    const manifests = await mkdtemp(join(tmpdir(), 'viaduct-sctp-'))
    const take = (port: number): Promise<Program | undefined> =>
      takePort({ family: 'ipv4', protocol: 'sctp', address: undefined, port }, node)
    try {
      await take(30081)
      await put(manifests, 'held', '10.96.0.10', 30080)
      await put(manifests, 'taken', '10.96.0.11', 30081)
      const flags = ['--iptables-flavour=legacy', '--hold-node-ports']
      const agent = AgentProcess.start({ node, manifests, mode: 'iptables', flags })
      await agent.line(/Service port is in use by another program: default\/taken:http\/SCTP/u, 0)
      assert.equal(await take(30080), undefined)
      assert.equal((await agent.terminate()).code, 0)
      assert.notEqual(await take(30080), undefined)
    } finally {
      await node.close()
      await rm(manifests, { recursive: true })
    }
  })
})

/** Writes a Service with one SCTP node port. */
async function put(folder: string, name: string, clusterIP: string, nodePort: number): Promise<void> {
  const ports = [{ name: 'http', protocol: 'SCTP', port: 80, nodePort }]
  const document = apiService(name, clusterIP, { type: 'NodePort', ports })
  await writeFile(
    join(folder, `${name}.json`),
    JSON.stringify({ apiVersion: 'v1', kind: 'Service', ...document }),
  )
}

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

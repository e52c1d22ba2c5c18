// The shipped agent and an API server whose connections die without a sign: a device on the way drops the packets of the connections
// that exist, and lets new ones pass (issue 35, D4). kube-proxy notices after 44 s; so must the agent, within the test's time-out.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiNode, apiService, apiSlice } from '../support/api-documents.js'
import { connect, Namespace } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import { afterSyncs } from '../support/syncs.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const serverFile = join(treeRoot, 'out/ts/test/support/fake-api-program.js')
const relayFile = join(treeRoot, 'out/ts/test/support/tcp-relay.js')
const [serverAddress, serverPort, relayPort] = ['192.0.2.2', '8001', '7001']

const ways = [
  { name: 'directly', master: `http://${serverAddress}:${serverPort}` },
  { name: 'through a load balancer of the node', master: `http://127.0.0.1:${relayPort}` },
]

for (const { name, master } of ways)
  describe(`an API server whose connections die, reached ${name}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-dead-connection-'))
    let node: Namespace
    let far: Namespace
    let server: Program
    let agent: Program

    before(async () => {
      node = await Namespace.create('node')
      far = await Namespace.create('far')
      await connect(
        { namespace: node, interfaceName: 'eth0', addresses: ['192.0.2.1/24'] },
        { namespace: far, interfaceName: 'eth0', addresses: [`${serverAddress}/24`] },
      )
    })

    after(async () => {
      await node.close()
      await far.close()
      rmSync(folder, { recursive: true })
    })

    async function send(...command: readonly unknown[]): Promise<void> {
      const line = JSON.stringify(command)
      const from = server.lines.length
      server.write(`${line}\n`)
      await server.line((text) => text === line, from)
    }

    async function ruleEndpoints(): Promise<string> {
      const rules = await node.must('iptables-legacy-save', '-t', 'nat')
      return (rules.match(/(?<=--to-destination )\S+/gu) ?? []).join()
    }

    /** Drops the packets of all connections to the server that exist now. */
    async function forgetConnections(): Promise<void> {
      const found = await node.must('ss', '-tnH', 'state', 'established', 'dport', '=', serverPort)
      const ports = Array.from(found.matchAll(/192\.0\.2\.1:(\d+)/gu), ([, port = '']) => port)
      for (const way of [
        ['INPUT', '--sports'],
        ['OUTPUT', '--dports'],
      ] as const) {
        const [chain, which] = way
        const match = ['-p', 'tcp', '-m', 'multiport', which, ports.join()]
        await far.must('iptables-legacy', '-A', chain, ...match, '-j', 'DROP')
      }
    }

    it('is followed', { timeout: 60_000 }, async () => {
      const options = join(folder, 'server.json')
      writeFileSync(options, JSON.stringify({ address: serverAddress }))
      server = far.start(process.execPath, serverFile, serverPort, options)
      await send('put', 'Node', apiNode('node-a'))
      await send('put', 'Service', apiService('web', '10.96.0.10'))
      await send('put', 'EndpointSlice', apiSlice('web-1', 'web', ['10.1.0.1']))
      await send('listen')
      const relay = node.start(process.execPath, relayFile, relayPort, serverAddress, serverPort)
      await relay.line((line) => line === 'ready')
      const flags = [
        '--proxy-mode=iptables',
        '--iptables-flavour=legacy',
        '--hostname-override=node-a',
        '-v=2',
      ]
      agent = node.start(process.execPath, agentFile, '--master', master, ...flags)
      await agent.line((line) => line.includes('"Sync done"') && line.includes('"IPv4"'))
      await afterSyncs(agent, ruleEndpoints, (found) => found === '10.1.0.1:8080')
    })

    it('is followed again over new connections within 45 s', { timeout: 45_000 }, async () => {
      await forgetConnections()
      await send('put', 'EndpointSlice', apiSlice('web-1', 'web', ['10.1.0.2']))
      await afterSyncs(agent, ruleEndpoints, (found) => found === '10.1.0.2:8080')
    })
  })

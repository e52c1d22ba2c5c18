// Issue 35, A1 and A2: the Service of a tenant took the cluster IP, the node port and the health check port of another one, cut the agent off
// from the API server, and answered the probes of the agent. The shipped agent with real connections, in each mode of this kernel.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiNode, apiService, apiSlice } from '../support/api-documents.js'
import { Namespace } from '../support/namespaces.js'
import { askInNamespace, serverListens } from '../support/page-question.js'
import type { Program } from '../support/processes.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const serverFile = join(treeRoot, 'out/ts/test/support/fake-api-program.js')
const apiPort = 8001
/** The address of the node and of its API server, and the endpoints of the two Services. */
const [own, victim, thief] = ['192.0.2.1', '198.51.100.1', '198.51.100.2']

/** The ports of the victim. */
const [nodePort, healthCheckNodePort] = [30_080, 30_100]

/** Answers each request with its name. */
const endpoint = `const [host, name] = process.argv.slice(1)
require('node:http').createServer((_, reply) => reply.end(name)).listen(8080, host, () => console.log('listens'))`

const modes = [
  ['--proxy-mode', 'iptables', '--iptables-flavour=legacy'],
  ['--proxy-mode', 'iptables', '--iptables-flavour=nft'],
  ['--proxy-mode', 'nftables'],
  ['--proxy-mode', 'userspace'],
]

for (const mode of modes)
  describe(`beside the Service of a tenant, ${mode.join(' ')}`, { timeout: 120_000 }, () => {
    const folder = mkdtempSync(join(tmpdir(), 'viaduct-places-'))
    let node: Namespace
    let server: Program
    let agent: Program

    async function send(...command: readonly unknown[]): Promise<void> {
      const line = JSON.stringify(command)
      const from = server.lines.length
      server.write(`${line}\n`)
      await server.line((text) => text === line, from)
    }

    async function putTenant(): Promise<void> {
      const wanted = [80, apiPort, 10256, nodePort, healthCheckNodePort]
      const ports = wanted.map((port) => ({ name: `p${port}`, protocol: 'TCP', port }))
      const spec = { ports, externalIPs: [own, '10.96.0.99'] }
      await send('put', 'Service', apiService('a-evil/x', '10.96.0.66', spec))
      const slice = apiSlice('a-evil/x-1', 'x', [thief])
      const targets = ports.map(({ name }) => ({ name, protocol: 'TCP', port: 8080 }))
      await send('put', 'EndpointSlice', { ...slice, ports: targets })
    }

    async function putVictim(): Promise<void> {
      const spec = {
        type: 'LoadBalancer',
        externalTrafficPolicy: 'Local',
        healthCheckNodePort,
        ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort }],
      }
      await send('put', 'Service', apiService('victim/victim', '10.96.0.99', spec))
      const slice = apiSlice('victim/victim-1', 'victim', [victim])
      const endpoints = [{ addresses: [victim], conditions: { ready: true }, nodeName: 'node-a' }]
      await send('put', 'EndpointSlice', { ...slice, endpoints })
    }

    /** The answers to several connections, each once. */
    async function answersAt(place: string): Promise<readonly string[]> {
      const answers = new Set<string>()
      for (let i = 0; i < 8; i++) answers.add((await askInNamespace(node, `http://${place}/`))[1])
      return [...answers]
    }

    before(async () => {
      node = await Namespace.create('node')
      await node.ip(...[own, victim, thief].map((address) => `address add ${address}/32 dev lo`))
      // A route for the cluster IPs.
      await node.ip(
        'link add up0 type veth peer name up1',
        'link set up0 up',
        'link set up1 up',
        'address add 203.0.113.1/24 dev up0',
        'route add default via 203.0.113.2 dev up0',
      )
      for (const [host, name] of [
        [victim, 'victim'],
        [thief, 'thief'],
      ] as const) {
        const program = node.start(process.execPath, '-e', endpoint, host, name)
        await program.line((line) => line === 'listens')
      }
      const options = join(folder, 'server.json')
      writeFileSync(options, JSON.stringify({ address: own }))
      server = node.start(process.execPath, serverFile, String(apiPort), options)
      await send('put', 'Node', apiNode('node-a'))
      await putTenant()
      await putVictim()
      await send('listen')
      const flags = ['--master', `http://${own}:${apiPort}`, '--hostname-override', 'node-a', '-v', '2']
      agent = node.start(process.execPath, agentFile, ...flags, ...mode)
      for (const part of [
        `tcp ${own}:${apiPort} is the address of the API server; no Service may use it`,
        `tcp ${own}:10256 is the address of the agent's healthz server; no Service may use it`,
        `tcp ${own}:${nodePort} already belongs to victim/victim:http/TCP, whose node port it is`,
        `tcp ${own}:${healthCheckNodePort} already belongs to victim/victim:http/TCP, whose health check port it is`,
        'to which the API server allocated it',
      ])
        await agent.line((line) => line.includes(part))
      await serverListens(agent, 'healthz')
    })

    after(async () => {
      await node.close()
      rmSync(folder, { recursive: true })
    })

    it('a cluster IP stays with the Service to which the API server allocated it', async () => {
      assert.deepEqual(await answersAt('10.96.0.99'), ['victim'])
    })

    it('a node port stays with its Service', async () => {
      assert.deepEqual(await answersAt(`${own}:${nodePort}`), ['victim'])
    })

    it('a health check port stays with its Service', async () => {
      const [status, body] = await askInNamespace(node, `http://${own}:${healthCheckNodePort}/`)
      assert.equal(status, 200)
      assert.match(body, /"namespace": *"victim"/u)
    })

    it('the tenant has its other frontends', async () => {
      assert.equal((await askInNamespace(node, 'http://10.96.0.66/'))[1], 'thief')
    })

    it('the probes of the agent reach the agent, at the address of the node too', async () => {
      for (const host of [own, '127.0.0.1']) {
        const [status, body] = await askInNamespace(node, `http://${host}:10256/livez`)
        assert.equal(status, 200)
        assert.match(body, /lastUpdated/u)
      }
    })

    it('the agent reaches the API server again after each connection has ended', async () => {
      const from = agent.lines.length
      await send('drop')
      await send('put', 'Service', apiService('victim/later', '10.96.0.98'))
      await agent.line((line) => line.includes('"Sync done"'), from)
    })
  })

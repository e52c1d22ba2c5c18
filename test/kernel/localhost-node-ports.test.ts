// Node ports on localhost in nftables mode, with the shipped agent: real connections through the relay (KEP-6032).
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { askInNamespace } from '../support/page-question.js'
import { port, service, slice } from '../support/objects.js'
import { eventually, ProbeClient, serve } from '../support/traffic.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { manifestText } from '../traffic/table/manifest.js'
import { nodeObject } from '../traffic/table/slot.js'

const [answerMs, limitMs] = [5000, 20_000]
const targets = [
  { protocol: 'tcp', address: '127.0.0.1', by: '192.0.2.1 8080' },
  { protocol: 'udp', address: '127.0.0.1', by: '192.0.2.1 8080' },
  { protocol: 'tcp', address: '::1', by: 'fd00:192::1 8080' },
  { protocol: 'udp', address: '::1', by: 'fd00:192::1 8080' },
] as const
const ports = [
  port(80, { name: 'tcp', nodePort: 30080 }),
  port(80, { name: 'udp', protocol: 'UDP', nodePort: 30080 }),
]
const endpointPorts = [
  { name: 'tcp', protocol: 'TCP', port: 8080 },
  { name: 'udp', protocol: 'UDP', port: 8080 },
] as const

describe('node ports on localhost in nftables mode', { timeout: 60_000 }, () => {
  let node: Namespace
  let client: ProbeClient
  let folder: string
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'viaduct-localhost-'))
    node = await Namespace.create('node-a')
    await node.ip('address add 192.0.2.1/24 dev lo', 'address add fd00:192::1/64 dev lo nodad')
    await serve(node, [
      { protocol: 'tcp', address: '192.0.2.1', port: 8080 },
      { protocol: 'udp', address: '192.0.2.1', port: 8080 },
      { protocol: 'tcp', address: 'fd00:192::1', port: 8080 },
      { protocol: 'udp', address: 'fd00:192::1', port: 8080 },
    ])
    client = new ProbeClient(node)
    const objects = [
      nodeObject,
      service('web', '10.96.0.1', { type: 'NodePort', ports }),
      slice('web-1', 'web', ['192.0.2.1'], { ports: endpointPorts }),
      service('web6', 'fd00:10:96::1', { type: 'NodePort', ports }),
      slice('web6-1', 'web6', ['fd00:192::1'], { ports: endpointPorts }),
    ]
    await writeFile(join(folder, 'shop.json'), manifestText(objects))
  })
  after(async () => {
    await node.close()
    await rm(folder, { recursive: true })
  })

  const requests = {
    "networks and kube-proxy's flag": {
      flags: ['--nodeport-addresses=127.0.0.0/8,::1/128', '--iptables-localhost-nodeports'],
      metrics: [],
    },
    "keywords and kube-proxy's gate": {
      flags: [
        '--nodeport-addresses=primary,localhost',
        '--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true',
      ],
      metrics: [
        'kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv4"} 2',
        'kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv6"} 2',
      ],
    },
  }
  for (const [name, { flags, metrics }] of Object.entries(requests))
    it(`answer over TCP and UDP, on 127.0.0.1 and ::1, while the agent runs: ${name}`, async () => {
      const agent = AgentProcess.start({ node, manifests: folder, mode: 'nftables', flags })
      // The listeners follow the sync.
      await agent.synced()
      for (const { protocol, address, by } of targets) {
        const answer = await eventually(
          () => client.probe({ protocol, address, port: 30080 }, answerMs),
          ({ kind }) => kind === 'answer',
          limitMs,
        )
        assert.deepEqual(answer, { kind: 'answer', from: by }, `${protocol} ${address}`)
      }
      const [, text] = await askInNamespace(node, 'http://127.0.0.1:10249/metrics')
      const listeners = /^kubeproxy_nftables_localhost_nodeport_listeners\{.*/gmu
      assert.deepEqual(text.match(listeners) ?? [], metrics)
      assert.equal((await agent.terminate()).code, 0)
      const { protocol, address } = targets[0]
      assert.equal((await client.probe({ protocol, address, port: 30080 }, answerMs)).kind, 'refused')
    })
})

// The node's own packets to an endpoint on the node, which come in again by lo: what a real packet does at rules there, and what
// `viaduct explain` says.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { askingAt } from '../../src/commands/client.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { Namespace } from '../support/namespaces.js'
import { node as nodeObject, port, service, slice } from '../support/objects.js'
import { Prober } from '../support/probes.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { manifestText } from '../traffic/table/manifest.js'

requireFreshNamespace()

const nodeAddress = '192.168.60.1'
const vip = '10.96.0.30'
const endpoint = { protocol: 'UDP', address: nodeAddress, port: 7070 } as const
const objects = [
  nodeObject('node-a', { ips: [nodeAddress] }),
  service('near', vip, { ports: [port(80, { protocol: 'UDP' })] }),
  slice('near-1', 'near', [nodeAddress], { ports: [{ name: '', protocol: 'UDP', port: endpoint.port }] }),
]

const raw = '-t raw -A PREROUTING -i lo -p udp --dport 7070 -j DROP'
const cases = [
  { name: 'no rule', rules: '', fate: 'serve' },
  { name: 'a drop in table raw, legacy', rules: `iptables-legacy ${raw}`, fate: 'drop' },
  { name: 'a drop in table raw, nft', rules: `iptables-nft ${raw}`, fate: 'drop' },
  {
    name: 'a drop in a chain of type nat, which the packet has passed',
    rules: [
      'nft add table inet other',
      "nft 'add chain inet other first { type nat hook prerouting priority -110; }'",
      'nft add rule inet other first udp dport 7070 drop',
    ].join(' && '),
    fate: 'serve',
  },
] as const

for (const [mode, flags] of [
  ['iptables', ['--iptables-flavour=legacy']],
  ['iptables', ['--iptables-flavour=nft']],
  ['nftables', []],
  ['userspace', []],
] as const) {
  describe(`a packet by lo in mode ${[mode, ...flags].join(' ')}`, { timeout: 60_000 }, () => {
    let node: Namespace
    let prober: Prober
    let folder: string
    let agent: AgentProcess
    before(async () => {
      node = await Namespace.create('node')
      await node.ip('link add eth0 type bridge', `address add ${nodeAddress}/24 dev eth0`, 'link set eth0 up')
      await node.ip('route add default via 192.168.60.2')
      prober = new Prober(node)
      await prober.serve([endpoint])
      folder = mkdtempSync(join(tmpdir(), 'viaduct-loopback-'))
      writeFileSync(join(folder, 'objects.json'), manifestText(objects))
      const own = ['--cluster-cidr=10.244.0.0/16', '--control-socket', `${folder}.sock`]
      agent = AgentProcess.start({ node, manifests: folder, mode, flags: [...flags, ...own] })
      await agent.line(/"Control socket listens"/u, 0)
      await agent.synced()
    })
    after(async () => {
      assert.equal((await agent.terminate()).code, 0)
      await node.close()
      rmSync(folder, { recursive: true })
    })

    for (const { name, rules, fate } of cases)
      it(name, async () => {
        await node.must('sh', '-c', rules)
        const outcome = await prober.probe(
          { protocol: 'UDP', address: vip, port: 80 },
          fate === 'drop' ? 300 : 5000,
        )
        const query = { client: 'node', destination: `${vip}:80/udp` }
        const { verdict, firewall, kernel } = await askingAt(`${folder}.sock`)('explain', query)
        await node.must('sh', '-c', 'iptables-legacy -t raw -F; iptables-nft -t raw -F')
        assert.equal(outcome.kind, fate === 'drop' ? 'dropped' : 'answer')
        assert.deepEqual([verdict, kernel.state], [fate, 'agrees'], firewall.rules.join('\n'))
      })
  })
}

// Program: what ipvs mode makes of examples/ipvs, as ordinary tools print it, for docs/ipvs-example.md. Needs IP_VS and root.
import { join } from 'node:path'
import { Namespace, setSysctls } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from './agent-process.js'

const commands = [
  'ipvsadm -Sn',
  'ip route show table local proto 173',
  'ipset save',
  'iptables-legacy-save -t nat',
  'iptables-legacy-save -t mangle',
  'iptables-legacy-save -t filter',
]

const node = await Namespace.create('node-a')
try {
  await node.ip('link add eth0 type dummy', 'link set eth0 up', 'address add 192.168.50.1/24 dev eth0')
  await setSysctls(node, 'net.ipv4.ip_forward=1')
  const manifests = join(treeRoot, 'examples/ipvs')
  const agent = AgentProcess.start({ node, manifests, flags: ['--cluster-cidr=10.244.0.0/16'] })
  await agent.synced()
  for (const command of commands) {
    const text = await node.must(...command.split(' '))
    // The sets of IPv6 are as many, and empty.
    const lines = text.split('\n').filter((line) => line !== '' && !/^#| KUBE-6-/u.test(line))
    console.log(`$ ${command}\n${lines.join('\n')}\n`)
  }
  await agent.kill()
} finally {
  await node.close()
}

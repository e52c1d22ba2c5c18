// `viaduct explain` in ipvs mode: rules before and behind IPVS, and objects that an operator removed. Runs in the guest: it needs IP_VS.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Explanation } from '../../src/inspect/index.js'
import { Namespace } from '../support/namespaces.js'
import { endpoint, node as nodeObject, port, service, slice } from '../support/objects.js'
import { treeRoot } from '../support/tree.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { manifestText } from '../traffic/table/manifest.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const vip = '10.96.0.10'
const server = `-t ${vip}:80`
const real = '10.244.2.10:8080'

const objects = [
  nodeObject('node-a', { ips: ['192.168.60.11'] }),
  service('web', vip, { ports: [port(80)] }),
  slice('web-1', 'web', [
    endpoint('10.244.1.10', { nodeName: 'node-a' }),
    endpoint('10.244.2.10', { nodeName: 'node-b' }),
  ]),
]

/** Objects that an operator removes, by the command, and the sentence of explain about each. */
const removals = [
  {
    name: 'an entry of a set',
    command: `ipset del KUBE-CLUSTER-IP ${vip},tcp:80`,
    sentence: `entry ${vip},tcp:80 of set KUBE-CLUSTER-IP is missing`,
  },
  {
    name: 'the entry of the VIP',
    command: `ipset del KUBE-IPVS-IPS ${vip}`,
    sentence: `entry ${vip} of set KUBE-IPVS-IPS is missing`,
  },
  {
    name: 'a real server',
    command: `ipvsadm -d ${server} -r ${real}`,
    sentence: `real server ${real} of virtual server ${server} is missing`,
  },
  {
    name: 'a virtual server',
    command: `ipvsadm -D ${server}`,
    sentence: `virtual server ${server} is missing`,
  },
  {
    name: 'the route of the VIP',
    command: `ip route del local ${vip} table local`,
    sentence: `local route of ${vip} is missing`,
  },
] as const

/** Ends when the first packet of a connection has passed hook output, however slow the guest is: connect() sends it before it returns. */
const sendsSyn = `require('node:net').connect(80, '${vip}'); setImmediate(() => process.exit())`

describe('explain in ipvs mode', { timeout: 600_000 }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'viaduct-explain-'))
  const socket = `${folder}.sock`
  let node: Namespace
  before(async () => {
    writeFileSync(join(folder, 'objects.json'), manifestText(objects))
    node = await Namespace.create('node')
    await node.ip('address add 192.168.60.11/32 dev lo', 'route add 10.244.0.0/16 dev lo')
    const flags = ['--cluster-cidr', '10.244.1.0/24', '--control-socket', socket]
    const agent = AgentProcess.start({ node, manifests: folder, flags })
    await agent.line(/Control socket listens/u, 0)
    await agent.synced()
  })
  after(async () => {
    await node.close()
    rmSync(folder, { recursive: true })
  })

  async function explain(
    client = '10.244.1.11',
  ): Promise<{ readonly code: number | undefined; readonly value: Explanation }> {
    const words = ['explain', client, `${vip}:80`, '-o', 'json', '--socket', socket]
    const { code, stdout, stderr } = await node.run(process.execPath, agentFile, ...words)
    assert.ok(stdout !== '', stderr)
    return { code, value: JSON.parse(stdout) }
  }

  it('says that the kernel agrees', async () => {
    const { code, value } = await explain()
    assert.deepEqual([code, value.kernel], [0, { state: 'agrees', differences: [] }])
    for (const object of [`-a ${server} -r ${real} -m -w 1`, `add KUBE-CLUSTER-IP ${vip},tcp:80`])
      assert.ok(value.objects.includes(object), value.objects.join('\n'))
  })

  /** Entries of IPVS for connections to the virtual server. NB: the kernel adds up its statistics later. */
  async function connections(): Promise<number> {
    const listed = await node.must('ipvsadm', '-Lnc')
    return listed.split(` ${vip}:80 `).length - 1
  }

  for (const { table, isSeen } of [
    { table: 'mangle', isSeen: true },
    { table: 'filter', isSeen: false },
  ]) {
    it(`a rule of table ${table} at OUTPUT ${isSeen ? 'drops' : 'does not see'} a connection of the node`, async () => {
      const rule = `OUTPUT -d ${vip} -j DROP`.split(' ')
      await node.must('iptables-legacy', '-w', '-t', table, '-I', ...rule)
      const { value } = await explain('node')
      const earlier = await connections()
      await node.run(process.execPath, '-e', sendsSyn)
      const later = await connections()
      await node.must('iptables-legacy', '-w', '-t', table, '-D', ...rule)
      assert.equal(later > earlier, !isSeen)
      assert.equal(value.verdict, isSeen ? 'drop' : 'serve', value.firewall.rules.join('; '))
    })
  }

  for (const { name, command, sentence } of removals) {
    it(`names ${name} that an operator removes`, async () => {
      // The agent repairs what is gone, sooner than a command starts in the guest: it is removed until explain was asked.
      const remover = node.start('sh', '-c', `while :; do ${command} 2>/dev/null; sleep 0.1; done`)
      try {
        for (;;) {
          const { code, value } = await explain()
          if (!value.kernel.differences.includes(sentence)) continue
          assert.deepEqual([code, value.kernel.state], [1, 'differs'])
          return
        }
      } finally {
        await remover.kill()
      }
    })
  }
})

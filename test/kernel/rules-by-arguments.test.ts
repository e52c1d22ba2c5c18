// kubelet, kube-proxy and operators look for the fixed rules of iptables mode by `iptables -C`, which compares the order of the matches.
// The arguments are those of kubelet and of kube-proxy 1.36. Before, the tools missed all rules with a comment before another match.
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { AgentProcess } from '../traffic/agent-process.js'

const manifest = `apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  type: LoadBalancer
  externalTrafficPolicy: Local
  clusterIP: 10.96.0.20
  healthCheckNodePort: 32000
  ports: [{ name: http, port: 80, targetPort: 8080, nodePort: 30080 }]
status: { loadBalancer: { ingress: [{ ip: 203.0.113.20 }] } }
`

const comment = (text: string): readonly string[] => ['-m', 'comment', '--comment', text]
const words = (text: string): readonly string[] => text.split(' ')
const isNew = words('-m conntrack --ctstate NEW')
const services = comment('kubernetes service portals')
const externals = comment('kubernetes externally-visible service portals')
const balancers = comment('kubernetes load balancer firewall')
const localnet = comment('block incoming localnet connections')
const notKnown = words('-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP')

type Row = readonly [table: 'nat' | 'filter', chain: string, ...rule: readonly (readonly string[])[]]

/** kube-proxy: jumps by `-C`, the other rules by iptables-restore. Releases before 1.28 of kubelet look for those in nat. */
const ofBoth: readonly Row[] = [
  ['filter', 'INPUT', isNew, externals, words('-j KUBE-EXTERNAL-SERVICES')],
  ['filter', 'FORWARD', isNew, externals, words('-j KUBE-EXTERNAL-SERVICES')],
  ['filter', 'INPUT', comment('kubernetes health check service ports'), words('-j KUBE-NODEPORTS')],
  ['filter', 'FORWARD', isNew, services, words('-j KUBE-SERVICES')],
  ['filter', 'OUTPUT', isNew, services, words('-j KUBE-SERVICES')],
  ['filter', 'FORWARD', comment('kubernetes forwarding rules'), words('-j KUBE-FORWARD')],
  ['filter', 'INPUT', isNew, balancers, words('-j KUBE-PROXY-FIREWALL')],
  ['filter', 'FORWARD', isNew, balancers, words('-j KUBE-PROXY-FIREWALL')],
  ['filter', 'OUTPUT', isNew, balancers, words('-j KUBE-PROXY-FIREWALL')],
  ['nat', 'OUTPUT', services, words('-j KUBE-SERVICES')],
  ['nat', 'PREROUTING', services, words('-j KUBE-SERVICES')],
  ['nat', 'POSTROUTING', comment('kubernetes postrouting rules'), words('-j KUBE-POSTROUTING')],
  ['nat', 'KUBE-POSTROUTING', words('-m mark ! --mark 0x00004000/0x00004000 -j RETURN')],
  ['nat', 'KUBE-POSTROUTING', words('-j MARK --xor-mark 0x00004000')],
  [
    'nat',
    'KUBE-POSTROUTING',
    comment('kubernetes service traffic requiring SNAT'),
    words('-j MASQUERADE --random-fully'),
  ],
  ['nat', 'KUBE-MARK-MASQ', words('-j MARK --or-mark 0x00004000')],
  ['filter', 'KUBE-FORWARD', words('-m conntrack --ctstate INVALID -j DROP')],
  [
    'filter',
    'KUBE-FORWARD',
    comment('kubernetes forwarding rules'),
    words('-m mark --mark 0x00004000/0x00004000 -j ACCEPT'),
  ],
  [
    'filter',
    'KUBE-FORWARD',
    comment('kubernetes forwarding conntrack rule'),
    words('-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'),
  ],
]

/** kube-proxy names the port of the Service in the comment of a health check, Viaduct the Service: one rule serves all its ports. */
const ofIPv4: readonly Row[] = [
  [
    'filter',
    'KUBE-NODEPORTS',
    comment('default/web health check node port'),
    words('-m tcp -p tcp --dport 32000 -j ACCEPT'),
  ],
  ['filter', 'INPUT', words('-j KUBE-FIREWALL')],
  ['filter', 'OUTPUT', words('-j KUBE-FIREWALL')],
  ['filter', 'KUBE-FIREWALL', localnet, words('-d 127.0.0.0/8 ! -s 127.0.0.0/8'), notKnown],
  ['filter', 'KUBE-FIREWALL', localnet, words('--dst 127.0.0.0/8 ! --src 127.0.0.0/8'), notKnown],
]

const tables = { iptables: [...ofBoth, ...ofIPv4], ip6tables: ofBoth } as const

/**
 * The rows as a flavour has them. In flavour nft, nft has to load what it lists: the table of the Services masquerades, and only jumps, and
 * kubelet's rule, have comments.
 */
function rowsIn(flavour: string, rows: readonly Row[]): readonly Row[] {
  if (flavour === 'legacy') return rows
  return rows
    .filter(([, chain]) => chain !== 'KUBE-POSTROUTING')
    .map(([table, chain, ...rule]): Row => {
      const isBare = chain === 'KUBE-FORWARD' || chain === 'KUBE-NODEPORTS'
      return [table, chain, ...rule.filter((each) => !isBare || !each.includes('--comment'))]
    })
}

/** The rules of former versions with the comment as the last match, in their chains. */
const formerRules: readonly Row[] = [
  [
    'filter',
    'KUBE-FIREWALL',
    words('-d 127.0.0.0/8 ! -s 127.0.0.0/8'),
    notKnown.slice(0, -2),
    localnet,
    words('-j DROP'),
  ],
  [
    'filter',
    'KUBE-FORWARD',
    words('-m mark --mark 0x4000/0x4000'),
    comment('kubernetes forwarding rules'),
    words('-j ACCEPT'),
  ],
]

/** The rules that the tool misses. */
async function missed(node: Namespace, flavour: string): Promise<readonly string[]> {
  const found: string[] = []
  for (const [program, rows] of Object.entries(tables)) {
    for (const [table, chain, ...rule] of rowsIn(flavour, rows)) {
      const args = ['-t', table, '-C', chain, ...rule.flat()]
      const { code } = await node.run(`${program}-${flavour}`, ...args)
      if (code !== 0) found.push([program, ...args].join(' '))
    }
  }
  return found
}

for (const flavour of ['legacy', 'nft'] as const) {
  describe(`the fixed rules of iptables mode, flavour ${flavour}`, { timeout: 60_000 }, () => {
    it('are found by the arguments of kubelet and kube-proxy, also after an upgrade', async () => {
      const node = await Namespace.create('node-a')
      const manifests = await mkdtemp(join(tmpdir(), 'viaduct-arguments-'))
      const save = async (): Promise<string> => await node.must(`iptables-${flavour}-save`)
      const run = async (): Promise<void> => {
        const flags = ['--cluster-cidr=10.244.0.0/16', `--iptables-flavour=${flavour}`]
        const agent = AgentProcess.start({ node, manifests, mode: 'iptables', flags })
        await agent.synced()
        assert.equal((await agent.terminate()).code, 0)
      }
      try {
        await node.ip('link add eth0 type veth peer name eth1', 'address add 192.168.50.1/24 dev eth0')
        await node.ip('link set eth0 up', 'link set eth1 up')
        await writeFile(join(manifests, 'web.yaml'), manifest)
        await run()
        assert.deepEqual(await missed(node, flavour), [])
        const whole = rulesOf(await save())
        for (const [table, chain, ...rule] of formerRules) {
          await node.must(`iptables-${flavour}`, '-t', table, '-F', chain)
          await node.must(`iptables-${flavour}`, '-t', table, '-A', chain, ...rule.flat())
        }
        await run()
        assert.deepEqual(await missed(node, flavour), [])
        assert.deepEqual(rulesOf(await save()), whole)
      } finally {
        await node.close()
        await rm(manifests, { recursive: true })
      }
    })
  })
}

function rulesOf(saved: string): readonly string[] {
  return saved.split('\n').filter((line) => line.startsWith('-A '))
}

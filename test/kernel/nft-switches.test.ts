// The shipped agent in nftables mode takes a node over from kube-proxy and from iptables mode, and gives it back, while connections
// are made all the time: none fails, and none waits for a segment that was lost.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { kubeProxyOnly, writeKubeProxyTables } from '../support/kube-proxy-nftables.js'
import { eventually } from '../support/traffic.js'
import type { AgentProcess } from '../traffic/agent-process.js'
import { assertServed, SwitchLab } from '../traffic/switch-lab.js'

describe('a node that changes its proxy', { timeout: 120_000 }, () => {
  let lab: SwitchLab
  let agent: AgentProcess

  before(async () => {
    lab = await SwitchLab.create()
    await writeKubeProxyTables(lab.node, lab.kubeProxyNodes)
    await lab.startLoad()
  })

  after(async () => await lab.close())

  /** Names of the chains, sets, maps and counters that nft lists in both tables. */
  async function objectNames(): Promise<readonly string[]> {
    const text = await lab.node.must('nft', 'list', 'ruleset')
    return [...text.matchAll(/^\t(?:chain|set|map|counter) (\S+) \{/gmu)].map(([, name]) => name ?? '')
  }

  /** The hooks of both tables, except those before translation. */
  async function baseChains(): Promise<readonly string[]> {
    const text = await lab.node.must('nft', 'list', 'ruleset')
    return [...text.matchAll(/type (?:nat|filter) hook .*;/gu)]
      .map(([hook]) => hook)
      .filter((hook) => !/-110|dstnat - 10;/u.test(hook))
  }

  /** Resolves when the mode is in force, and what `leftovers` names is gone. */
  async function start(
    mode: 'iptables' | 'nftables',
    { leftovers, flavour = 'legacy' }: { leftovers?: string; flavour?: 'legacy' | 'nft' } = {},
  ): Promise<void> {
    agent = lab.startAgent(mode, `--iptables-flavour=${flavour}`)
    await agent.synced()
    if (leftovers !== undefined) await agent.line(new RegExp(`Leftovers of ${leftovers}: removed`, 'u'), 0)
  }

  async function stop(): Promise<void> {
    assert.equal((await agent.terminate()).code, 0)
  }

  it("from kube-proxy's nftables mode: its chains and maps are gone afterwards", async () => {
    assert.ok(ofKubeProxy(await objectNames()).length > kubeProxyOnly.length)
    assertServed(await lab.during(async () => await start('nftables')))
    await eventually(objectNames, (names) => ofKubeProxy(names).length === 0)
    assertServed(await lab.during(stop))
  })

  it('back to kube-proxy, and again to nftables mode', async () => {
    assertServed(await lab.during(async () => await writeKubeProxyTables(lab.node, lab.kubeProxyNodes)))
    assertServed(await lab.during(async () => await start('nftables')))
    await eventually(objectNames, (names) => ofKubeProxy(names).length === 0)
  })

  // kube-proxy's transaction deletes the set of these addresses. The kernel refused it (EBUSY): a chain that kube-proxy does not know used
  // the set. The counters stayed in the table. Issue 35, D7 and B4.
  it('back to kube-proxy with node ports on all addresses, which counts refused packets, and again', async () => {
    const nodes = lab.kubeProxyNodes.map(
      (node) => ({ ...node, addresses: 'all', countsRefused: true }) as const,
    )
    assertServed(await lab.during(stop))
    assertServed(await lab.during(async () => await writeKubeProxyTables(lab.node, nodes)))
    assert.equal(
      (await objectNames()).filter((name) => name.startsWith('localhost-nodeport-rejected')).length,
      4,
    )
    assertServed(await lab.during(async () => await start('nftables')))
    await eventually(objectNames, (names) => ofKubeProxy(names).length === 0)
  })

  it('a Service whose endpoints come and go while clients connect', async () => {
    assertServed(
      await lab.during(async () => {
        for (const endpoints of [1, 8, 3, 7, 2, 8, 1, 5, 8]) {
          const from = agent.lineCount
          await lab.publish(endpoints)
          for (const family of ['IPv4', 'IPv6'])
            await agent.line(new RegExp(`"${family}".*"Sync done"`, 'u'), from)
        }
      }),
    )
    assertServed(await lab.during(stop))
  })

  it('from the table of an older version, whose chains have the priorities of kube-proxy', async () => {
    assertServed(await lab.during(async () => void (await lab.node.must('sh', '-ec', ageTables))))
    assert.equal((await baseChains()).filter((chain) => priorities.test(chain)).length, 0)
    assertServed(await lab.during(async () => await start('nftables')))
    assert.deepEqual(
      (await baseChains()).filter((chain) => !priorities.test(chain)),
      [],
    )
    assertServed(await lab.during(stop))
  })

  it('from nftables mode to iptables mode, and back', async () => {
    assertServed(await lab.during(async () => await start('iptables', { leftovers: 'nftables mode' })))
    assert.deepEqual(await objectNames(), [])
    assertServed(await lab.during(stop))
    assertServed(await lab.during(async () => await start('nftables', { leftovers: 'iptables mode' })))
    assert.match(await lab.node.must('iptables-legacy-save'), /^(?![^]*KUBE-SVC)/u)
    assertServed(await lab.during(stop))
  })

  it('from nftables mode to iptables mode of the flavour nft, and back', async () => {
    assertServed(await lab.during(async () => await start('iptables', { flavour: 'nft' })))
    assert.match(await lab.node.must('iptables-nft-save'), /-A POSTROUTING .*-j KUBE-POSTROUTING/u)
    assertServed(await lab.during(stop))
    assertServed(await lab.during(async () => await start('nftables', { leftovers: 'iptables mode' })))
    // KUBE-FIREWALL is kubelet's too.
    assert.doesNotMatch(await lab.node.must('iptables-nft-save'), /KUBE-(?!FIREWALL)/u)
    await stop()
  })
})

/** The priorities of the base chains. */
const priorities = /priority (?:dstnat - 1|-101|filter - 1|srcnat - 1);/u

/** Replaces each base chain of both tables by one with the priority of kube-proxy's, in one transaction. */
const ageTables = `for ip in ip ip6; do
  for chain in filter-input filter-forward filter-output nat-prerouting nat-output nat-postrouting; do
    echo "delete chain $ip kube-proxy $chain"
    nft list chain $ip kube-proxy $chain |
      sed 's/priority dstnat - 1;/priority dstnat;/; s/priority -101;/priority -100;/; s/\\(filter\\|srcnat\\) - 1;/\\1;/'
  done
done | nft -f -`

function ofKubeProxy(objects: readonly string[]): readonly string[] {
  return objects.filter(
    (name) => name.includes('/') || kubeProxyOnly.includes(name) || name.startsWith('localhost-nodeport'),
  )
}

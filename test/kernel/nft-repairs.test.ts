// Another program changes the table of nftables mode: the agent writes what was touched, and nothing else.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { writeKubeProxyTables } from '../support/kube-proxy-nftables.js'
import { blocksOf, orderedListing } from '../support/nft-listing.js'
import { NftMonitor } from '../support/nft-monitor.js'
import { eventually } from '../support/traffic.js'
import type { AgentProcess } from '../traffic/agent-process.js'
import { assertServed, SwitchLab } from '../traffic/switch-lab.js'

const endpoint = 'element ip kube-proxy service-endpoint-3 { 10.96.0.10 . tcp . 80 : 10.1.0.4 . 8080 }'
const otherEndpoint = endpoint.replace('10.1.0.4 ', '192.0.2.4 ')
const stranger = 'element ip kube-proxy service-endpoint-0 { 10.96.0.99 . tcp . 80 : 10.1.0.4 . 8080 }'
const strangerServes = 'element ip kube-proxy services-with-endpoints { 10.96.0.99 . tcp . 80 }'
const count = 'element ip kube-proxy services-with-8 { 10.96.0.10 . tcp . 80 }'
const foreign = 'element ip kube-proxy rejected-services { 10.96.0.10 . tcp . 80 }'

interface Edit {
  readonly name: string
  readonly command: string
  /** The lines of `nft monitor`: the edit, then the repair. */
  readonly seen: readonly string[] | RegExp
}

const edits: readonly Edit[] = [
  {
    name: 'an endpoint is deleted',
    command: `delete ${endpoint}`,
    seen: [`delete ${endpoint}`, `add ${endpoint}`],
  },
  {
    name: 'a number of endpoints is deleted',
    command: `delete ${count}`,
    seen: [`delete ${count}`, `add ${count}`],
  },
  {
    name: 'a Service with endpoints is refused',
    command: `add ${foreign}`,
    seen: [`add ${foreign}`, `delete ${foreign}`],
  },
  {
    name: 'an endpoint gets another value',
    command: `delete ${endpoint}; add ${otherEndpoint}`,
    seen: [`delete ${endpoint}`, `add ${otherEndpoint}`, `delete ${otherEndpoint}`, `add ${endpoint}`],
  },
  {
    name: 'a stranger is in a map of endpoints',
    command: `add ${stranger}`,
    seen: [`add ${stranger}`, `delete ${stranger}`],
  },
  {
    name: 'a stranger serves',
    command: `add ${stranger}; add ${strangerServes}`,
    seen: /^(?:add|delete) element ip kube-proxy service(?:s-with-endpoints|-endpoint-0) \{ 10\.96\.0\.99 /u,
  },
  {
    name: 'a set is emptied',
    command: 'flush set ip kube-proxy cluster-ips',
    seen: /^(?:add|delete) element ip kube-proxy cluster-ips \{/u,
  },
  {
    name: 'a chain is emptied',
    command: 'flush chain ip kube-proxy services',
    seen: /^(?:add|insert|delete) rule ip kube-proxy services /u,
  },
  {
    name: 'a rule is inserted',
    command: 'insert rule ip kube-proxy services drop',
    seen: /^(?:add|insert|delete) rule ip kube-proxy services /u,
  },
  {
    name: 'a table is deleted',
    command: 'delete table ip kube-proxy',
    seen: /^(?:add|delete) (?:(?:chain|set|map|rule|element) ip kube-proxy|table ip kube-proxy)|^(?:type|flags|comment|size|gc-interval|elements|\}|\s)/u,
  },
]

describe('a foreign change of the table', { timeout: 120_000 }, () => {
  let lab: SwitchLab
  let agent: AgentProcess
  let monitor: NftMonitor

  before(async () => {
    lab = await SwitchLab.create()
    agent = lab.startAgent('nftables')
    await agent.synced()
    monitor = await NftMonitor.open(lab.node)
  })

  after(async () => {
    await monitor.close()
    await lab.close()
  })

  async function repaired(change: () => Promise<unknown>, ...families: readonly string[]): Promise<void> {
    const from = agent.lineCount
    await change()
    for (const family of families)
      for (const event of ['Kernel state differs and is repaired', 'Sync done'])
        await agent.line(new RegExp(`"${family}".*"${event}"`, 'u'), from)
  }

  /** Sets, maps and chains: a repair may put them in another order. */
  async function listed(): Promise<readonly string[]> {
    const text = await lab.node.must('nft', 'list', 'ruleset')
    return blocksOf(orderedListing(text)).toSorted()
  }

  for (const { name, command, seen } of edits) {
    it(name, async () => {
      const whole = await listed()
      await monitor.take()
      await repaired(async () => await lab.node.must('nft', ...command.split(' ')), 'IPv4')
      const lines = await monitor.take()
      if (seen instanceof RegExp) {
        assert.ok(lines.length > 1)
        assert.deepEqual(
          lines.filter((line) => !seen.test(line)),
          [],
        )
      } else assert.deepEqual(lines, seen)
      assert.deepEqual(await listed(), whole)
    })
  }

  it('the whole ruleset is flushed', async () => {
    const whole = await listed()
    await repaired(async () => await lab.node.must('nft', 'flush', 'ruleset'), 'IPv4', 'IPv6')
    assert.deepEqual(await listed(), whole)
  })

  it('kube-proxy writes its table over it: no connection fails', async () => {
    const whole = await listed()
    await lab.startLoad()
    assertServed(
      await lab.during(async () =>
        repaired(async () => await writeKubeProxyTables(lab.node, lab.kubeProxyNodes), 'IPv4', 'IPv6'),
      ),
    )
    await eventually(listed, (now) => isDeepStrictEqual(now, whole))
  })
})

// Today's agent on a node with the rules that an older version wrote, as scripts/upgrade/record-rules.mjs recorded them, among chains of
// other programs. Nothing of others is touched, the result is that of a first start, and nothing is left after --cleanup.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { withoutSlots } from '../support/plan-lab.js'
import { eventually } from '../support/traffic.js'
import { treeFiles, treeRoot, treeText } from '../support/tree.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { foreignChains, writeForeignChains } from '../traffic/foreign-chains.js'

interface StoredRules {
  readonly commit: string
  readonly date: string
  /** Of the agent that wrote them, and of the one that finds them. */
  readonly flags: readonly string[]
  readonly rules: { readonly IPv4: string; readonly IPv6: string } | { readonly batches: string }
}

const folder = 'test/support/stored-rules'
const stored = treeFiles(new RegExp(`^${folder}/[^/]+\\.json$`, 'u')).map((path): StoredRules =>
  JSON.parse(treeText(path)),
)

async function feed(node: Namespace, text: string, ...command: readonly string[]): Promise<void> {
  await node.must('sh', '-c', 'text=$1; shift; printf "%s" "$text" | "$@"', 'sh', text, ...command)
}

async function load(node: Namespace, { rules }: StoredRules): Promise<void> {
  if ('batches' in rules)
    return await feed(node, rules.batches, 'python3', join(treeRoot, 'test/support/send-batches.py'))
  await feed(node, rules.IPv4, 'iptables-legacy-restore')
  await feed(node, rules.IPv6, 'ip6tables-legacy-restore')
}

/** The lines of all tables, sorted, without counters, handles and what the kernel counts by itself. */
async function linesOf(node: Namespace): Promise<readonly string[]> {
  const listed = await Promise.all([
    node.must('iptables-legacy-save'),
    node.must('ip6tables-legacy-save'),
    node.must('nft', 'list', 'ruleset'),
  ])
  return listed
    .flatMap((text) => withoutSlots(text).split('\n'))
    .map((line) => line.replaceAll(/ \[\d+:\d+\]|counter packets \d+ bytes \d+/gu, '').trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .toSorted()
}

async function writeForeign(space: Namespace): Promise<void> {
  await writeForeignChains(space, {
    forwardPolicy: 'ACCEPT',
    markChain: 'CNI-HOSTPORT-SETMARK',
    pods: { IPv4: '10.1.0.1', IPv6: 'fd00:10:1::1' },
    networks: { IPv4: '10.1.0.0/16', IPv6: 'fd00:10:1::/64' },
  })
}

const ours = /KUBE-(?!KUBELET|IPTABLES|FIREWALL)|kube-proxy/u

describe('rules of an older version', { timeout: 120_000 }, () => {
  let node: Namespace
  let fresh: Namespace
  let work: string

  beforeEach(async () => {
    ;[node, fresh] = await Promise.all([Namespace.create('node'), Namespace.create('fresh')])
    work = mkdtempSync(join(tmpdir(), 'viaduct-stored-'))
  })
  afterEach(async () => {
    await Promise.all([node.close(), fresh.close()])
    rmSync(work, { recursive: true })
  })

  function start(space: Namespace, flags: readonly string[]): AgentProcess {
    const mode = flags.includes('--proxy-mode=nftables') ? 'nftables' : 'iptables'
    const own = [...flags, `--control-socket=${join(work, `${space === node ? 'node' : 'fresh'}.sock`)}`]
    return AgentProcess.start({ node: space, manifests: join(treeRoot, folder, 'objects'), mode, flags: own })
  }

  it('are recorded', () => assert.ok(stored.length >= 3))

  for (const each of stored)
    it(`of ${each.date}, ${each.commit.slice(0, 8)}, ${each.flags.join(' ')}`, async () => {
      await load(node, each)
      await writeForeign(node)
      const foreign = await foreignChains(node)
      assert.match((await linesOf(node)).join('\n'), ours)
      const agent = start(node, each.flags)
      await agent.synced()
      assert.deepEqual(await foreignChains(node), foreign)

      await writeForeign(fresh)
      const other = start(fresh, each.flags)
      await other.synced()
      // The agent removes unused chains and sets a second later.
      const wanted = await linesOf(fresh)
      const found = await eventually(
        async () => await linesOf(node),
        ({ length }) => length === wanted.length,
      )
      assert.deepEqual(found, wanted)
      await other.terminate()

      await agent.terminate()
      await node.must(process.execPath, join(treeRoot, 'dist/agent.js'), '--cleanup')
      assert.deepEqual(await foreignChains(node), foreign)
      assert.deepEqual(
        (await linesOf(node)).filter((line) => ours.test(line)),
        [],
      )
    })
})

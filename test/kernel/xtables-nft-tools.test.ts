// iptables-nft beside Viaduct in the same tables: each reads what the other writes, and keeps what is not its own.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import {
  hasLateComment,
  type XtHook,
  type XtOp,
  type XtRule,
  type XtTableName,
  type Xtables,
} from '../../src/kernel/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { ruleKinds } from '../contract/xtables-kinds.js'
import {
  openRealNftSubject,
  runTool,
  saveTool,
  type XtablesOfTool,
  type XtClient,
  type XtSubject,
} from '../contract/xtables-subjects.js'
import { mustRun } from '../support/processes.js'

requireFreshNamespace()

const jump: XtRule = { comment: 'service portals', target: { kind: 'jump', chain: 'KUBE-A' } }
const mark: XtRule = { target: { kind: 'mark', value: 0x4000, mask: 0x4000 } }
const hook = (chain: XtHook, ...rules: readonly XtRule[]): XtOp => ({ op: 'set-hook', chain, rules })
const set = (chain: string, ...rules: readonly XtRule[]): XtOp => ({ op: 'set-chain', chain, rules })
const to = (chain: string): XtRule => ({ target: { kind: 'jump', chain } })
const nothing = { missing: [], changed: [] }

const nft = async (words: string): Promise<string> => await mustRun(['sh', '-c', `nft ${words}`])

/** Expects that an apply writes nothing. */
async function assertAdopted(xtables: Xtables, ops: readonly XtOp[]): Promise<void> {
  const before = await nft('list ruleset')
  assert.equal((await xtables.apply(ops)).isWritten, false)
  assert.deepEqual(await xtables.compare(), nothing)
  assert.equal(await nft('list ruleset'), before)
}

for (const family of ['ipv4', 'ipv6'] as const) {
  describe(`iptables-nft beside Viaduct, ${family}`, () => {
    let namespace: XtSubject
    let client: XtClient

    beforeEach(async () => {
      namespace = await openRealNftSubject()
      client = namespace.open()
    })
    afterEach(async () => {
      await client.close()
      await namespace.close()
    })
    const tool = (table: XtTableName): XtablesOfTool => ({ family, table, flavour: 'nft' })
    const nftFamily = family === 'ipv4' ? 'ip' : 'ip6'
    const restore = family === 'ipv4' ? 'iptables-nft-restore' : 'ip6tables-nft-restore'

    for (const table of ['nat', 'filter', 'mangle', 'raw'] as const) {
      const kinds = ruleKinds(family, table)
      const ops = [set('VIADUCT-TARGET'), set('VIADUCT-RULES', ...kinds.map(({ rule }) => rule))]
      // The comment of a jump is one of nf_tables here, and a match by the tool.
      const sameKinds = kinds.filter(({ rule }) => rule.comment === undefined || !hasLateComment(rule.target))
      const sameOps = [set('VIADUCT-TARGET'), set('VIADUCT-RULES', ...sameKinds.map(({ rule }) => rule))]

      it(`${table}: the tool finds every kind of rule that Viaduct writes`, async () => {
        await client.xtables(family, table).apply(ops)
        // The tool itself writes other bytes after an IPv4 --mask, and after a list name that is shorter than its default, DEFAULT.
        const found = kinds.filter(({ rule: { recent } }) => recent === undefined || recent.list.length > 7)
        for (const { text } of found)
          await runTool(tool(table), `-C VIADUCT-RULES ${text.replace(/ --mask \S+/, '')}`)
      })

      it(`${table}: Viaduct adopts every kind of rule that the tool writes`, async () => {
        for (const chain of ['VIADUCT-TARGET', 'VIADUCT-RULES']) await runTool(tool(table), `-N ${chain}`)
        for (const { text } of sameKinds) await runTool(tool(table), `-A VIADUCT-RULES ${text}`)
        await assertAdopted(client.xtables(family, table), sameOps)
      })

      it(`${table}: Viaduct adopts its rules after the tool has saved and restored them`, async () => {
        await client.xtables(family, table).apply(sameOps)
        const saved = await saveTool(tool(table))
        await mustRun(['sh', '-c', `${restore} --noflush <<'EOF'\n${saved}EOF\n`])
        assert.equal(await saveTool(tool(table)).then(rulesOf), rulesOf(saved))
        await assertAdopted(namespace.open().xtables(family, table), sameOps)
      })
    }

    it('writes a jump again whose comment is a match of the tool, and the tool reads the same', async () => {
      const ops = [set('KUBE-A'), hook('INPUT', jump)]
      await runTool(tool('filter'), '-N KUBE-A')
      await runTool(tool('filter'), '-A INPUT -m comment --comment "service portals" -j KUBE-A')
      const saved = await saveTool(tool('filter')).then(rulesOf)
      assert.equal((await client.xtables(family, 'filter').apply(ops)).isWritten, true)
      assert.equal(await saveTool(tool('filter')).then(rulesOf), saved)
      assert.match(await nft('list ruleset'), /jump KUBE-A comment "service portals"/u)
      await assertAdopted(namespace.open().xtables(family, 'filter'), ops)
    })

    it('creates the base chains that it needs as the tool creates them, and no others', async () => {
      const tables = {
        nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
        mangle: ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'],
        filter: ['INPUT', 'FORWARD', 'OUTPUT'],
        raw: ['PREROUTING', 'OUTPUT'],
      } as const
      for (const table of ['nat', 'filter', 'mangle', 'raw'] as const) {
        const xtables = client.xtables(family, table)
        await xtables.apply([set('KUBE-A', mark)])
        const alone = await nft(`list table ${nftFamily} ${table}`)
        assert.doesNotMatch(alone, /hook/)
        await xtables.apply([set('KUBE-A'), ...tables[table].map((chain) => hook(chain, jump))])
        const ours = await hooksOf(table)
        await nft('flush ruleset')
        for (const chain of tables[table]) await runTool(tool(table), `-A ${chain} -j ACCEPT`)
        assert.deepEqual(ours, await hooksOf(table))
        assert.equal(ours.length, tables[table].length)
      }
    })

    /** The lines of nft(8) that describe the base chains of a table. */
    async function hooksOf(table: XtTableName): Promise<readonly string[]> {
      const text = await nft(`list table ${nftFamily} ${table}`)
      return text
        .split('\n')
        .filter((line) => line.includes('hook'))
        .toSorted()
    }

    it('changes nothing of other programs, and nothing of rules that it cannot read', async () => {
      const filter = tool('filter')
      await runTool(filter, '-P FORWARD DROP')
      await runTool(filter, '-N DOCKER')
      await runTool(filter, '-A DOCKER -m limit --limit 5/sec -j LOG --log-prefix "docker: "')
      for (const chain of ['FORWARD', 'OUTPUT']) await runTool(filter, `-A ${chain} -j DOCKER`)
      await nft(`add chain ${nftFamily} filter OTHER`)
      await nft(`add rule ${nftFamily} filter OTHER ct state new meta mark set 7 counter packets 5 bytes 50`)
      const before = await nft('-a list ruleset')
      const xtables = client.xtables(family, 'filter')
      await xtables.apply([set('KUBE-A', mark), hook('FORWARD', jump), hook('OUTPUT', jump)])
      const after = await nft('-a list ruleset')
      for (const line of before.split('\n')) assert.ok(after.includes(line), line)
      await xtables.apply([hook('FORWARD'), hook('OUTPUT'), { op: 'remove-chain', chain: 'KUBE-A' }])
      assert.equal(await nft('-a list ruleset'), before)
    })

    // Before, the kernel refused the whole transaction with EBUSY, and no chain went.
    it('removes the other chains if an element of a map jumps to one, which stays empty', async () => {
      const xtables = client.xtables(family, 'nat')
      await xtables.apply([
        set('KUBE-SVC-A', mark),
        set('KUBE-SVC-B', mark),
        hook('OUTPUT', to('KUBE-SVC-A')),
      ])
      const map = `${nftFamily} nat mine`
      const element = `${map} '{ 80 : jump KUBE-SVC-A }'`
      await nft(`add map ${map} '{ type inet_service : verdict; }'`)
      await nft(`add element ${element}`)
      const next = namespace.open().xtables(family, 'nat')
      const ops = [set('KUBE-B', mark), hook('OUTPUT')]
      const prune = ['KUBE-SVC-*']
      const outcome = await next.apply(ops, { prune })
      assert.deepEqual([outcome.isWritten, outcome.kept], [true, [{ chain: 'KUBE-SVC-A' }]])
      const listed = await nft(`list table ${nftFamily} nat`)
      assert.deepEqual(listed.match(/chain KUBE\S+/g), ['chain KUBE-SVC-A', 'chain KUBE-B'])
      assert.match(listed, /chain KUBE-SVC-A \{\n\t\}/)
      assert.deepEqual(await next.compare(), nothing)
      assert.equal((await next.apply([])).isWritten, false)
      await nft(`delete element ${element}`)
      assert.deepEqual((await next.apply([])).kept, [])
      assert.doesNotMatch(await nft(`list table ${nftFamily} nat`), /KUBE-SVC/)
    })

    // ip6tables-nft 1.8.9 sets no counters, so nft sets them.
    it('rules that stay or move keep their counters', async () => {
      const table = `${nftFamily} nat`
      await runTool(tool('nat'), '-P OUTPUT ACCEPT')
      for (const chain of ['KUBE-A', 'KUBE-B']) await runTool(tool('nat'), `-N ${chain}`)
      await nft(`add rule ${table} KUBE-A counter packets 5 bytes 500 accept`)
      await nft(`add rule ${table} KUBE-A meta l4proto udp counter packets 6 bytes 600 return`)
      await nft(`add rule ${table} OUTPUT counter packets 7 bytes 700 accept`)
      await nft(`add rule ${table} OUTPUT counter packets 8 bytes 800 jump KUBE-A`)
      const accept: XtRule = { target: { kind: 'accept' } }
      const leave: XtRule = { protocol: 'udp', target: { kind: 'return' } }
      const xtables = client.xtables(family, 'nat')
      const ops = [
        set('KUBE-A', leave, accept, leave),
        set('KUBE-B'),
        hook('OUTPUT', to('KUBE-B'), to('KUBE-A')),
      ]
      assert.equal((await xtables.apply(ops)).isWritten, true)
      const listed = await nft(`list table ${table}`)
      assert.deepEqual(listed.match(/counter packets .*/g), [
        'counter packets 0 bytes 0 jump KUBE-B',
        'counter packets 8 bytes 800 jump KUBE-A',
        'counter packets 7 bytes 700 accept',
        'counter packets 6 bytes 600 return',
        'counter packets 5 bytes 500 accept',
        'counter packets 0 bytes 0 return',
      ])
      assert.deepEqual([...(await xtables.packets(['KUBE-A', 'OUTPUT']))], [[6, 5, 0], []])
    })
  })
}

/** The lines of iptables-save that are no comments. */
function rulesOf(saved: string): string {
  return saved.replaceAll(/^#.*\n?/gm, '')
}

// Issue 35, B2: a saved ruleset with Viaduct's table was silent until the next boot.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { filesWithTable, openConflicts, reportSavedTables, type SavedFiles } from '../../../src/host/index.js'
import { MemoryLog } from '../../support/pipeline-lab.js'

function filesOf(texts: Readonly<Record<string, string>>): SavedFiles {
  const names = Object.keys(texts)
  return {
    read: async (path) => await Promise.resolve(texts[path]),
    list: async (folder) =>
      await Promise.resolve(
        names.filter((name) => name.startsWith(`${folder}/`)).map((name) => name.slice(folder.length + 1)),
      ),
  }
}

const firewall = 'flush ruleset\ntable inet filter {\n}\n'
const saved = 'table ip6 kube-proxy {\n\tcomment "rules for Services"\n}\n'

describe('a saved ruleset', () => {
  const cases: readonly {
    readonly name: string
    readonly texts: Record<string, string>
    readonly found: readonly string[]
  }[] = [
    { name: 'without files', texts: {}, found: [] },
    {
      name: 'with other tables',
      texts: { '/etc/nftables.conf': `${firewall}# table ip kube-proxy {\n` },
      found: [],
    },
    {
      name: 'with the table',
      texts: { '/etc/nftables.conf': firewall + saved },
      found: ['/etc/nftables.conf'],
    },
    {
      name: 'with the table in an included file',
      texts: {
        '/etc/sysconfig/nftables.conf': 'include "/etc/nftables/*.nft"\n',
        '/etc/nftables/all.nft': saved,
        '/etc/nftables/other.txt': saved,
      },
      found: ['/etc/nftables/all.nft'],
    },
    {
      name: 'with files that include each other',
      texts: {
        '/etc/nftables.conf': 'include "/etc/a"\n',
        '/etc/a': 'include "/etc/nftables.conf"\nadd table ip kube-proxy\n',
      },
      found: ['/etc/a'],
    },
  ]
  for (const { name, texts, found } of cases)
    it(name, async () => assert.deepEqual(await filesWithTable(filesOf(texts)), found))

  it('is reported once, and its end', async () => {
    const log = new MemoryLog()
    const conflicts = openConflicts(log)
    const files = filesOf({ '/etc/nftables.conf': saved })
    await reportSavedTables(conflicts, files)
    await reportSavedTables(conflicts, files)
    await reportSavedTables(conflicts, filesOf({}))
    assert.deepEqual(
      log.lines.map(({ level }) => level),
      ['warn', 'info'],
    )
    assert.match(
      log.lines[0]?.message ?? '',
      /\/etc\/nftables\.conf, which nftables\.service loads, has Viaduct's table/u,
    )
  })
})

// The shipped agent in iptables mode of the flavour nft, whose ruleset is saved with nft and loaded at boot, by the nft of three Debian
// releases; and an agent after one of a former version, whose rules nft did not load.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { nftSuites } from '../support/nft-versions.js'
import { hostTables, SavedLab } from '../traffic/saved-lab.js'
import { assertServed, type SwitchLab } from '../traffic/switch-lab.js'

const always = ['--iptables-flavour=nft', '--iptables-sync-period=1h'] as const
/** KUBE-FIREWALL is kubelet's; its rule has the match `comment`. */
const withoutGuard = [...always, '--iptables-localhost-nodeports=false'] as const

const ownTables = ['ip', 'ip6'] as const

describe('iptables mode of the flavour nft, saved with nft', { timeout: 240_000 }, () => {
  let saved: SavedLab
  let lab: SwitchLab

  before(async () => {
    saved = await SavedLab.create({
      mode: 'iptables',
      flags: withoutGuard,
      services: ['web', 'dead', 'self', 'sticky'],
    })
    lab = saved.lab
    for (const tool of ['iptables-nft', 'ip6tables-nft']) await lab.node.must(tool, '-P', 'FORWARD', 'DROP')
    await saved.start()
    await lab.startLoad()
  })

  after(async () => await saved.close())

  /** Rules and chains as iptables-nft reads them, without counters. */
  async function save(): Promise<string> {
    const texts = await Promise.all(
      ['iptables-nft-save', 'ip6tables-nft-save'].map((tool) => lab.node.must(tool)),
    )
    return texts
      .flatMap((text) => text.split('\n'))
      .filter((line) => !line.startsWith('#'))
      .map((line) => line.replace(/ \[\d+:\d+\]$/u, ''))
      .join('\n')
  }

  for (const suite of nftSuites)
    for (const option of ['', '-s', '-n'])
      it(`${suite}: loads what nft ${option} list ruleset prints`.replace('  ', ' '), async () => {
        const listing = await saved.list(suite, ...(option === '' ? [] : [option]))
        assert.match(listing, /dport 32013 /u)
        const own = await saved.listOwn(suite)
        for (const first of ['', hostTables]) {
          const loaded = await saved.loadElsewhere(suite, first + listing)
          assert.deepEqual([loaded.code, loaded.stderr], [0, ''], listing)
          assert.equal(loaded.stdout.trim(), own)
        }
      })

  it('after a former version, whose chains compare source and destination with bpf: no connection fails', async () => {
    await saved.stop()
    const wanted = await save()
    await makeFormer(lab)
    assertServed(await lab.during(async () => {}))
    assert.notEqual(await save(), wanted)
    const written = await saved.startSeen('bookworm')
    assert.equal(await save(), wanted)
    for (const family of ownTables) {
      const marked = written.findLastIndex((line) =>
        line.includes(`add rule ${family} kube-proxy filter-forward`),
      )
      const compared = written.findIndex((line) =>
        line.startsWith(`delete rule ${family} nat KUBE-POSTROUTING`),
      )
      assert.ok(marked >= 0 && compared > marked, `${marked} ${compared}`)
    }
    for (const suite of nftSuites)
      assert.equal((await saved.loadElsewhere(suite, await saved.list(suite))).stderr, '')
  })

  it("with kubelet's guard of loopback addresses, only nft 1.1.7 does not load it: for the comment of its rule", async () => {
    await saved.stop()
    await saved.start(always)
    for (const suite of nftSuites) {
      const { stderr } = await saved.loadElsewhere(suite, await saved.list(suite))
      const errors = stderr.split('\n').filter((line) => line.includes('Error'))
      const refused = stderr.split('\n').filter((line) => line.includes('comment'))
      assert.equal(errors.length, suite === 'sid' ? 1 : 0, stderr)
      for (const line of refused) assert.match(line, /comment "block incoming localnet connections" ct/u)
    }
    await saved.stop()
    // The chain stays, since kubelet has it too.
    for (const words of [
      '-D INPUT -j KUBE-FIREWALL',
      '-D OUTPUT -j KUBE-FIREWALL',
      '-F KUBE-FIREWALL',
      '-X KUBE-FIREWALL',
    ])
      await lab.node.must('iptables-nft', ...words.split(' '))
    await saved.start()
  })

  // Last, and in this order: nft 1.0.6 crashes at a listing of the anonymous sets that nft 1.1.3 and later made.
  for (const suite of nftSuites)
    it(`${suite}: the copy serves; the agent writes what iptables does not read, and nothing in its own table`, async () => {
      const whole = await save()
      const listing = await saved.list(suite)
      assertServed(await lab.during(async () => await saved.boot(suite, listing)))
      const written = await saved.startSeen(suite)
      assert.deepEqual(
        written.filter((line) => line.includes('kube-proxy')),
        [],
      )
      assert.equal(await save(), whole)
      assert.match(await saved.list(suite), /table inet host/u)
    })

  it('the agent removes what is stale in the copy', async () => {
    await saved.boot('sid', await saved.list('sid'))
    await saved.assertStaleGoes()
  })
})

/** The program of a former version: source and destination are equal. */
const bytecode = {
  ip: '6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 4294967295,6 0 0 0',
  ip6: [
    '18,32 0 0 8,7 0 0 0,32 0 0 24,29 0 13 0,32 0 0 12,7 0 0 0,32 0 0 28,29 0 9 0',
    '32 0 0 16,7 0 0 0,32 0 0 32,29 0 5 0,32 0 0 20,7 0 0 0,32 0 0 36,29 0 1 0,6 0 0 4294967295,6 0 0 0',
  ].join(),
} as const

/** Turns the rules of a stopped agent into those of the former version: bpf, comments as matches, no marks by the table. */
async function makeFormer({ node }: SwitchLab): Promise<void> {
  for (const family of ownTables) {
    const tool = family === 'ip' ? 'iptables-nft' : 'ip6tables-nft'
    const hairpin = `-m conntrack --ctstate DNAT -m bpf --bytecode "${bytecode[family]}"`
    const script = [
      // The tool writes the comments of jumps as matches.
      `${tool}-save | ${tool}-restore`,
      `${tool} -t nat -A KUBE-POSTROUTING ${hairpin} -j KUBE-MARK-MASQ`,
      `${tool} -t nat -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN`,
      `${tool} -t nat -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000`,
      `${tool} -t nat -A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully`,
      `${tool} -A KUBE-FORWARD ${hairpin} -j ACCEPT`,
    ]
    await node.must('sh', '-e', '-c', script.join('\n'))
    const change = [
      `flush chain ${family} kube-proxy filter-forward`,
      `add rule ${family} kube-proxy filter-forward ct state new jump service-endpoints-check`,
      ...['nat-postrouting', 'masquerading', 'hairpin-marking'].flatMap((chain) => [
        `flush chain ${family} kube-proxy ${chain}`,
        `delete chain ${family} kube-proxy ${chain}`,
      ]),
    ]
    await node.must('nft', change.join('; '))
  }
}

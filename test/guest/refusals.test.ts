// The agent names a missing requirement in one sentence and exits. Runs in the guest, before IP_VS and x_tables are loaded.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { withoutModules } from '../support/kernel-modules.js'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'
import { agentCommand } from '../traffic/agent-process.js'

const xTables = /^ip6?_tables /m
const shop = join(treeRoot, 'examples/shop')
/** Arguments for ipvs mode without a fallback. */
const ipvsAlone = ['--manifests', shop, '--mode-fallback=false']
const withoutNetAdmin = ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-net_admin']

let node: Namespace

/** Expects the exit code and exactly one line on standard error, which matches `words`. */
async function expectRefusal(
  expected: { code: number; words: RegExp },
  command: readonly string[],
): Promise<void> {
  const { code, stdout, stderr } = await node.run(...command)
  assert.equal(code, expected.code, `${stdout}\n${stderr}`)
  const sentences = stderr.split('\n').filter((line) => line !== '')
  assert.equal(sentences.length, 1, stderr)
  assert.match(sentences[0] ?? '', expected.words)
}

describe('what the agent refuses', { timeout: 300_000 }, () => {
  before(async () => (node = await Namespace.create('node-a')))
  after(() => node.close())

  it('a kernel without IP_VS', async () => {
    assert.doesNotMatch(
      await readFile('/proc/modules', 'utf8'),
      /^ip_vs /m,
      'this file runs before IP_VS is loaded',
    )
    await withoutModules('*', () =>
      expectRefusal({ code: 1, words: /IP_VS.*modprobe ip_vs/ }, agentCommand(...ipvsAlone)),
    )
  })

  it('nothing with a fallback: without IP_VS it runs in iptables mode and logs a warning', () =>
    withoutModules('*IPVS*|*ipvs*|*ip_vs*|*nfnetlink-subsys-6*|*ip_set*', async () => {
      assert.doesNotMatch(
        await readFile('/proc/modules', 'utf8'),
        xTables,
        'this case comes before x_tables are loaded',
      )
      const agent = node.start(...agentCommand('--manifests', shop, '-v', '2'))
      await agent.line((line) =>
        /"level":"warn".*Proxy mode falls back: iptables .*modprobe ip_vs/.test(line),
      )
      await agent.line((line) => /"mode":"iptables".*viaduct starts/.test(line))
      // No program has used iptables on this node. The agent does not run modprobe: the kernel loads the modules on request.
      await agent.line((line) => /"complete":true.*"Sync done"/.test(line))
      assert.match(await readFile('/proc/modules', 'utf8'), xTables)
      agent.signal('SIGTERM')
      assert.equal((await agent.ended).code, 0)
    }))

  const lacking = [
    {
      what: 'ipset',
      modules: '*nfnetlink-subsys-6*|*ip_set*',
      words: /no ipset.*modprobe -a ip_set xt_set /,
    },
    { what: 'a type of set', modules: '*ip_set_bitmap*', words: /load the module ip_set_bitmap_port/ },
    {
      what: 'dummy devices, for addresses',
      modules: '*dummy*',
      flags: ['--vip-binding', 'addresses'],
      words: /load the module dummy/,
    },
  ]
  for (const { what, modules, flags = [], words } of lacking) {
    it(`a kernel without ${what}`, () =>
      withoutModules(modules, () => expectRefusal({ code: 1, words }, agentCommand(...ipvsAlone, ...flags))))
  }

  it('a process without CAP_NET_ADMIN', async () => {
    await expectRefusal({ code: 1, words: /CAP_NET_ADMIN/ }, [
      ...withoutNetAdmin,
      ...agentCommand('--manifests', shop),
    ])
  })

  it('a scheduler that the kernel does not have', async () => {
    const command = agentCommand(...ipvsAlone, '--ipvs-scheduler', 'nosuch')
    await expectRefusal({ code: 1, words: /scheduler.*nosuch|nosuch.*scheduler/ }, command)
  })
})

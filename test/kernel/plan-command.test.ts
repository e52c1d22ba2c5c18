// `viaduct plan` and `viaduct diff` of the shipped program.
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { treeRoot } from '../support/tree.js'
import { writeRecordedRules } from '../traffic/reference/recorded-rules.js'
import { AgentProcess } from '../traffic/agent-process.js'

const program = join(treeRoot, 'dist/agent.js')
const manifests = join(treeRoot, 'examples/shop')
const clusterCidr = '--cluster-cidr=10.244.0.0/16,fd00:10:244::/56'

describe('viaduct plan', { timeout: 60_000 }, () => {
  let node: Namespace
  before(async () => (node = await Namespace.create('node')))
  after(async () => await node.close())

  const plan = async (...more: readonly string[]) =>
    await node.run(
      process.execPath,
      program,
      'plan',
      `--manifests=${manifests}`,
      '--hostname-override=node-a',
      ...more,
    )

  it('prints the counts, then the commands of each tool', async () => {
    const { code, stdout } = await plan('--proxy-mode=nftables', clusterCidr)
    assert.equal(code, 0)
    const [head = '', ...sections] = stdout.split('\n\n')
    assert.match(
      head,
      /^mode: nftables\nsysctl: 2 changed\nnft: \d+ added\nwhile the agent runs: conntrack 2$/u,
    )
    assert.deepEqual(
      sections.map((section) => section.split('\n')[0]),
      ['# sysctl', '# nft -f -', '# conntrack'],
    )
    assert.match(stdout, /^add element ip kube-proxy cluster-ips \{ 10\.96\.0\.10 \}$/mu)
  })

  it('prints values, and only the counts with --summary', async () => {
    const { code, stdout } = await plan('-o', 'json', '--summary', '--proxy-mode=userspace', clusterCidr)
    assert.equal(code, 0)
    const report: Readonly<Record<string, unknown>> = JSON.parse(stdout)
    assert.deepEqual(Object.keys(report), [
      'mode',
      'hasChanges',
      'modulesNotLoaded',
      'counts',
      'whileRunning',
    ])
    assert.deepEqual([report['mode'], report['hasChanges']], ['userspace', true])
  })

  it('writes all of a long output into a pipe', async () => {
    await writeRecordedRules(node, 'nft')
    await writeRecordedRules(node, 'legacy')
    const { code, stdout } = await plan(
      '-o',
      'json',
      '--proxy-mode=iptables',
      '--iptables-flavour=nft',
      clusterCidr,
    )
    assert.equal(code, 0)
    assert.ok(stdout.length > 65_536, `${stdout.length} characters fit into a pipe`)
    const report: { readonly operations: readonly unknown[] } = JSON.parse(stdout)
    assert.ok(report.operations.length > 200)
  })

  const mistakes = [
    [['--bogus'], 2, /^viaduct: unknown flag --bogus \(see viaduct help plan\)\n$/u],
    [['--timeout=soon'], 2, /^viaduct: --timeout: "soon" is not a number of seconds above 0/u],
    [['-o', 'xml'], 2, /^viaduct: option '-o, --output <FORMAT>' argument 'xml' is invalid/u],
    [['--manifests=/nowhere'], 1, /^viaduct: .*\/nowhere/u],
  ] as const
  for (const [words, expected, sentence] of mistakes)
    it(`ends with ${expected} for ${words.join(' ')}`, async () => {
      const { code, stdout, stderr } = await plan(...words)
      assert.deepEqual([code, stdout], [expected, ''])
      assert.match(stderr, sentence)
    })
})

describe('viaduct diff', { timeout: 120_000 }, () => {
  let node: Namespace
  let empty: Namespace
  let folder: string
  let agent: AgentProcess

  before(async () => {
    node = await Namespace.create('node')
    empty = await Namespace.create('empty')
    folder = await mkdtemp(join(tmpdir(), 'viaduct-diff-'))
    const flags = [clusterCidr, `--control-socket=${join(folder, 'socket')}`]
    agent = AgentProcess.start({ node, manifests, mode: 'nftables', flags })
    await agent.line(/Control socket listens/u, 0)
  })
  after(async () => {
    assert.equal((await agent.terminate()).code, 0)
    await node.close()
    await empty.close()
    await rm(folder, { recursive: true })
  })

  const diff = async (namespace: Namespace, ...more: readonly string[]) =>
    await namespace.run(process.execPath, program, 'diff', `--socket=${join(folder, 'socket')}`, ...more)

  it('finds no difference in the kernel of the agent', async () => {
    const { code, stdout } = await diff(node)
    assert.deepEqual([code, stdout], [0, 'mode: nftables\nno difference'])
  })

  it('finds a setting that another program changed', async () => {
    const setting = 'net.netfilter.nf_conntrack_tcp_timeout_established'
    await node.must('sysctl', '-w', `${setting}=100`)
    const { code, stdout } = await diff(node)
    assert.deepEqual([code, stdout], [1, `mode: nftables\nsysctl: 1 changed\n\n+ sysctl -w ${setting}=86400`])
  })

  it('names the Service of each object: everything is missing in another namespace', async () => {
    const { code, stdout } = await diff(empty)
    assert.equal(code, 1)
    const owned = '+ nft add element ip kube-proxy cluster-ips { 10.96.0.10 }   # kube-system/kube-dns:'
    assert.ok(stdout.includes(owned), stdout)
    assert.match(stdout, /^\+ nft add chain ip kube-proxy services$/mu)
  })

  it('takes no flags of the agent', async () => {
    const { code, stderr } = await diff(node, '--proxy-mode=ipvs')
    assert.equal(code, 2)
    assert.match(
      stderr,
      /^viaduct: unexpected argument "--proxy-mode=ipvs": diff takes no flags of the agent/u,
    )
  })

  it('ends with 3 without an agent', async () => {
    const { code } = await node.run(process.execPath, program, 'diff', `--socket=${join(folder, 'none')}`)
    assert.equal(code, 3)
  })
})

// `viaduct plan` and `viaduct diff` of the shipped program.
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Namespace } from '../support/namespaces.js'
import { olderSlice } from '../support/older-services.js'
import { orderOfWrites } from '../support/system-call-trace.js'
import { treeRoot } from '../support/tree.js'
import { writeRecordedRules } from '../traffic/reference/recorded-rules.js'
import { AgentProcess } from '../traffic/agent-process.js'

const program = join(treeRoot, 'dist/agent.js')
const manifests = join(treeRoot, 'examples/shop')
const clusterCidr = '--cluster-cidr=10.244.0.0/16,fd00:10:244::/56'

const list = (spec: object): object => ({
  apiVersion: 'v1',
  kind: 'List',
  items: [
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'a', namespace: 'shop' },
      spec: { ...spec, ports: [{ port: 80 }] },
    },
  ],
})

describe('viaduct plan', { timeout: 60_000 }, () => {
  let node: Namespace
  let folder: string
  before(async () => {
    node = await Namespace.create('node')
    folder = await mkdtemp(join(tmpdir(), 'viaduct-plan-'))
  })
  after(async () => {
    await node.close()
    await rm(folder, { recursive: true })
  })

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
      /^mode: nftables\nsysctl: 2 changed\nnft: \d+ added\nwhile the agent runs: conntrack 2(?:\nthis process may not write: sysctl -w net\.netfilter\.nf_conntrack_max=\d+)?$/u,
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
      'refusedSettings',
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

  const calls = 'write,pwrite64,sendmsg,sendto,setsockopt,init_module,finit_module,execve'
  // -y names the file of a descriptor.
  const options = ['-f', '-y', '--seccomp-bpf', '-v', '-s', '32', '-e', `trace=${calls}`]
  for (const mode of ['nftables', 'iptables', 'ipvs', 'userspace'])
    it(`sends the kernel no request that writes, in ${mode} mode`, async () => {
      const trace = join(folder, `trace-${mode}`)
      const { code } = await node.run(
        'strace',
        ...options,
        '-o',
        trace,
        process.execPath,
        program,
        'plan',
        `--manifests=${manifests}`,
        '--hostname-override=node-a',
        `--proxy-mode=${mode}`,
        clusterCidr,
        '--summary',
      )
      assert.equal(code, 0)
      const traced = await readFile(trace, 'utf8')
      assert.equal(traced.match(/ execve\(/gu)?.length, 1)
      // The call that starts the program lists the environment, with any words.
      const text = traced.replace(/^.* execve\(.*$/mu, '')
      // It reads x_tables or nf_tables.
      assert.match(text, /NFNL_SUBSYS|nfnl|NETLINK_NETFILTER/u)
      assert.deepEqual(orderOfWrites(text), { IPv4: [], IPv6: [] })
      const others = text
        .split('\n')
        .filter((line) =>
          / (?:write|pwrite64)\(\d+<\/(?:proc|sys)|init_module|IPSET_CMD_(?!PROTOCOL|LIST|TYPE)/u.test(line),
        )
      assert.deepEqual(others, [])
    })

  it('says why another mode runs, as the agent does at its start', async () => {
    const { stdout } = await plan('--proxy-mode=ipvs', '--iptables-flavour=legacy', '--summary', clusterCidr)
    const planned = /^mode: (?<mode>.*)\nfallback: (?<note>.*)$/mu.exec(stdout)?.groups
    // This machine's kernel has no IP_VS.
    assert.match(planned?.['note'] ?? stdout, /^iptables mode.* runs instead: ipvs mode .*no IP_VS/u)
    const json = await plan(
      '--proxy-mode=ipvs',
      '--iptables-flavour=legacy',
      '--summary',
      '-o',
      'json',
      clusterCidr,
    )
    const report: Readonly<Record<string, unknown>> = JSON.parse(json.stdout)
    assert.equal(report['fallback'], planned?.['note'])
    const agent = AgentProcess.start({ node, manifests, mode: 'ipvs', flags: [clusterCidr] })
    const line = await agent.line(/Proxy mode falls back/u, 0)
    await agent.terminate()
    assert.ok(line.includes(JSON.stringify(`Proxy mode falls back: ${planned?.['note'] ?? ''}`)), line)
  })

  const inputs = [
    ['an empty folder', {}, [/DIR: is empty/u]],
    ['broken YAML', { 'a.yaml': 'kind: {\n' }, [/DIR\/a\.yaml, line 2, column 1: /u]],
    [
      'a file without an object',
      { 'a.yaml': 'hello: world' },
      [/DIR\/a\.yaml: document 1: apiVersion: is missing/u],
    ],
    ['a binary file', { 'a.yaml': 'a\u0000' }, [/DIR\/a\.yaml, line 1, column 2: null byte/u]],
    [
      'a List with a wrong Service',
      { 'a.yaml': JSON.stringify(list({ clusterIP: '10.96.0.999' })) },
      [/DIR\/a\.yaml: document 1, item 1 \(Service shop\/a\): spec\.clusterIP: must be an IP address/u],
    ],
  ] as const
  for (const [name, files, sentences] of inputs)
    it(`ends at once with 1 for ${name}, and names the file and the object`, async () => {
      const own = await mkdtemp(join(folder, 'manifests-'))
      for (const [file, text] of Object.entries(files)) await writeFile(join(own, file), text)
      const { code, stdout, stderr } = await plan(`--manifests=${own}`, '--proxy-mode=nftables', clusterCidr)
      assert.deepEqual([code, stdout], [1, ''])
      const lines = stderr.replaceAll(own, 'DIR').trimEnd().split('\n')
      assert.equal(
        lines.at(-1),
        'viaduct: some objects cannot be read, so the plan would not be complete: see the errors above',
      )
      for (const sentence of sentences) assert.match(lines.join('\n'), sentence)
      assert.ok(!stderr.includes('cannot be changed'), stderr)
    })

  it('takes a List, a file that is no manifest, and an EndpointSlice without a Service, and waits for no Node', async () => {
    const own = await mkdtemp(join(folder, 'manifests-'))
    await writeFile(join(own, 'a.json'), JSON.stringify(list({ clusterIP: '10.96.0.99' })))
    await writeFile(join(own, 'README.txt'), 'not a manifest {')
    await writeFile(join(own, 'slice.yaml'), olderSlice)
    const { code, stdout } = await plan(
      `--manifests=${own}`,
      '--proxy-mode=nftables',
      '--nodeport-addresses=primary',
      // The wait of an agent for its Node is longer.
      '--timeout=25',
      clusterCidr,
    )
    assert.equal(code, 0)
    assert.match(stdout, /^add element ip kube-proxy cluster-ips \{ 10\.96\.0\.99 \}$/mu)
    assert.ok(!stdout.includes('10.99.1.9'), stdout)
  })

  const mistakes = [
    [['--bogus'], 2, /^viaduct: unknown flag --bogus \(see viaduct help plan\)\n$/u],
    [['--timeout=soon'], 2, /^viaduct: --timeout: "soon" is not a number of seconds above 0/u],
    [['-o', 'xml'], 2, /^viaduct: option '-o, --output <FORMAT>' argument 'xml' is invalid/u],
    [
      ['--manifests=/nowhere'],
      1,
      /Manifest is not applied: \/nowhere: does not exist.*^viaduct: some objects cannot be read/msu,
    ],
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
    const { code, stdout, stderr } = await diff(node)
    // The running agent has logged the warnings of its start.
    assert.deepEqual([code, stdout, stderr], [0, 'mode: nftables\nno difference', ''])
  })

  it('finds a setting that another program changed', async () => {
    const setting = 'net.netfilter.nf_conntrack_tcp_timeout_established'
    await node.must('sysctl', '-w', `${setting}=100`)
    const { code, stdout } = await diff(node)
    assert.deepEqual([code, stdout], [1, `mode: nftables\nsysctl: 1 changed\n\n+ sysctl -w ${setting}=86400`])
  })

  it('finds no difference after the repair', async () => {
    await node.must('sysctl', '-w', 'net.netfilter.nf_conntrack_tcp_timeout_established=86400')
    const { code, stdout } = await diff(node)
    assert.deepEqual([code, stdout], [0, 'mode: nftables\nno difference'])
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

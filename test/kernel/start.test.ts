// Starts of the shipped agent in iptables mode on this machine's kernel: what it waits for, its IP families and its rights.
import assert from 'node:assert/strict'
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { apiNode, apiService, apiSlice } from '../support/api-documents.js'
import { Namespace, setSysctls } from '../support/namespaces.js'
import type { Program } from '../support/processes.js'
import {
  netAdminAlone,
  withNetAdminAlone,
  withoutIpv6Sockets,
  withReadOnlySettings,
} from '../support/rights.js'
import { treeRoot } from '../support/tree.js'

const agentFile = join(treeRoot, 'dist/agent.js')
const serverFile = join(treeRoot, 'out/ts/test/support/fake-api-program.js')
const always = [
  '--proxy-mode',
  'iptables',
  '--iptables-flavour=legacy',
  '--hostname-override',
  'node-a',
  '-v',
  '2',
]
const withoutNetworks = { metadata: { name: 'node-a' }, spec: {} }
const web = apiService('web', '10.96.0.10')
const webSlice = apiSlice('web-1', 'web', ['10.1.0.1'])

type Kind = 'Node' | 'Service' | 'EndpointSlice'
type Document = Readonly<Record<string, unknown>>

/** The source of the agent's objects. */
interface World {
  readonly arguments: readonly string[]
  put(kind: Kind, document: Document): Promise<void>
}

let folder: string
let node: Namespace

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'viaduct-start-'))
  // Users other than root read it.
  chmodSync(folder, 0o755)
  node = await Namespace.create('node')
})

afterEach(async () => {
  await node.close()
  rmSync(folder, { recursive: true })
})

async function manifestWorld(): Promise<World> {
  const manifests = join(folder, 'manifests')
  mkdirSync(manifests)
  const versions = { Node: 'v1', Service: 'v1', EndpointSlice: 'discovery.k8s.io/v1' }
  return {
    arguments: ['--manifests', manifests],
    put: async (kind, document) => {
      const text = JSON.stringify({ apiVersion: versions[kind], kind, ...document })
      writeFileSync(join(manifests, `${kind}.json`), text)
    },
  }
}

async function apiWorld(): Promise<World> {
  const server = node.start(process.execPath, serverFile, '8001')
  const send = async (...command: readonly unknown[]): Promise<void> => {
    const line = JSON.stringify(command)
    const from = server.lines.length
    server.write(`${line}\n`)
    await server.line((text) => text === line, from)
  }
  await send('listen')
  return {
    arguments: ['--master', 'http://127.0.0.1:8001'],
    put: async (kind, document) => await send('put', kind, document),
  }
}

function start(...command: readonly string[]): Program {
  return node.start(process.execPath, agentFile, ...always, ...command)
}

async function saved(): Promise<string> {
  return await node.must('iptables-legacy-save')
}

/** `from`: the first line to look at. */
async function isInForce(agent: Program, from = 0): Promise<void> {
  const words = ['"Sync done"', '"complete":true', '"IPv4"']
  await agent.line((line) => words.every((word) => line.includes(word)), from)
}

describe('rules wait for the networks of pods', { timeout: 60_000 }, () => {
  for (const [source, open] of [
    ['manifests', manifestWorld],
    ['an API server', apiWorld],
  ] as const) {
    it(`F-080, F-084 of ${source}, and the agent ends when they change`, async () => {
      const world = await open()
      await world.put('Service', web)
      await world.put('EndpointSlice', webSlice)
      await world.put('Node', withoutNetworks)
      const agent = start('--detect-local-mode', 'NodeCIDR', ...world.arguments)
      await agent.line((line) => line.includes('viaduct starts'))
      await agent.line((line) => line.includes('The Node lacks facts that the rules need'))
      assert.doesNotMatch(await saved(), /KUBE-/u)
      await world.put('Node', apiNode('node-a', '10.244.3.0/24'))
      await isInForce(agent)
      assert.match(await saved(), /-A KUBE-SVC-\S+ ! -s 10\.244\.3\.0\/24 -d 10\.96\.0\.10\/32/u)
      const before = await saved()
      await world.put('Node', apiNode('node-a', '10.244.4.0/24'))
      const { code, stderr } = await agent.ended
      assert.equal(code, 1)
      assert.equal(stderr, 'viaduct: PodCIDRs changed for the node "node-a": a restart takes them over\n')
      assert.equal(withoutCounters(await saved()), withoutCounters(before))
    })
  }

  it('SIGTERM ends the wait at once', async () => {
    const world = await manifestWorld()
    const agent = start('--detect-local-mode', 'NodeCIDR', ...world.arguments)
    await agent.line((line) => line.includes('viaduct starts'))
    await agent.line((line) => line.includes('The Node lacks facts that the rules need'))
    agent.signal('SIGTERM')
    const { code, stderr } = await agent.ended
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
    assert.doesNotMatch(await saved(), /KUBE-/u)
  })
})

function withoutCounters(text: string): string {
  return text.replaceAll(/^[#:].*$/gmu, '')
}

describe('a node without IPv6', { timeout: 60_000 }, () => {
  beforeEach(async () => {
    await setSysctls(node, 'net.ipv6.conf.all.disable_ipv6=1')
  })

  it('F-085 is programmed for IPv4 only', async () => {
    const world = await manifestWorld()
    await world.put('Service', web)
    await world.put('EndpointSlice', webSlice)
    const agent = start(...world.arguments)
    await isInForce(agent)
    assert.match(await saved(), /--to-destination 10\.1\.0\.1:8080/u)
    assert.doesNotMatch(await node.must('ip6tables-legacy-save'), /KUBE-/u)
    agent.signal('SIGTERM')
    const { code, stdout } = await agent.ended
    assert.equal(code, 0)
    assert.match(stdout, /"level":"info".*IPv6 Services are not programmed: IPv6 is off on this node/u)
    assert.doesNotMatch(stdout, /"level":"error"/u)
  })

  it('F-085 refuses an IPv6 cluster', async () => {
    const world = await manifestWorld()
    const { code, stderr } = await start('--bind-address', 'fd00::1', ...world.arguments).ended
    assert.equal(code, 1)
    assert.equal(stderr, 'viaduct: no support for primary IP family "IPv6"\n')
    assert.doesNotMatch(await saved(), /KUBE-/u)
  })
})

/** The rules that lead from the cluster IP to the endpoint. */
function serviceRules(text: string): readonly string[] {
  return text.split('\n').filter((line) => /^-A .*KUBE-(?:SVC|SEP)-/u.test(line))
}

// Issue 35, E6: the agent ended.
describe('an agent whose IPv6 sockets are refused', { timeout: 120_000 }, () => {
  for (const [mode, ...flags] of [
    ['iptables', '--iptables-flavour=legacy'],
    ['iptables', '--iptables-flavour=nft'],
    ['nftables'],
    ['userspace'],
  ]) {
    it(`serves IPv4: ${[mode, ...flags].join(' ')}`, async () => {
      const world = await manifestWorld()
      await world.put('Service', web)
      await world.put('EndpointSlice', webSlice)
      const own = [...always, `--proxy-mode=${mode}`, ...flags, ...world.arguments]
      const agent = node.start(...withoutIpv6Sockets, process.execPath, agentFile, ...own)
      await isInForce(agent)
      agent.signal('SIGTERM')
      const { code, stdout, stderr } = await agent.ended
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
      assert.doesNotMatch(stdout, /"level":"error"/u)
      if (flags.includes('--iptables-flavour=legacy'))
        assert.match(stdout, /"level":"warn".*EAFNOSUPPORT.*IPv6 Services are not programmed/u)
    })
  }
})

// Issue 35, B9: the agent ended with 1.
describe('a manifests folder that is absent at the start', { timeout: 60_000 }, () => {
  it('keeps what is programmed, and takes over the folder when it is there', async () => {
    const world = await manifestWorld()
    await world.put('Service', web)
    await world.put('EndpointSlice', webSlice)
    const first = start(...world.arguments)
    await isInForce(first)
    first.signal('SIGTERM')
    await first.ended
    const before = serviceRules(await saved())
    assert.match(before.join('\n'), /--to-destination 10\.1\.0\.1:8080/u)

    const away = join(folder, 'away')
    renameSync(join(folder, 'manifests'), away)
    const prepared = await node.start(
      process.execPath,
      agentFile,
      ...always,
      ...world.arguments,
      '--init-only',
    ).ended
    assert.deepEqual([prepared.code, prepared.stderr], [0, ''])
    const agent = start(...world.arguments)
    await agent.line((line) => line.includes('does not exist: its objects stay in force until it is back'))
    await agent.line((line) => line.includes('"Sync done"'))
    assert.deepEqual(serviceRules(await saved()), before)
    const moved = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      ...apiSlice('web-1', 'web', ['10.1.0.2']),
    }
    writeFileSync(join(away, 'EndpointSlice.json'), JSON.stringify(moved))
    const from = agent.lines.length
    renameSync(away, join(folder, 'manifests'))
    await isInForce(agent, from)
    assert.match(await saved(), /--to-destination 10\.1\.0\.2:8080/u)
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
  })
})

describe('an agent with invalid input', { timeout: 60_000 }, () => {
  const settings = [
    'net/netfilter/nf_conntrack_tcp_timeout_established',
    'net/netfilter/nf_conntrack_tcp_timeout_close_wait',
    'net/ipv4/conf/all/route_localnet',
  ].map((path) => `/proc/sys/${path}`)
  const cluster = "{ server: 'https://127.0.0.1:1', certificate-authority: absent.crt }"
  const kubeconfig = `
current-context: here
contexts: [{ name: here, context: { cluster: here } }]
clusters: [{ name: here, cluster: ${cluster} }]
`
  const cases: readonly { name: string; flags: () => readonly string[]; code: number; words: RegExp }[] = [
    {
      name: 'an absent kubeconfig',
      flags: () => ['--kubeconfig', join(folder, 'absent')],
      code: 1,
      words: /absent: cannot be read: /u,
    },
    {
      name: 'a kubeconfig with an absent certificate',
      flags: () => ['--kubeconfig', join(folder, 'kubeconfig')],
      code: 1,
      words: /clusters\[0\]\.cluster\.certificate-authority: .*absent\.crt: cannot be read: /u,
    },
    {
      name: 'an invalid URL for --master',
      flags: () => ['--master', 'x://y'],
      code: 1,
      words: /--master: must be/u,
    },
    { name: 'no source of Services', flags: () => [], code: 1, words: /no source of Services/u },
    {
      name: 'an absent file for --config',
      flags: () => ['--config', join(folder, 'absent')],
      code: 2,
      words: /absent: cannot be read: /u,
    },
    {
      name: 'an invalid address for a server',
      flags: () => ['--manifests', folder, '--healthz-bind-address', 'nowhere'],
      code: 2,
      words: /--healthz-bind-address: must be IP:port, not "nowhere"/u,
    },
    {
      name: 'an unknown mode',
      flags: () => ['--manifests', folder, '--proxy-mode=kernelspace'],
      code: 2,
      words: /--proxy-mode: must be iptables, ipvs, nftables or userspace/u,
    },
  ]
  for (const { name, flags, code, words } of cases) {
    it(`changes nothing on the node: ${name}`, async () => {
      writeFileSync(join(folder, 'kubeconfig'), kubeconfig)
      const before = await node.must('cat', ...settings)
      for (const task of [[], ['--init-only']]) {
        const ended = await node.start(process.execPath, agentFile, ...always, ...flags(), ...task).ended
        assert.equal(ended.code, code, ended.stdout)
        assert.match(ended.stderr.trim(), words)
        assert.doesNotMatch(ended.stdout, /Kernel setting/u)
      }
      assert.equal(await node.must('cat', ...settings), before)
      assert.doesNotMatch(await node.must('iptables-legacy-save'), /KUBE/u)
    })
  }
})

describe('F-103 after --init-only', { timeout: 60_000 }, () => {
  const users = [
    { name: 'root', user: undefined },
    { name: 'another user who may open the lock of the iptables tools', user: 65534 },
  ]
  for (const { name, user } of users) {
    it(`CAP_NET_ADMIN alone is enough for ${name}`, async () => {
      const world = await manifestWorld()
      await world.put('Service', web)
      await world.put('EndpointSlice', webSlice)
      cpSync(join(treeRoot, 'dist'), join(folder, 'dist'), { recursive: true, dereference: true })
      const lock = join(folder, 'xtables.lock')
      writeFileSync(lock, '')
      if (user !== undefined) chownSync(lock, user, user)
      // Only the initial network namespace can set the limit of tracked connections.
      const own = ['--conntrack-max-per-core', '0', ...world.arguments]
      const whole = [process.execPath, join(folder, 'dist/agent.js'), ...always, ...own]
      assert.match(await node.must(...whole, '--init-only'), /System initialized and --init-only specified/u)
      const chains = [...(await saved()).matchAll(/^:(KUBE-\S+)/gmu)].map(([, chain]) => chain)
      assert.deepEqual(chains, ['KUBE-FIREWALL'])

      const before = [...withReadOnlySettings, 'env', `XTABLES_LOCKFILE=${lock}`, ...withNetAdminAlone(user)]
      const agent = node.start(...before, ...whole)
      await isInForce(agent)
      assert.match(
        readFileSync(`/proc/${agent.pid}/status`, 'utf8'),
        new RegExp(`^CapEff:\\s${netAdminAlone}$`, 'mu'),
      )
      assert.match(await saved(), /--to-destination 10\.1\.0\.1:8080/u)
      agent.signal('SIGTERM')
      const { code, stdout } = await agent.ended
      assert.equal(code, 0)
      assert.doesNotMatch(stdout, /"level":"error"|Kernel setting/u)
    })
  }

  it('without an API server and a Node, the machine is the node: nftables mode serves at once, and /healthz is 200', async () => {
    // Before the fix, nothing was programmed for 31 s, and /healthz stayed 503.
    const world = await manifestWorld()
    await world.put('Service', web)
    await world.put('EndpointSlice', webSlice)
    await node.ip('link add eth0 type veth peer name eth1', 'address add 192.0.2.7/24 dev eth0')
    const mode = ['--proxy-mode=nftables', '--conntrack-max-per-core=0', '--hostname-override=node-a', '-v=2']
    const agent = node.start(process.execPath, agentFile, ...mode, ...world.arguments)
    await agent.line((line) => line.includes('"nodeIPs":["192.0.2.7"]'))
    await isInForce(agent)
    const ask =
      "fetch('http://127.0.0.1:10256/healthz').then(async (r) => console.log(r.status, await r.text()))"
    assert.match(await node.must(process.execPath, '-e', ask), /^200 .*"nodeEligible":true/u)
    agent.signal('SIGTERM')
    assert.equal((await agent.ended).code, 0)
  })

  it('without --init-only it logs the settings that it cannot write, and serves', async () => {
    const world = await manifestWorld()
    await world.put('Service', web)
    await world.put('EndpointSlice', webSlice)
    const agent = node.start(
      ...withReadOnlySettings,
      process.execPath,
      agentFile,
      ...always,
      '--conntrack-min=1000000',
      ...world.arguments,
    )
    await isInForce(agent)
    assert.match(await saved(), /--to-destination 10\.1\.0\.1:8080/u)
    agent.signal('SIGTERM')
    const { code, stdout } = await agent.ended
    assert.equal(code, 0)
    assert.match(
      stdout,
      /"level":"warn".*Kernel setting cannot be changed: .*nf_conntrack_max should be at least 1000000/u,
    )
    assert.match(
      stdout,
      /"level":"warn".*Kernel setting cannot be changed: .*nf_conntrack_tcp_timeout_established should be 86400/u,
    )
  })
})

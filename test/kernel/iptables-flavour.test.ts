// Both flavours of x_tables, with rules that Debian's tools write. The tests follow each other in one namespace.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, describe, it } from 'node:test'
import { cleanUpAll } from '../../src/agent/testing.js'
import { chooseFlavour, kubeletSigns } from '../../src/host/index.js'
import { flavourContradiction } from '../../src/host/testing.js'
import type { XtFlavour } from '../../src/kernel/index.js'
import { OtherAgents } from '../../src/layers/nft-table/other-agents.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { ManualClock } from '../support/manual-clock.js'
import { MemoryLog } from '../support/pipeline-lab.js'
import { mustRun } from '../support/processes.js'

requireFreshNamespace()

const kernel = openRealKernel()
after(async () => await kernel.close())

/** Runs commands, such as `iptables-nft -N KUBE-SVC-A`. */
async function run(...commands: readonly string[]): Promise<void> {
  for (const command of commands) {
    const [program = '', ...words] = command.split(' ')
    await mustRun([program, ...words])
  }
}

async function tables(): Promise<string> {
  const legacy = await Promise.all(
    ['ip_tables_names', 'ip6_tables_names'].map(async (name) => await readFile(`/proc/net/${name}`, 'utf8')),
  )
  return `${legacy.join('')}${await mustRun(['nft', 'list', 'tables'])}`
}

describe('the flavour', () => {
  const steps: readonly {
    readonly name: string
    readonly commands: readonly string[]
    readonly flavour: XtFlavour
    readonly reason: string
    readonly problem?: RegExp
  }[] = [
    {
      name: 'of an empty namespace',
      commands: [],
      flavour: 'nft',
      reason: 'no other program shows one, and the kernel has nft_compat',
    },
    {
      name: 'with a kube-proxy in the legacy tables',
      commands: ['iptables-legacy -t nat -N KUBE-SERVICES'],
      flavour: 'legacy',
      reason: 'there is IPv4 nat KUBE-SERVICES in the legacy tables',
    },
    {
      name: 'with a kubelet in nf_tables',
      commands: ['ip6tables-nft -t mangle -N KUBE-KUBELET-CANARY'],
      flavour: 'nft',
      reason: 'kubelet made IPv6 mangle KUBE-KUBELET-CANARY in nf_tables',
    },
    {
      name: 'with a kubelet in both',
      commands: ['iptables-legacy -t mangle -N KUBE-IPTABLES-HINT'],
      flavour: 'nft',
      reason: 'kubelet made IPv6 mangle KUBE-KUBELET-CANARY in nf_tables',
      problem:
        /IPv6 mangle KUBE-KUBELET-CANARY in nf_tables and IPv4 mangle KUBE-IPTABLES-HINT in the legacy tables/u,
    },
    {
      name: 'with a kubelet in the legacy tables',
      commands: ['ip6tables-nft -t mangle -X KUBE-KUBELET-CANARY'],
      flavour: 'legacy',
      reason: 'kubelet made IPv4 mangle KUBE-IPTABLES-HINT in the legacy tables',
    },
  ]
  for (const { name, commands, flavour, reason, problem } of steps) {
    it(`${name} is found, and no table is made`, async () => {
      await run(...commands)
      const before = await tables()
      const kubelet = await kubeletSigns(kernel)
      assert.deepEqual(await chooseFlavour(kernel, 'auto'), { flavour, reason })
      assert.match(flavourContradiction(flavour, kubelet) ?? '', problem ?? /^$/u)
      assert.equal(await tables(), before)
    })
  }
})

describe('the barrier of filter FORWARD', () => {
  const steps: readonly {
    readonly command: string
    readonly barrier: { readonly rule: number; readonly isPolicy: boolean } | undefined
  }[] = [
    { command: '-A FORWARD -s 192.0.2.1 -j DROP', barrier: undefined },
    { command: '-A FORWARD -m conntrack --ctstate NEW -j REJECT', barrier: undefined },
    { command: '-A FORWARD -p tcp -j DROP', barrier: undefined },
    { command: '-A FORWARD -o eth0 -j DROP', barrier: undefined },
    { command: '-P FORWARD DROP', barrier: { rule: 4, isPolicy: true } },
    { command: '-A FORWARD -m comment --comment all -j REJECT', barrier: { rule: 4, isPolicy: false } },
    { command: '-I FORWARD -j DROP', barrier: { rule: 0, isPolicy: false } },
    { command: '-F FORWARD', barrier: { rule: 0, isPolicy: true } },
    { command: '-P FORWARD ACCEPT', barrier: undefined },
  ]
  for (const flavour of ['legacy', 'nft'] as const) {
    for (const { command, barrier } of steps) {
      it(`in the flavour ${flavour}, after ${command}`, async () => {
        await run(`iptables-${flavour} ${command}`)
        const place = { family: 'ipv4', table: 'filter', hook: 'FORWARD' } as const
        assert.deepEqual(await kernel.findBarrier(place, flavour), barrier)
      })
    }
  }
})

describe('--cleanup in both flavours', () => {
  const programs = ['iptables-legacy', 'ip6tables-legacy', 'iptables-nft', 'ip6tables-nft'] as const

  /** Rules and chains of kubelet, a CNI plugin and Docker. */
  const foreign = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
COMMIT
*filter
:FORWARD DROP [0:0]
:KUBE-FIREWALL - [0:0]
-A KUBE-FIREWALL -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A INPUT -j KUBE-FIREWALL
COMMIT
*nat
:CNI-HOSTPORT-DNAT - [0:0]
-A CNI-HOSTPORT-DNAT -p tcp --dport 8080 -j ACCEPT
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING ! -o docker0 -j MASQUERADE
COMMIT`
  const ofKubeProxy = `*mangle
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:KUBE-FORWARD - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-I FORWARD -m comment --comment forward -j KUBE-FORWARD
-I INPUT -m conntrack --ctstate NEW -j KUBE-EXTERNAL-SERVICES
COMMIT
*nat
:KUBE-MARK-MASQ - [0:0]
:KUBE-SEP-A - [0:0]
:KUBE-SVC-A - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-SEP-A -s 192.0.2.1 -j KUBE-MARK-MASQ
-A KUBE-SVC-A -m statistic --mode random --probability 0.5 -j KUBE-SEP-A
-A KUBE-SVC-A -j KUBE-SEP-A
-A KUBE-SERVICES -p tcp -m tcp --dport 80 -j KUBE-SVC-A
-I PREROUTING -m comment --comment portals -j KUBE-SERVICES
-A OUTPUT -j KUBE-SERVICES
-A KUBE-POSTROUTING -j MASQUERADE
-I POSTROUTING -j KUBE-POSTROUTING
COMMIT`

  async function restore(text: string, ...options: readonly string[]): Promise<void> {
    for (const program of programs) {
      const rules = program.startsWith('ip6') ? text.replace('192.0.2.1', '2001:db8::1') : text
      await mustRun(['sh', '-c', `${program}-restore ${options.join(' ')} <<E\n${rules}\nE\n`])
    }
  }

  /** All tables as the tools print them, without counters of chains and comments. */
  async function saved(): Promise<readonly string[]> {
    const texts = await Promise.all(programs.map(async (program) => await mustRun([`${program}-save`])))
    return texts.map((text) => text.replaceAll(/^#.*$/gmu, '').replaceAll(/\[\d+:\d+\]/gu, ''))
  }

  it("removes kube-proxy's chains and their jumps, and nothing else", async () => {
    await restore(foreign)
    await run('nft add table ip mine', 'nft add table ip kube-proxy', 'nft add chain ip kube-proxy services')
    const before = await saved()
    await restore(ofKubeProxy, '--noflush')
    assert.ok((await saved()).every((text) => text.includes('-A KUBE-SVC-A')))
    const { text, isComplete } = await cleanUpAll(kernel, [])
    assert.ok(isComplete, text)
    for (const place of ['IPv4 nat', 'IPv6 nat', 'IPv4 nat of nf_tables', 'IPv6 nat of nf_tables'])
      assert.ok(text.includes(`5 chains from ${place},`), text)
    assert.match(text, /removed the table kube-proxy of nf_tables in IPv4/u)
    assert.deepEqual(await saved(), before)
    assert.match(await mustRun(['nft', 'list', 'tables']), /^table ip mine$/mu)
    assert.match((await cleanUpAll(kernel, [])).text, /^removed no chains; /u)
  })

  it('lets a chain of kube-proxy to which another program jumps stay, empty, in nf_tables too', async () => {
    await run(
      'iptables-nft -t nat -N KUBE-MARK-MASQ',
      'iptables-nft -t nat -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000',
    )
    await run('iptables-nft -t nat -I CNI-HOSTPORT-DNAT -j KUBE-MARK-MASQ')
    const { text, isComplete } = await cleanUpAll(kernel, [])
    assert.equal(isComplete, false)
    assert.ok(
      text.includes(
        'IPv4 table nat: chain KUBE-MARK-MASQ stays, empty, as chain CNI-HOSTPORT-DNAT jumps to it',
      ),
      text,
    )
    assert.doesNotMatch(await mustRun(['iptables-nft-save', '-t', 'nat']), /-A KUBE-MARK-MASQ/u)
  })
})

it('a kube-proxy that writes through iptables-nft or nft is recognized by the name of its program', async () => {
  const clock = new ManualClock()
  const log = new MemoryLog()
  const others = new OtherAgents({ family: 'ipv4', mode: 'table', minSyncPeriodMs: 0, clock, log })
  const watch = kernel.nftables.watch()
  const see = async (): Promise<void> => others.note((await watch.next()) ?? [])
  await run('iptables-nft -t nat -N KUBE-SVC-B')
  await see()
  await clock.advance(30_000)
  await run('nft add table ip kube-proxy', 'nft add chain ip kube-proxy service-AAAABBBB-default/web/tcp/')
  await see()
  assert.equal(others.runningNow(), 'kube-proxy')
  const [line] = log.find('warn', 'Another kube-proxy is running')
  assert.match(
    line?.message ?? '',
    /: nft \(pid \d+\) changes IPv4 kube-proxy service-AAAABBBB-default\/web\/tcp\/ again/u,
  )
  await watch.close()
})

it('a new chain and a renamed one are distinguished, of nft and of iptables-nft', async () => {
  const watch = kernel.nftables.watch()
  const kinds: string[] = []
  for (const command of [
    'nft add chain ip nat MINE-A',
    'nft rename chain ip nat MINE-A MINE-B',
    'iptables-nft -t nat -N MINE-C',
    'iptables-nft -t nat -E MINE-C MINE-D',
  ]) {
    await run(command)
    for (const change of (await watch.next()) ?? [])
      if (change.kind === 'transaction')
        kinds.push(...change.objects.map(({ kind, name }) => `${kind} ${name}`))
  }
  assert.deepEqual(kinds, ['chain MINE-A', 'chain-update MINE-B', 'chain MINE-C', 'chain-update MINE-D'])
  await watch.close()
})

for (const mode of ['table', 'ipvs'] as const) {
  it(`a kube-proxy in ipvs mode that restores its chains without a change is recognized: ${mode}`, async () => {
    const rules =
      '*nat\n:KUBE-NODE-PORT - [0:0]\n:KUBE-LOAD-BALANCER - [0:0]\n-A KUBE-LOAD-BALANCER -j RETURN\nCOMMIT\n'
    const restore = ['sh', '-c', `printf '${rules}' | iptables-nft-restore --noflush`]
    await mustRun(restore)
    const clock = new ManualClock()
    const log = new MemoryLog()
    const others = new OtherAgents({ family: 'ipv4', mode, minSyncPeriodMs: 0, clock, log })
    const watch = kernel.nftables.watch()
    for (let sync = 0; sync < 2; sync++) {
      assert.equal(others.runningNow(), 'none')
      await clock.advance(30_000)
      await mustRun(restore)
      others.note((await watch.next()) ?? [])
    }
    assert.equal(others.runningNow(), 'kube-proxy')
    const [line] = log.find('warn', 'Another kube-proxy is running')
    assert.match(
      line?.message ?? '',
      /: iptables-nft-re \(pid \d+\) changes IPv4 nat KUBE-LOAD-BALANCER again: stop that kube-proxy/u,
    )
    await watch.close()
  })
}

// Rules of other programs that take packets away before the rules of Services, and those that drop at hook postrouting: what a real packet
// does, and what `viaduct explain` says.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { askingAt } from '../../src/commands/client.js'
import type { ProxyMode } from '../../src/config/index.js'
import type { Explanation } from '../../src/inspect/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { connect, Namespace, setSysctls } from '../support/namespaces.js'
import { node as nodeObject, port, service, slice } from '../support/objects.js'
import { Prober, type ProbeTarget } from '../support/probes.js'
import { AgentProcess } from '../traffic/agent-process.js'
import { manifestText } from '../traffic/table/manifest.js'

requireFreshNamespace()

// outside ── eth0 node pod0 ── pod
//                  eth1 ── elsewhere, which has the addresses of the Services, and gets what is not translated
const nodeAddress = '192.168.60.1'
const outside = '192.168.60.2'
/** The Service, one without endpoints, and a DNS server of the cluster of which the node has a cache. */
const served = '10.96.0.10'
const refused = '10.96.0.20'
const cached = '10.96.0.53'

/** The server that answers. */
const servers = {
  endpoint: '10.244.1.10 8080',
  /** To which other programs translate. */
  other: '10.244.1.10 9090',
  elsewhere: `${served} 80`,
  'elsewhere of the other': `${refused} 80`,
  'node at the loopback address': '127.0.0.1 9999',
  'cache on the node': `${cached} 80`,
} as const
type Fate = keyof typeof servers | 'dropped' | 'refused'

type ModeName = 'iptables' | 'iptables-nft' | 'nftables' | 'userspace'
const modes: Readonly<Record<ModeName, { readonly mode: ProxyMode; readonly flags: readonly string[] }>> = {
  iptables: { mode: 'iptables', flags: ['--iptables-flavour=legacy'] },
  'iptables-nft': { mode: 'iptables', flags: ['--iptables-flavour=nft'] },
  nftables: { mode: 'nftables', flags: [] },
  userspace: { mode: 'userspace', flags: [] },
}

interface Expected {
  /** Several: the kernel's order of two chains of one priority decides. */
  readonly fates: readonly Fate[]
  readonly verdict: Explanation['verdict']
  readonly firewall: Explanation['firewall']['state']
  /** One of the rules. */
  readonly rule?: RegExp
}

const serves: Expected = { fates: ['endpoint'], verdict: 'serve', firewall: 'passes' }
/** In userspace mode the guard of the VIPs keeps rules of other programs from them, also from one without endpoints. */
const refuses: Expected = { fates: ['refused'], verdict: 'refuse', firewall: 'passes' }
const drops: Expected = { fates: ['dropped'], verdict: 'drop', firewall: 'drops' }

function bypasses(fate: Fate, rule: RegExp): Expected {
  return { fates: [fate], verdict: 'untouched', firewall: 'bypasses', rule }
}

interface Case {
  readonly name: string
  /** Commands. */
  readonly lines: readonly string[]
  readonly from?: 'outside' | 'node'
  readonly to?: string
  /** By mode; `rest`: of the others. In userspace mode the relay and a cache on the node compete for one socket. */
  readonly expected: Partial<Record<ModeName | 'rest', Expected>>
}

/** A table of nft with one base chain. */
function nft(hook: string, type: 'filter' | 'nat', priority: number, rule: string): readonly string[] {
  return [
    'nft add table inet other',
    `nft add chain inet other ${hook} { type ${type} hook ${hook} priority ${priority}; }`,
    `nft add rule inet other ${hook} ${rule}`,
  ]
}

const toService = `-d ${served} -p udp --dport 80`
const notTracked = /^the packet is not tracked: rule 1 of chain .*; the rules of Services do not see it$/u
const otherDestination = /^another program gives the packet another destination: rule /u
const mayBypass = { verdict: 'serve', firewall: 'may-bypass' } as const
const eitherOther: Expected = {
  fates: ['endpoint', 'other'],
  ...mayBypass,
  rule: /^another program may give the packet another destination: rule /u,
}
const mayLeave = {
  ...mayBypass,
  rule: /^the packet may leave table nat before the rules of Services: rule 1 of chain PREROUTING /u,
}
const early = /^the packet leaves table nat before the rules of Services: rule /u
/** The relay has sockets: only another destination takes packets away. */
const untracked = { rest: bypasses('elsewhere', notTracked), userspace: serves }
const toCache = bypasses('cache on the node', notTracked)
const toOther = bypasses('other', otherDestination)

const trackingCases: readonly Case[] = [
  { name: 'no rule', lines: [], expected: { rest: serves } },
  { name: 'no rule, from the node', lines: [], from: 'node', expected: { rest: serves } },
  ...(['legacy', 'nft'] as const).flatMap((flavour): readonly Case[] => [
    {
      name: `NOTRACK in table raw, ${flavour}`,
      lines: [`iptables-${flavour} -t raw -A PREROUTING ${toService} -j NOTRACK`],
      expected: untracked,
    },
    {
      name: `NOTRACK in table raw, from the node, ${flavour}`,
      lines: [`iptables-${flavour} -t raw -A OUTPUT ${toService} -j CT --notrack`],
      from: 'node',
      expected: untracked,
    },
    {
      name: `NOTRACK that cannot be evaluated, ${flavour}`,
      lines: [`iptables-${flavour} -t raw -A PREROUTING -m limit --limit 1000/s ${toService} -j NOTRACK`],
      expected: {
        rest: {
          fates: ['elsewhere'],
          verdict: 'serve',
          firewall: 'may-bypass',
          rule: /^the packet may not be tracked: rule 1 .*; then the rules of Services do not see it$/u,
        },
        userspace: serves,
      },
    },
    {
      name: `NOTRACK behind a zone, which has no effect, ${flavour}`,
      lines: [
        `iptables-${flavour} -t raw -A PREROUTING ${toService} -j CT --zone-orig 1`,
        `iptables-${flavour} -t raw -A PREROUTING ${toService} -j NOTRACK`,
      ],
      expected: { rest: serves },
    },
    {
      name: `NOTRACK, and a firewall that drops what is not tracked, ${flavour}`,
      lines: [
        `iptables-${flavour} -t raw -A PREROUTING ${toService} -j NOTRACK`,
        `iptables-${flavour} -t mangle -A FORWARD -m conntrack --ctstate UNTRACKED -j DROP`,
      ],
      expected: { rest: drops, userspace: serves },
    },
    {
      name: `NOTRACK, and a firewall that drops what is new, ${flavour}`,
      lines: [
        `iptables-${flavour} -t raw -A PREROUTING ${toService} -j NOTRACK`,
        `iptables-${flavour} -t mangle -A FORWARD -d ${served} -m conntrack --ctstate NEW -j DROP`,
      ],
      expected: untracked,
    },
    {
      name: `NOTRACK for a Service without endpoints, ${flavour}`,
      lines: [`iptables-${flavour} -t raw -A PREROUTING -d ${refused} -j NOTRACK`],
      to: refused,
      expected: {
        rest: bypasses('elsewhere of the other', notTracked),
        userspace: { fates: ['refused'], verdict: 'refuse', firewall: 'passes' },
      },
    },
  ]),
  {
    name: 'notrack of nft',
    lines: nft('prerouting', 'filter', -300, `ip daddr ${served} udp dport 80 notrack`),
    expected: untracked,
  },
  {
    name: 'notrack of nft from the node',
    lines: nft('output', 'filter', -300, `ip daddr ${served} udp dport 80 notrack`),
    from: 'node',
    expected: untracked,
  },
  {
    name: 'notrack of nft that comes too late',
    lines: nft('prerouting', 'filter', -150, `ip daddr ${served} udp dport 80 notrack`),
    expected: { rest: serves },
  },
  {
    name: 'notrack of nft, and a chain that drops what is not tracked',
    lines: [
      ...nft('prerouting', 'filter', -300, `ip daddr ${served} udp dport 80 notrack`),
      'nft add chain inet other forward { type filter hook forward priority -20; }',
      'nft add rule inet other forward ct state untracked drop',
    ],
    expected: { rest: drops, userspace: serves },
  },
  {
    name: 'NodeLocal DNSCache: an address of the node, and NOTRACK',
    lines: [
      `ip address add ${cached}/32 dev nodelocaldns`,
      `iptables-legacy -t raw -A PREROUTING -d ${cached} -p udp --dport 80 -j NOTRACK`,
      `iptables-legacy -t raw -A OUTPUT -s ${cached} -p udp --sport 80 -j NOTRACK`,
    ],
    to: cached,
    expected: {
      iptables: {
        ...toCache,
        rule: /raw in the legacy tables \(-d 10\.96\.0\.53\/32 -p udp -m udp --dport 80 -j CT\); the rules/u,
      },
      'iptables-nft': toCache,
      nftables: toCache,
    },
  },
  {
    name: 'NodeLocal DNSCache, from the node',
    lines: [
      `ip address add ${cached}/32 dev nodelocaldns`,
      `iptables-legacy -t raw -A OUTPUT -d ${cached} -p udp --dport 80 -j NOTRACK`,
      `iptables-legacy -t raw -A OUTPUT -s ${cached} -p udp --sport 80 -j NOTRACK`,
    ],
    from: 'node',
    to: cached,
    expected: { iptables: toCache, 'iptables-nft': toCache, nftables: toCache },
  },
]

const natCases: readonly Case[] = [
  {
    name: 'ACCEPT before, legacy: it ends the chain of iptables mode',
    lines: [`iptables-legacy -t nat -I PREROUTING ${toService} -j ACCEPT`],
    expected: { rest: serves, iptables: bypasses('elsewhere', early) },
  },
  {
    name: 'ACCEPT before, legacy, from the node',
    lines: [`iptables-legacy -t nat -I OUTPUT ${toService} -j ACCEPT`],
    from: 'node',
    expected: { rest: serves, iptables: bypasses('elsewhere', early) },
  },
  {
    name: 'RETURN before, legacy',
    lines: [`iptables-legacy -t nat -I PREROUTING ${toService} -j RETURN`],
    expected: { rest: serves, iptables: bypasses('elsewhere', early) },
  },
  {
    name: 'ACCEPT before in a chain, legacy',
    lines: [
      'iptables-legacy -t nat -N OTHER',
      'iptables-legacy -t nat -A OTHER -p tcp -j RETURN',
      'iptables-legacy -t nat -A OTHER -j ACCEPT',
      'iptables-legacy -t nat -I PREROUTING -j OTHER',
    ],
    expected: {
      rest: serves,
      iptables: bypasses(
        'elsewhere',
        /^the packet leaves table nat .*: rule 2 of chain OTHER of table ip nat /u,
      ),
    },
  },
  {
    name: 'a return from a chain before, legacy',
    lines: [
      'iptables-legacy -t nat -N OTHER',
      'iptables-legacy -t nat -A OTHER -j RETURN',
      'iptables-legacy -t nat -I PREROUTING -j OTHER',
      'iptables-legacy -t nat -I PREROUTING -p udp',
    ],
    expected: { rest: serves },
  },
  {
    name: 'ACCEPT before that cannot be evaluated, legacy',
    lines: [`iptables-legacy -t nat -I PREROUTING -m limit --limit 1000/s ${toService} -j ACCEPT`],
    expected: { rest: serves, iptables: { ...mayLeave, fates: ['elsewhere'] } },
  },
  {
    name: 'a queue before, legacy: its program decides',
    lines: [`iptables-legacy -t nat -I PREROUTING ${toService} -j NFQUEUE --queue-num 9`],
    expected: { iptables: { ...mayLeave, fates: ['dropped'] } },
  },
  {
    name: 'ACCEPT behind, legacy',
    lines: [`iptables-legacy -t nat -A PREROUTING ${toService} -j ACCEPT`],
    expected: { rest: serves },
  },
  {
    name: 'ACCEPT before, nft: it ends only its own chain',
    lines: [`iptables-nft -t nat -I PREROUTING ${toService} -j ACCEPT`],
    expected: { rest: serves },
  },
  {
    name: 'DNAT before, legacy',
    lines: [`iptables-legacy -t nat -I PREROUTING ${toService} -j DNAT --to-destination 10.244.1.10:9090`],
    expected: {
      rest: serves,
      iptables: toOther,
    },
  },
  {
    name: 'DNAT in the chain of iptables-nft',
    lines: [`iptables-nft -t nat -I PREROUTING ${toService} -j DNAT --to-destination 10.244.1.10:9090`],
    // The legacy table has the same priority. The chains of a table of its own come before.
    expected: { iptables: eitherOther, rest: serves },
  },
  {
    name: 'DNAT behind, legacy',
    lines: [`iptables-legacy -t nat -A PREROUTING ${toService} -j DNAT --to-destination 10.244.1.10:9090`],
    expected: { rest: serves },
  },
  {
    name: 'DNAT behind the rules of a Service without endpoints, which translate nothing, legacy',
    lines: [
      `iptables-legacy -t nat -A PREROUTING -d ${refused} -p udp -j DNAT --to-destination 10.244.1.10:9090`,
    ],
    to: refused,
    expected: { rest: toOther, userspace: refuses },
  },
  {
    name: 'REDIRECT before, from the node, legacy',
    lines: [`iptables-legacy -t nat -I OUTPUT ${toService} -j REDIRECT --to-ports 9999`],
    from: 'node',
    expected: {
      rest: bypasses('node at the loopback address', otherDestination),
      'iptables-nft': serves,
      nftables: serves,
      userspace: serves,
    },
  },
  {
    name: 'DNAT of local addresses, as container engines have it',
    lines: [
      'iptables-legacy -t nat -N ENGINE',
      'iptables-legacy -t nat -A ENGINE -p udp --dport 80 -j DNAT --to-destination 10.244.1.10:9090',
      'iptables-legacy -t nat -I PREROUTING -m addrtype --dst-type LOCAL -j ENGINE',
    ],
    // In userspace mode the addresses of Services are local, and the guard of the VIPs comes before.
    expected: { rest: serves },
  },
  {
    name: 'dnat of nft before',
    lines: nft('prerouting', 'nat', -110, `ip daddr ${served} udp dport 80 dnat ip to 10.244.1.10:9090`),
    expected: { rest: toOther },
  },
  {
    name: 'dnat of nft behind',
    lines: nft('prerouting', 'nat', -90, `ip daddr ${served} udp dport 80 dnat ip to 10.244.1.10:9090`),
    expected: { rest: serves },
  },
  {
    name: 'dnat of nft by a map, which is not read',
    lines: nft(
      'prerouting',
      'nat',
      -110,
      `udp dport 80 dnat ip to ip daddr map { ${served} : 10.244.1.10 }:9090`,
    ),
    expected: { rest: { fates: ['other'], verdict: 'serve', firewall: 'may-bypass', rule: /may give/u } },
  },
  {
    name: 'redirect of nft before, from the node',
    lines: nft('output', 'nat', -110, `ip daddr ${served} udp dport 80 redirect to :9999`),
    from: 'node',
    expected: { rest: bypasses('node at the loopback address', otherDestination) },
  },
  {
    name: 'accept of nft before: it ends only its own chain',
    lines: nft('prerouting', 'nat', -110, `ip daddr ${served} accept`),
    expected: { rest: serves },
  },
  {
    name: 'dnat of nft of the other protocol',
    lines: nft('prerouting', 'nat', -110, `ip daddr ${served} tcp dport 80 dnat ip to 10.244.1.10:9090`),
    expected: { rest: serves },
  },
]

const postroutingCases: readonly Case[] = [
  ...(['legacy', 'nft'] as const).flatMap((flavour): readonly Case[] => [
    {
      name: `the endpoint in table mangle, ${flavour}`,
      lines: [`iptables-${flavour} -t mangle -A POSTROUTING -d 10.244.1.10 -p udp --dport 8080 -j DROP`],
      expected: {
        rest: { ...drops, rule: /drops the packet: rule 1 of chain POSTROUTING of table ip mangle /u },
      },
    },
    {
      name: `the endpoint in table mangle, from the node, ${flavour}`,
      lines: [`iptables-${flavour} -t mangle -A POSTROUTING -d 10.244.1.10 -j DROP`],
      from: 'node',
      expected: { rest: drops },
    },
    {
      name: `the address of the Service in table mangle, which has been translated, ${flavour}`,
      lines: [`iptables-${flavour} -t mangle -A POSTROUTING -d ${served} -j DROP`],
      expected: { rest: serves },
    },
    {
      name: `the client in table mangle, which comes before masquerading, ${flavour}`,
      lines: [`iptables-${flavour} -t mangle -A POSTROUTING -s ${outside} -d 10.244.1.10 -j DROP`],
      expected: {
        rest: drops,
        // The relay connects from the node, at an address that is not known.
        userspace: { fates: ['endpoint'], verdict: 'serve', firewall: 'may-drop' },
      },
    },
  ]),
  {
    name: 'a chain of nft before masquerading',
    lines: nft('postrouting', 'filter', 99, `ip saddr ${outside} ip daddr 10.244.1.10 drop`),
    expected: { rest: drops, userspace: { fates: ['endpoint'], verdict: 'serve', firewall: 'may-drop' } },
  },
  {
    name: 'a chain of nft behind masquerading, where the source is not known',
    lines: nft('postrouting', 'filter', 101, `ip saddr ${outside} ip daddr 10.244.1.10 drop`),
    expected: { rest: { fates: ['endpoint'], verdict: 'serve', firewall: 'may-drop' } },
  },
  {
    name: 'a chain of nft behind masquerading, for the endpoint',
    lines: nft('postrouting', 'filter', 101, 'ip daddr 10.244.1.10 udp dport 8080 drop'),
    expected: { rest: drops },
  },
  {
    name: 'a chain of nft that drops what is not tracked',
    lines: nft('postrouting', 'filter', 0, 'ct state untracked drop'),
    expected: { rest: serves },
  },
]

const objects = [
  nodeObject('node-a', { ips: [nodeAddress] }),
  ...[served, refused, cached].map((address, index) =>
    service(`service-${index}`, address, { ports: [port(80, { protocol: 'UDP' })] }),
  ),
  ...['service-0', 'service-2'].map((owner) =>
    slice(`${owner}-1`, owner, ['10.244.1.10'], { ports: [{ name: '', protocol: 'UDP', port: 8080 }] }),
  ),
]

type Client = 'outside' | 'node'

/** The namespaces, with the servers. */
class Lab {
  readonly #namespaces: readonly Namespace[]
  readonly #probers: Readonly<Record<Client, Prober>>

  private constructor(namespaces: readonly Namespace[], probers: Lab['probers']) {
    this.#namespaces = namespaces
    this.#probers = probers
  }

  get probers(): Readonly<Record<Client, Prober>> {
    return this.#probers
  }

  get node(): Namespace {
    const [node] = this.#namespaces
    assert.ok(node !== undefined)
    return node
  }

  static async build(): Promise<Lab> {
    const names = ['node', 'outside', 'pod', 'elsewhere'] as const
    const namespaces = await Promise.all(names.map(async (name) => await Namespace.create(name)))
    try {
      return new Lab(namespaces, await connectAll(namespaces))
    } catch (error) {
      await Promise.all(namespaces.map(async (namespace) => await namespace.close()))
      throw error
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#namespaces.map(async (namespace) => await namespace.close()))
  }

  /** Takes away everything that a case has added. */
  async undo(lines: readonly string[]): Promise<void> {
    const commands = lines.toReversed().flatMap((line) => {
      if (line.startsWith('nft ')) return ['nft delete table inet other 2>/dev/null || true']
      if (line.includes(' -N ')) return [line.replace(' -N ', ' -X ')]
      return [line.replace(/ -[AI] /u, ' -D ').replace('address add', 'address del')]
    })
    await this.run(commands)
  }

  async run(lines: readonly string[]): Promise<void> {
    for (const line of lines) await this.node.must('sh', '-c', line.replace(/(\{.*\})/u, "'$1'"))
  }
}

/** Links, routes and servers. */
async function connectAll([node, client, pod, elsewhere]: readonly Namespace[]): Promise<Lab['probers']> {
  assert.ok(node !== undefined && client !== undefined && pod !== undefined && elsewhere !== undefined)
  await setSysctls(node, 'net.ipv4.ip_forward=1', 'net.ipv4.conf.all.rp_filter=0')
  // The cache listens before its address is there.
  await setSysctls(node, 'net.ipv4.ip_nonlocal_bind=1')
  await attach(node, client, 'eth0', [`${nodeAddress}/24`, `${outside}/24`])
  await attach(node, pod, 'pod0', ['10.244.1.1/24', '10.244.1.10/24'])
  await attach(node, elsewhere, 'eth1', ['192.168.61.1/24', '192.168.61.2/24'])
  const virtual = [served, refused].map((address) => `address add ${address}/32 dev lo`)
  await client.ip(`route add default via ${nodeAddress}`)
  await pod.ip('route add default via 10.244.1.1')
  await elsewhere.ip('route add default via 192.168.61.1', ...virtual)
  await node.ip(
    'route add 10.96.0.0/16 via 192.168.61.2',
    'link add nodelocaldns type bridge',
    'link set nodelocaldns up',
  )
  const probers = { outside: new Prober(client), node: new Prober(node) }
  await Promise.all([
    new Prober(pod).serve([udp('10.244.1.10', 8080), udp('10.244.1.10', 9090)]),
    new Prober(elsewhere).serve([served, refused].map((address) => udp(address, 80))),
    probers.node.serve([udp('127.0.0.1', 9999), udp(cached, 80)]),
  ])
  return probers
}

function udp(address: string, number: number): ProbeTarget {
  return { protocol: 'UDP', address, port: number }
}

async function attach(
  node: Namespace,
  peer: Namespace,
  name: string,
  [near, far]: readonly [string, string],
): Promise<void> {
  await connect(
    { namespace: node, interfaceName: name, addresses: [near] },
    { namespace: peer, interfaceName: 'eth0', addresses: [far] },
  )
}

describe('packets that rules of other programs take away, and explain', { timeout: 300_000 }, () => {
  let lab: Lab
  let folder: string
  before(async () => {
    lab = await Lab.build()
    folder = mkdtempSync(join(tmpdir(), 'viaduct-bypass-'))
    writeFileSync(join(folder, 'objects.json'), manifestText(objects))
  })
  after(async () => {
    await lab.close()
    rmSync(folder, { recursive: true })
  })

  async function check(
    { from = 'outside', to = served }: Case,
    { fates, verdict, firewall, rule = /^/u }: Expected,
  ): Promise<void> {
    const limitMs = fates.includes('dropped') ? 300 : 5000
    const outcome = await lab.probers[from].probe(udp(to, 80), limitMs)
    const seen = outcome.kind === 'answer' ? outcome.by : outcome.kind
    assert.ok(
      fates.map((fate) => (fate in servers ? Reflect.get(servers, fate) : fate)).includes(seen),
      `the packet goes to ${seen}`,
    )
    const client = from === 'node' ? 'node' : outside
    const answer = await askingAt(`${folder}.sock`)('explain', { client, destination: `${to}:80/udp` })
    const states = [answer.verdict, answer.firewall.state]
    assert.deepEqual(states, [verdict, firewall], answer.firewall.rules.join('\n'))
    assert.match(answer.firewall.rules.join('\n'), rule)
    assert.equal(answer.kernel.state, 'agrees', answer.kernel.differences.join('\n'))
  }

  for (const name of ['iptables', 'iptables-nft', 'nftables', 'userspace'] as const) {
    describe(`in mode ${name}`, () => {
      const { mode, flags } = modes[name]
      let agent: AgentProcess
      before(async () => {
        const own = ['--cluster-cidr=10.244.0.0/16', '--control-socket', `${folder}.sock`]
        agent = AgentProcess.start({ node: lab.node, manifests: folder, mode, flags: [...flags, ...own] })
        await agent.line(/"Control socket listens"/u, 0)
        await agent.synced()
      })
      after(async () => {
        assert.equal((await agent.terminate()).code, 0)
        await lab.node.run('nft', 'flush ruleset')
        for (const table of ['nat', 'filter', 'mangle', 'raw'])
          for (const verb of ['-F', '-X']) await lab.node.must('iptables-legacy', '-t', table, verb)
      })

      for (const one of [...trackingCases, ...natCases, ...postroutingCases]) {
        const expected = one.expected[name] ?? one.expected.rest
        if (expected === undefined) continue
        it(one.name, async () => {
          await lab.run(one.lines)
          try {
            await check(one, expected)
          } finally {
            await lab.undo(one.lines)
          }
        })
      }
    })
  }
})

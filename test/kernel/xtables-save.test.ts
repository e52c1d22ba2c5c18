// The iptables tools print tables that Viaduct wrote: kube-proxy's chains for two Services among foreign rules.
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { IpFamily } from '../../src/address.js'
import { XtState } from '../../src/kernel/index.js'
import type { XtOp, XtRule } from '../../src/kernel/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { ip } from '../contract/law.js'
import { mustRun } from '../support/processes.js'
import { iptables, openRealSubject, save, type XtSubject } from '../contract/xtables-subjects.js'

requireFreshNamespace()

const jump = (chain: string, rule: Omit<XtRule, 'target'> = {}): XtRule => ({
  ...rule,
  target: { kind: 'jump', chain },
})
const words = { comment: 'kubernetes service portals' }

interface Addresses {
  readonly pods: XtRule['source']
  readonly virtual: string
  readonly backends: readonly [string, string]
  readonly bits: number
}

const addresses: Readonly<Record<IpFamily, Addresses>> = {
  ipv4: {
    pods: { address: ip('10.244.0.0'), prefixLength: 16, isInverted: true },
    virtual: '10.96.0.10',
    backends: ['10.244.1.5', '10.244.2.5'],
    bits: 32,
  },
  ipv6: {
    pods: { address: ip('fd00:244::'), prefixLength: 48, isInverted: true },
    virtual: 'fd00:96::a',
    backends: ['fd00:244:0:1::5', 'fd00:244:0:2::5'],
    bits: 128,
  },
}

function natOps({ pods, virtual, backends, bits }: Addresses): readonly XtOp[] {
  const destination = { address: ip(virtual), prefixLength: bits }
  const web = { protocol: 'tcp', destination, destinationPorts: [80, 80] } as const
  const [first, second] = backends.map(ip)
  assert.ok(pods !== undefined && first !== undefined && second !== undefined)
  const dnat = (address: typeof first): XtRule => ({
    protocol: 'tcp',
    target: { kind: 'dnat', address, port: 8080 },
  })
  const sticky = (list: string): XtRule => jump(list, { recent: { list, action: 'check', seconds: 60 } })
  return [
    { op: 'set-hook', chain: 'PREROUTING', rules: [jump('KUBE-SERVICES', words)] },
    { op: 'set-hook', chain: 'OUTPUT', rules: [jump('KUBE-SERVICES', words)] },
    { op: 'set-hook', chain: 'POSTROUTING', rules: [jump('KUBE-POSTROUTING')] },
    {
      op: 'set-chain',
      chain: 'KUBE-SERVICES',
      rules: [
        jump('KUBE-SVC-WEB', web),
        jump('KUBE-NODEPORTS', { addressType: { of: 'destination' }, comment: 'must be last' }),
      ],
    },
    {
      op: 'set-chain',
      chain: 'KUBE-SVC-WEB',
      rules: [
        jump('KUBE-MARK-MASQ', { ...web, source: pods }),
        sticky('KUBE-SEP-A'),
        { ...dnat(first), probability: 1 / 2 },
        dnat(second),
      ],
    },
    {
      op: 'set-chain',
      chain: 'KUBE-SEP-A',
      rules: [{ ...dnat(first), recent: { list: 'KUBE-SEP-A', action: 'set' } }],
    },
    { op: 'set-chain', chain: 'KUBE-NODEPORTS', rules: [] },
    {
      op: 'set-chain',
      chain: 'KUBE-MARK-MASQ',
      rules: [{ target: { kind: 'mark', value: 0x4000, mask: 0x4000 } }],
    },
    {
      op: 'set-chain',
      chain: 'KUBE-POSTROUTING',
      rules: [
        { mark: { value: 0x4000, mask: 0x4000, isInverted: true }, target: { kind: 'return' } },
        { target: { kind: 'mark', value: 0x4000, mask: 0 } },
        { target: { kind: 'masquerade', isRandomFully: true } },
      ],
    },
  ]
}

const filterOps: readonly XtOp[] = [
  { op: 'set-hook', chain: 'FORWARD', rules: [jump('KUBE-FORWARD')] },
  {
    op: 'set-chain',
    chain: 'KUBE-FORWARD',
    rules: [
      { state: { bits: XtState.invalid }, target: { kind: 'drop' } },
      { mark: { value: 0x4000, mask: 0x4000 }, target: { kind: 'accept' } },
      { state: { bits: XtState.related | XtState.established }, target: { kind: 'accept' } },
    ],
  },
  { op: 'set-chain', chain: 'KUBE-SERVICES', rules: [{ protocol: 'sctp', target: { kind: 'reject' } }] },
]

/** The expected output of iptables-save for table nat, with chains in the order of iptables. */
function natText({ virtual, backends, bits }: Addresses, pods: string, mask: string): string {
  const [first, second] = backends.map((address) =>
    address.includes(':') ? `[${address}]:8080` : `${address}:8080`,
  )
  const web = `-d ${virtual}/${bits} -p tcp -m tcp --dport 80`
  return `*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-SEP-A - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-WEB - [0:0]
:OTHER - [0:0]
[0:0] -A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
[0:0] -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
[0:0] -A POSTROUTING -j KUBE-POSTROUTING
[7:700] -A POSTROUTING -o docker0 -m physdev --physdev-is-bridged -j OTHER
[0:0] -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
[0:0] -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
[0:0] -A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
[0:0] -A KUBE-POSTROUTING -j MASQUERADE --random-fully
[0:0] -A KUBE-SEP-A -p tcp -m recent --set --name KUBE-SEP-A --mask ${mask} --rsource -j DNAT --to-destination ${first}
[0:0] -A KUBE-SERVICES ${web} -j KUBE-SVC-WEB
[0:0] -A KUBE-SERVICES -m addrtype --dst-type LOCAL -m comment --comment "must be last" -j KUBE-NODEPORTS
[0:0] -A KUBE-SVC-WEB ! -s ${pods} ${web} -j KUBE-MARK-MASQ
[0:0] -A KUBE-SVC-WEB -m recent --rcheck --seconds 60 --reap --name KUBE-SEP-A --mask ${mask} --rsource -j KUBE-SEP-A
[0:0] -A KUBE-SVC-WEB -p tcp -m statistic --mode random --probability 0.50000000000 -j DNAT --to-destination ${first}
[0:0] -A KUBE-SVC-WEB -p tcp -j DNAT --to-destination ${second}
[3:300] -A OTHER -m limit --limit 5/sec -j LOG --log-prefix "other: " --log-level 5
COMMIT
`
}

const texts: Readonly<Record<IpFamily, string>> = {
  ipv4: natText(addresses.ipv4, '10.244.0.0/16', '255.255.255.255'),
  ipv6: natText(addresses.ipv6, 'fd00:244::/48', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'),
}

const filterText = (reject: string): string => `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-SERVICES - [0:0]
[0:0] -A FORWARD -j KUBE-FORWARD
[0:0] -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
[0:0] -A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
[0:0] -A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
[0:0] -A KUBE-SERVICES -p sctp -j REJECT --reject-with ${reject}
COMMIT
`

/** iptables-save without the comment lines, which have program and time. */
async function saved(family: IpFamily, table: 'nat' | 'filter'): Promise<string> {
  const lines = (await save(family, table, '-c')).split('\n')
  return `${lines.filter((line) => !line.startsWith('#')).join('\n')}\n`
}

for (const family of ['ipv4', 'ipv6'] as const) {
  describe(`iptables-save of ${family}`, () => {
    let namespace: XtSubject
    before(async () => {
      namespace = await openRealSubject()
    })
    after(() => namespace.close())

    it('nat: foreign rules keep unknown matches and counters', async () => {
      await iptables(family, 'nat', '-N OTHER')
      await iptables(
        family,
        'nat',
        '-A OTHER -c 3 300 -m limit --limit 5/sec -j LOG --log-prefix "other: " --log-level 5',
      )
      await iptables(
        family,
        'nat',
        '-A POSTROUTING -c 7 700 -o docker0 -m physdev --physdev-is-bridged -j OTHER',
      )
      const original = await saved(family, 'nat')
      const client = namespace.open()
      const xtables = client.xtables(family, 'nat')
      const ops = natOps(addresses[family])
      await xtables.apply(ops)
      assert.equal(await saved(family, 'nat'), texts[family])
      await xtables.apply([], { prune: ['KUBE-*'] })
      assert.equal(await saved(family, 'nat'), texts[family])
      const removals = ops.map((op): XtOp =>
        op.op === 'set-hook' ? { ...op, rules: [] } : { op: 'remove-chain', chain: op.chain },
      )
      await xtables.apply(removals)
      assert.equal(await saved(family, 'nat'), original)
      await client.close()
    })

    it('filter: policies stay', async () => {
      await iptables(family, 'filter', '-P FORWARD DROP')
      const client = namespace.open()
      await client.xtables(family, 'filter').apply(filterOps)
      const reject = family === 'ipv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable'
      assert.equal(await saved(family, 'filter'), filterText(reject))
      await client.close()
    })

    it('the tools restore their output for our tables; the next apply repairs bytes without meaning', async () => {
      const client = namespace.open()
      const xtables = client.xtables(family, 'nat')
      await xtables.apply(natOps(addresses[family]))
      const original = await saved(family, 'nat')
      const program = family === 'ipv4' ? 'iptables-legacy' : 'ip6tables-legacy'
      await mustRun(['sh', '-c', `${program}-save -c -t nat | ${program}-restore -c -w 10`])
      assert.equal(await saved(family, 'nat'), original)
      await xtables.apply([])
      assert.deepEqual(await xtables.compare(), { missing: [], changed: [] })
      assert.equal(await saved(family, 'nat'), original)
      await client.close()
    })
  })
}

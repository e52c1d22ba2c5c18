import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  compileSkeleton,
  countedRules,
  type IptablesModeSettings,
} from '../../../../src/modes/iptables/testing.js'
import { type CountedRule } from '../../../../src/layers/xtables/testing.js'
import { makeSettings } from '../../../support/packet-model-settings.js'
import { formatRule, listing, tablesOf } from '../../../support/packet-model-tables.js'
import { ip } from '../../../support/routes.js'

function hooksOf(settings: IptablesModeSettings): string {
  return compileSkeleton(settings)
    .hooks.flatMap(({ table, chain, rules }) => [`*${table} ${chain}`, ...rules.map(formatRule)])
    .join('\n')
}

/** The rules after all frontends of KUBE-SERVICES in nat. */
function tailOf(settings: IptablesModeSettings): readonly string[] {
  const tails = compileSkeleton(settings).tails.filter(({ dispatch }) => dispatch.table === 'nat')
  return tails.flatMap(({ dispatch, rules }) =>
    rules.map((rule) => `${dispatch.table} ${dispatch.chain} ${formatRule(rule)}`),
  )
}

describe('the skeleton', () => {
  it('masquerades marked packets in nat and clears the mark', () => {
    const { chains } = tablesOf([], makeSettings('ipv4', { localhostNodePorts: false })).nat
    assert.equal(
      listing(chains),
      `
:KUBE-MARK-MASQ
-j MARK 0x4000/0x4000
:KUBE-NODEPORTS
:KUBE-POSTROUTING
--ctstate DNAT source = destination -j KUBE-MARK-MASQ
! --mark 0x4000/0x4000 -j RETURN
-j MARK 0x4000/0x0
"kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
:KUBE-PROXY-CANARY
:KUBE-SERVICES
! -d 127.0.0.0/8 "kubernetes service nodeports; NOTE: this must be the last rule in this chain" --dst-type LOCAL -j KUBE-NODEPORTS
`.trim(),
    )
  })

  it('has the rules for forwarding and for 127.0.0.0/8 in filter', () => {
    const { chains } = tablesOf([], makeSettings()).filter
    assert.equal(
      listing(chains),
      `
:KUBE-EXTERNAL-SERVICES
:KUBE-FIREWALL
! -s 127.0.0.0/8 -d 127.0.0.0/8 "block incoming localnet connections" ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
:KUBE-FORWARD
--ctstate INVALID -j DROP
"kubernetes forwarding rules" --mark 0x4000/0x4000 -j ACCEPT
"kubernetes forwarding conntrack rule" --ctstate RELATED,ESTABLISHED -j ACCEPT
"kubernetes forwarding rules" --ctstate DNAT source = destination -j ACCEPT
:KUBE-NODEPORTS
:KUBE-PROXY-CANARY
:KUBE-PROXY-FIREWALL
:KUBE-SERVICES
-s 127.0.0.0/8 "kubernetes localhost nodeports" --mark 0x4000/0x4000 --ctstate DNAT -j RETURN
`.trim(),
    )
  })

  it('has the jumps of kube-proxy in the built-in chains', () => {
    assert.equal(
      hooksOf(makeSettings()),
      `
*filter INPUT
-j KUBE-FIREWALL
"kubernetes load balancer firewall" --ctstate NEW -j KUBE-PROXY-FIREWALL
"kubernetes health check service ports" -j KUBE-NODEPORTS
"kubernetes externally-visible service portals" --ctstate NEW -j KUBE-EXTERNAL-SERVICES
*filter FORWARD
"kubernetes load balancer firewall" --ctstate NEW -j KUBE-PROXY-FIREWALL
"kubernetes forwarding rules" -j KUBE-FORWARD
"kubernetes service portals" --ctstate NEW -j KUBE-SERVICES
"kubernetes externally-visible service portals" --ctstate NEW -j KUBE-EXTERNAL-SERVICES
*filter OUTPUT
-j KUBE-FIREWALL
"kubernetes load balancer firewall" --ctstate NEW -j KUBE-PROXY-FIREWALL
"kubernetes service portals" --ctstate NEW -j KUBE-SERVICES
*nat PREROUTING
"kubernetes service portals" -j KUBE-SERVICES
*nat OUTPUT
"kubernetes service portals" -j KUBE-SERVICES
*nat POSTROUTING
"kubernetes postrouting rules" -j KUBE-POSTROUTING
`.trim(),
    )
  })

  it("does not set kubelet's chain if it has nothing to drop", () => {
    for (const settings of [makeSettings('ipv6'), makeSettings('ipv4', { localhostNodePorts: false })]) {
      assert.ok(!hooksOf(settings).includes('KUBE-FIREWALL'))
      assert.ok(!compileSkeleton(settings).chains.some(({ chain }) => chain === 'KUBE-FIREWALL'))
    }
  })

  it('forwards packets with conntrack state INVALID if configured', () => {
    const { chains } = tablesOf([], makeSettings('ipv6', { dropsInvalid: false })).filter
    assert.ok(!listing(chains).includes('INVALID'))
  })

  it('uses the configured mark bit', () => {
    const { nat, filter } = tablesOf([], makeSettings('ipv4', { masqueradeMark: 0x2 }))
    assert.match(listing(nat.chains), /! --mark 0x2\/0x2 -j RETURN\n-j MARK 0x2\/0x0\n/)
    assert.match(listing(nat.chains), /:KUBE-MARK-MASQ\n-j MARK 0x2\/0x2\n/)
    assert.match(listing(filter.chains), /--mark 0x2\/0x2 -j ACCEPT/)
  })
})

describe('the rules that are counted', () => {
  it('are only at their named positions', () => {
    for (const dropsInvalid of [true, false]) {
      for (const localhostNodePorts of [true, false]) {
        const settings = { ...makeSettings('ipv4', { localhostNodePorts }), dropsInvalid }
        const { invalidDropped, localhostAccepted } = countedRules(settings)
        const { chains } = tablesOf([], settings).filter
        const textOf = (rule: CountedRule | undefined): string | undefined => {
          const counted = rule && chains.get(rule.chain)?.at(rule.place)
          return counted && formatRule(counted)
        }
        assert.equal(textOf(invalidDropped), dropsInvalid ? '--ctstate INVALID -j DROP' : undefined)
        assert.equal(
          textOf(localhostAccepted),
          localhostNodePorts
            ? '-s 127.0.0.0/8 "kubernetes localhost nodeports" --mark 0x4000/0x4000 --ctstate DNAT -j RETURN'
            : undefined,
        )
      }
    }
  })
})

describe('the rules that lead to node ports', () => {
  const text = '"kubernetes service nodeports; NOTE: this must be the last rule in this chain"'
  const some = ['192.168.0.1', '127.0.0.1', '10.0.0.1'].map(ip)
  const cases: readonly {
    readonly name: string
    readonly settings: IptablesModeSettings
    readonly rules: readonly string[]
  }[] = [
    {
      name: 'any local address',
      settings: makeSettings(),
      rules: [`${text} --dst-type LOCAL -j KUBE-NODEPORTS`],
    },
    {
      name: 'any local address but 127.0.0.0/8',
      settings: makeSettings('ipv4', { localhostNodePorts: false }),
      rules: [`! -d 127.0.0.0/8 ${text} --dst-type LOCAL -j KUBE-NODEPORTS`],
    },
    {
      name: 'any local IPv6 address but ::1',
      settings: makeSettings('ipv6'),
      rules: [`! -d ::1/128 ${text} --dst-type LOCAL -j KUBE-NODEPORTS`],
    },
    {
      name: 'given addresses',
      settings: makeSettings('ipv4', { nodePortAddresses: some }),
      rules: some.map((address) => `-d ${address}/32 ${text} -j KUBE-NODEPORTS`),
    },
    {
      name: 'given addresses without loopback',
      settings: makeSettings('ipv4', { nodePortAddresses: some, localhostNodePorts: false }),
      rules: ['192.168.0.1', '10.0.0.1'].map((address) => `-d ${address}/32 ${text} -j KUBE-NODEPORTS`),
    },
    {
      name: 'given IPv6 addresses without loopback',
      settings: makeSettings('ipv6', { nodePortAddresses: [ip('fd00::1'), ip('::1')] }),
      rules: [`-d fd00::1/128 ${text} -j KUBE-NODEPORTS`],
    },
    { name: 'no address', settings: makeSettings('ipv4', { nodePortAddresses: [] }), rules: [] },
  ]
  for (const { name, settings, rules } of cases) {
    it(name, () => {
      assert.deepEqual(
        tailOf(settings),
        rules.map((rule) => `nat KUBE-SERVICES ${rule}`),
      )
    })
  }
})

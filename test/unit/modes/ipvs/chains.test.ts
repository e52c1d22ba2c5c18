import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { describeXtRule, type NftChangedObject } from '../../../../src/kernel/index.js'
import { mayChangeRules } from '../../../../src/layers/ipvs/chains.js'
import { compileChains } from '../../../../src/layers/ipvs/testing.js'
import { type IpvsChainSettings } from '../../../../src/layers/ipvs/index.js'
import { cidr } from '../../../support/routes.js'

const byCidr: IpvsChainSettings = {
  family: 'ipv4',
  masqueradeMark: 0x4000,
  masqueradeAll: false,
  localDetector: { kind: 'cidr', cidr: cidr('10.244.0.0/16') },
}

/** `nat KUBE-SERVICES -m set ... -j KUBE-MARK-MASQ`, without comments and byte code. */
function ruleLines(settings: IpvsChainSettings): readonly string[] {
  return compileChains(settings).flatMap((chain) =>
    chain.rules.map((rule) => {
      const { comment: _, ...rest } = rule
      const text = describeXtRule(rest, settings.family).replace(
        /--bytecode "[^"]*"/u,
        '(source = destination)',
      )
      return `${chain.table} ${'hook' in chain ? chain.hook : chain.chain} ${text}`
    }),
  )
}

function lineOf(settings: IpvsChainSettings, start: string): string | undefined {
  return ruleLines(settings).find((line) => line.startsWith(start))
}

const golden = `
mangle KUBE-SOURCE-RANGES-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN
mangle KUBE-SOURCE-RANGES-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN
mangle KUBE-SOURCE-RANGES-FIREWALL -j DROP
mangle KUBE-IPVS-MASQ -s 127.0.0.0/8 -j RETURN
mangle KUBE-IPVS-MASQ ! -s 10.244.0.0/16 -m set --match-set KUBE-CLUSTER-IP dst,dst -j MARK --set-xmark 0x4000/0x4000
mangle KUBE-IPVS-MASQ -m set --match-set KUBE-EXTERNAL-IP dst,dst -j MARK --set-xmark 0x4000/0x4000
mangle KUBE-IPVS-MASQ -m addrtype --src-type LOCAL -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j MARK --set-xmark 0x4000/0x4000
mangle KUBE-IPVS-MASQ -m addrtype ! --src-type LOCAL -m set --match-set KUBE-LOAD-BALANCER-LOCAL dst,dst -j RETURN
mangle KUBE-IPVS-MASQ -m set --match-set KUBE-LOAD-BALANCER dst,dst -j MARK --set-xmark 0x4000/0x4000
mangle KUBE-IPVS-IN -m conntrack --ctstate NEW -m set --match-set KUBE-NO-LOCAL-ENDPOINTS dst,dst -j DROP
mangle KUBE-IPVS-IN ! -s 10.244.0.0/16 -m conntrack --ctstate NEW -m set --match-set KUBE-EXTERNAL-NO-LOCAL dst,dst -j DROP
mangle KUBE-IPVS-IN -m conntrack ! --ctstatus CONFIRMED -j KUBE-IPVS-MASQ
mangle KUBE-IPVS-IN -s 10.244.0.0/16 -j SET --map-set KUBE-EXTERNAL-LOCAL-MARK dst,dst --map-mark
mangle KUBE-IPVS-OUT -m conntrack --ctstate NEW -m set --match-set KUBE-NO-LOCAL-ENDPOINTS dst,dst -j DROP
mangle KUBE-IPVS-OUT -m conntrack --ctstate NEW -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-SOURCE-RANGES-FIREWALL
mangle KUBE-IPVS-OUT -m conntrack ! --ctstatus CONFIRMED -j KUBE-IPVS-MASQ
mangle KUBE-IPVS-OUT -j SET --map-set KUBE-EXTERNAL-LOCAL-MARK dst,dst --map-mark
mangle INPUT -j KUBE-IPVS-IN
mangle OUTPUT -j KUBE-IPVS-OUT
nat KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
nat KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER
nat KUBE-SERVICES ! -s 10.244.0.0/16 -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m set --match-set KUBE-EXTERNAL-IP dst,dst -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m addrtype --src-type LOCAL -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
nat KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j ACCEPT
nat KUBE-SERVICES -m set --match-set KUBE-EXTERNAL-IP dst,dst -j ACCEPT
nat KUBE-SERVICES -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j ACCEPT
nat KUBE-SERVICES -m set --match-set KUBE-NODE-PORT-IP dst -j KUBE-NODE-PORT
nat KUBE-POSTROUTING ! -o lo -m bpf (source = destination) -j KUBE-MARK-MASQ
nat KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
nat KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
nat KUBE-POSTROUTING -j MASQUERADE --random-fully
nat KUBE-NODE-PORT -p tcp -m addrtype ! --src-type LOCAL -m set --match-set KUBE-NODE-PORT-LOCAL-TCP dst -j RETURN
nat KUBE-NODE-PORT -p tcp -m set --match-set KUBE-NODE-PORT-TCP dst -j KUBE-MARK-MASQ
nat KUBE-NODE-PORT -p udp -m addrtype ! --src-type LOCAL -m set --match-set KUBE-NODE-PORT-LOCAL-UDP dst -j RETURN
nat KUBE-NODE-PORT -p udp -m set --match-set KUBE-NODE-PORT-UDP dst -j KUBE-MARK-MASQ
nat KUBE-NODE-PORT -p sctp -m addrtype ! --src-type LOCAL -m set --match-set KUBE-NODE-PORT-LOCAL-SCTP-HASH dst,dst -j RETURN
nat KUBE-NODE-PORT -p sctp -m set --match-set KUBE-NODE-PORT-SCTP-HASH dst,dst -j KUBE-MARK-MASQ
nat KUBE-LOAD-BALANCER -m addrtype ! --src-type LOCAL -m set --match-set KUBE-LOAD-BALANCER-LOCAL dst,dst -j RETURN
nat KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
nat KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
nat PREROUTING -j KUBE-SERVICES
nat OUTPUT -j KUBE-SERVICES
nat POSTROUTING -j KUBE-POSTROUTING
filter KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
filter KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
filter KUBE-NODE-PORT -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT
filter KUBE-PROXY-FIREWALL -m conntrack --ctstate NEW -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-SOURCE-RANGES-FIREWALL
filter KUBE-SOURCE-RANGES-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN
filter KUBE-SOURCE-RANGES-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN
filter KUBE-SOURCE-RANGES-FIREWALL -j DROP
filter KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-NO-ENDPOINTS dst,dst -j REJECT --reject-with icmp-port-unreachable
filter KUBE-IPVS-FILTER -m set --match-set KUBE-LOAD-BALANCER dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-CLUSTER-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j RETURN
filter KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT --reject-with icmp-port-unreachable
filter INPUT -j KUBE-PROXY-FIREWALL
filter INPUT -j KUBE-IPVS-FILTER
filter INPUT -j KUBE-NODE-PORT
filter FORWARD -j KUBE-PROXY-FIREWALL
filter FORWARD -j KUBE-FORWARD
`

describe('the fixed chains', () => {
  it('are these for IPv4 with a cluster network', () => {
    assert.equal(`\n${ruleLines(byCidr).join('\n')}\n`, golden)
  })

  const masquerades = 'nat KUBE-SERVICES'
  const clusterIPs = (settings: IpvsChainSettings) =>
    ruleLines(settings).find((line) => line.startsWith(masquerades) && /CLUSTER-IP.*MASQ/u.test(line))

  it('masquerade traffic to cluster IPs by the settings (F-047, F-048)', () => {
    assert.match(clusterIPs(byCidr) ?? '', /! -s 10\.244\.0\.0\/16 .* dst,dst/u)
    assert.match(clusterIPs({ ...byCidr, masqueradeAll: true }) ?? '', /SERVICES -m set .* dst,dst/u)
    assert.match(clusterIPs({ ...byCidr, localDetector: undefined }) ?? '', / src,dst /u)
    const cni: IpvsChainSettings = { ...byCidr, localDetector: { kind: 'interface', name: 'cni+' } }
    assert.match(clusterIPs(cni) ?? '', /! -i cni\+ /u)
    assert.match(lineOf(cni, 'mangle KUBE-IPVS-IN -i') ?? '', / -i cni\+ -j SET .* --map-mark$/u)
    assert.match(lineOf(cni, 'mangle KUBE-IPVS-IN ! -i') ?? '', / ! -i cni\+ .*NO-LOCAL dst,dst -j DROP$/u)
  })

  it('without a detector treat no client as a pod or as external (F-052)', () => {
    const lines = ruleLines({ ...byCidr, localDetector: undefined })
    const input = lines.filter((line) => line.startsWith('mangle KUBE-IPVS-IN'))
    const marking = lineOf(byCidr, 'mangle KUBE-IPVS-IN -m conntrack ! --ctstatus')
    assert.deepEqual(input, [lineOf(byCidr, 'mangle KUBE-IPVS-IN'), marking])
    assert.match(input[0] ?? '', /KUBE-NO-LOCAL-ENDPOINTS/u)
  })

  it('use separate sets and the IPv6 loopback address for IPv6', () => {
    const lines = ruleLines({ ...byCidr, family: 'ipv6', localDetector: undefined })
    assert.ok(lines.includes('nat KUBE-SERVICES -s ::1/128 -j RETURN'))
    const sets = lines.flatMap((line) => /(?:match|map)-set (\S+)/u.exec(line)?.[1] ?? [])
    assert.deepEqual(
      sets.filter((name) => !name.startsWith('KUBE-6-') || name.length > 31),
      [],
    )
  })
})

describe('a change of nf_tables by another program', () => {
  const cases: readonly (readonly [name: string, object: Partial<NftChangedObject>, concerns: boolean])[] = [
    ['of the rules of one of our chains', { kind: 'rules', name: 'KUBE-SERVICES' }, true],
    ['of a hook with our rules', { kind: 'rules', name: 'PREROUTING' }, true],
    ['that makes a chain of its own', { kind: 'chain', name: 'CNI-DN-1' }, false],
    ['that gives a chain another name, perhaps one of ours', { kind: 'chain-update', name: 'OLD' }, true],
    [
      'that gives a chain of its own table another name',
      { kind: 'chain-update', table: 'mine', name: 'OLD' },
      false,
    ],
    ['of the other family', { kind: 'rules', family: 'ipv6', name: 'KUBE-SERVICES' }, false],
  ]
  for (const [name, object, concerns] of cases) {
    it(`${concerns ? 'may concern our rules' : 'does not concern our rules'}: ${name}`, () => {
      const objects = [{ kind: 'rules', family: 'ipv4', table: 'nat', name: '', ...object } as const]
      const change = { kind: 'transaction', generation: 7, pid: 42, program: 'nft', objects } as const
      assert.equal(mayChangeRules(change, 'ipv4'), concerns)
    })
  }
})

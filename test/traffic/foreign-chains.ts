// Chains of other programs on a node whose x_tables live in nf_tables, written by the real tools: kubelet's, portmap's, Docker's and
// firewalld's. The pods of the lab are on the interface `pods`, clients come by `eth0`.
import type { Namespace } from '../support/namespaces.js'
import { type Family, families, type Pair } from './table/world.js'

export interface ForeignOptions {
  /** The policy of FORWARD: Docker sets DROP when it has switched forwarding on. */
  readonly forwardPolicy: 'ACCEPT' | 'DROP'
  /** The chain that portmap marks with. `KUBE-MARK-MASQ` (its option `externalSetMarkChain`) must exist. */
  readonly markChain: 'KUBE-MARK-MASQ' | 'CNI-HOSTPORT-SETMARK'
  /** The pod behind the host port. */
  readonly pods: Pair
  /** The networks of the pods. */
  readonly networks: Pair
  /** Whether firewalld is among them, which closes the ports of the node itself. Default: true. */
  readonly firewalld?: boolean
}

/** The port of every address of the node that portmap leads to a pod. */
export const hostPort = 8088
const podPort = 8080
const container = 'CNI-DN-4a1b7c2d9e0f3a5b6c7d8'

/** Writes all of them in both families. */
export async function writeForeignChains(node: Namespace, options: ForeignOptions): Promise<void> {
  for (const family of families) {
    const tool = family === 'IPv4' ? 'iptables-nft' : 'ip6tables-nft'
    await feed(node, xtablesText(family, options), `${tool}-restore`, '--noflush')
    // kubelet shares this chain with kube-proxy, and looks for the jump first.
    for (const hook of ['INPUT', 'OUTPUT'])
      await node.must(
        'sh',
        '-c',
        `${tool} -C ${hook} -j KUBE-FIREWALL 2>&1 || ${tool} -I ${hook} -j KUBE-FIREWALL`,
      )
  }
  if (options.firewalld !== false) await feed(node, firewalldText, 'nft', '-f', '-')
}

async function feed(node: Namespace, text: string, ...command: readonly string[]): Promise<void> {
  await node.must('sh', '-c', 'text=$1; shift; printf "%s" "$text" | "$@"', 'sh', text, ...command)
}

function xtablesText(family: Family, { forwardPolicy, markChain, pods, networks }: ForeignOptions): string {
  const isIPv4 = family === 'IPv4'
  const server = isIPv4 ? `${pods[family]}:${podPort}` : `[${pods[family]}]:${podPort}`
  const bridge = isIPv4 ? '172.17.0.0/16' : 'fd00:172:17::/64'
  const localnet =
    '! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections"'
  const states = '-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT'
  return `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-MASQ - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
:${container} - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT ! -d ${isIPv4 ? '127.0.0.0/8' : '::1/128'} -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s ${bridge} ! -o docker0 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"cbr0\\" id: \\"4a1b7c2d\\"" -m multiport --dports ${hostPort} -j ${container}
-A ${container} -s ${networks[family]} -p tcp -m tcp --dport ${hostPort} -j ${markChain}
-A ${container} -p tcp -m tcp --dport ${hostPort} -j ${markChain}
-A ${container} -p tcp -m tcp --dport ${hostPort} -j DNAT --to-destination ${server}
-A DOCKER -i docker0 -j RETURN
COMMIT
*filter
:FORWARD ${forwardPolicy} [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-FIREWALL - [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
${isIPv4 ? `-A KUBE-FIREWALL ${localnet} ${states} -j DROP` : ''}
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -j RETURN
COMMIT
`
}

/** The table of firewalld 1.3 with eth0 in a zone that accepts SSH, and the pods in the trusted zone. */
const firewalldText = `table inet firewalld {
  chain mangle_PREROUTING { type filter hook prerouting priority -140; policy accept; }
  chain nat_PREROUTING { type nat hook prerouting priority -90; policy accept; }
  chain nat_OUTPUT { type nat hook output priority -90; policy accept; }
  chain nat_POSTROUTING { type nat hook postrouting priority 110; policy accept; }
  chain filter_PREROUTING {
    type filter hook prerouting priority 10; policy accept;
    icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
    meta nfproto ipv6 fib saddr . mark . iif oif missing drop
  }
  chain filter_IN_public_allow {
    tcp dport 22 accept
  }
  chain filter_INPUT_ZONES {
    iifname "eth0" goto filter_IN_public
    iifname "pods" accept
    goto filter_IN_public
  }
  chain filter_IN_public {
    jump filter_IN_public_allow
    meta l4proto { icmp, ipv6-icmp } accept
  }
  chain filter_INPUT {
    type filter hook input priority 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    jump filter_INPUT_ZONES
    ct state invalid drop
    reject with icmpx type admin-prohibited
  }
  chain filter_FORWARD {
    type filter hook forward priority 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    reject with icmpx type admin-prohibited
  }
  chain filter_OUTPUT {
    type filter hook output priority 10; policy accept;
    ct state { established, related } accept
    oifname "lo" accept
  }
}
`

/** Chains of kube-proxy's and Viaduct's, which a takeover may change. */
const ownChain =
  /^KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|POSTROUTING|MARK-MASQ|FORWARD|PROXY-FIREWALL|PROXY-CANARY|(?:SVC|SVL|EXT|FW|SEP)-\S+)$/u

/** All rules of others in nf_tables, without counters: as iptables-nft-save prints the shared tables, and as nft lists everything. */
export async function foreignChains(node: Namespace): Promise<readonly string[]> {
  const [ipv4, ipv6, listed] = await Promise.all([
    node.must('iptables-nft-save'),
    node.must('ip6tables-nft-save'),
    node.must('nft', 'list', 'ruleset'),
  ])
  return [...foreignSaved(ipv4), ...foreignSaved(ipv6), ...foreignListed(listed)]
}

function foreignSaved(text: string): readonly string[] {
  return text
    .split('\n')
    .filter((line) => {
      const [, first = '', second] = /^(?::|-A )(\S+)(?: .*-j (\S+))?/u.exec(line) ?? []
      return line !== '' && !line.startsWith('#') && !isOwnRule(first, second)
    })
    .map((line) => line.replace(/ \[\d+:\d+\]$/u, ''))
}

/** A rule of a base chain that leads to one of our chains is ours too. */
function isOwnRule(chain: string, target: string | undefined): boolean {
  const isBase = /^[A-Z]+$/u.test(chain) && chain !== 'DOCKER'
  return ownChain.test(chain) || (isBase && target !== undefined && ownChain.test(target))
}

function foreignListed(text: string): readonly string[] {
  const withoutOwn = text
    .replaceAll(/^table ip6? (?:kube-proxy|viaduct-\S+) \{$[^]*?^\}$/gmu, '')
    .replaceAll(/^\tchain (\S+) \{$[^]*?^\t\}$/gmu, (block, name: string) =>
      ownChain.test(name) ? '' : block,
    )
  let chain = ''
  return withoutOwn.split('\n').flatMap((line) => {
    chain = /^\tchain (\S+) \{$/u.exec(line)?.[1] ?? chain
    const target = / jump (\S+)/u.exec(line)?.[1]
    const isForeign = line.trim() !== '' && !isOwnRule(chain, target)
    return isForeign ? [line.replace(/counter packets \d+ bytes \d+/u, 'counter')] : []
  })
}

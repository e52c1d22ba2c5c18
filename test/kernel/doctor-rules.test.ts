// viaduct doctor: rules, sets, interfaces and processes of other programs, made for real in this network namespace. Each is named with its
// cause and remedy. out/transcripts/doctor-rules.txt has the findings as the command prints them.
import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { DoctorLab, sh } from '../support/doctor-lab.js'
import { Program } from '../support/processes.js'
import { withNetAdminAlone } from '../support/rights.js'

requireFreshNamespace()

/** Lets packets of bridges pass by the rules; they do where br_netfilter is not loaded. */
const unfiltered = 'test ! -e /proc/sys/net/bridge || echo 0 > /proc/sys/net/bridge/bridge-nf-call-iptables'

const wall = "nft 'add table inet wall; add chain inet wall forward { type filter hook forward priority 0;"
/** The server of these tests is on the loopback interface. */
const acceptClusterIPs =
  'iptables-legacy -A INPUT -i lo -j ACCEPT; iptables-legacy -A INPUT -d 10.96.0.0/12 -j ACCEPT'

describe('viaduct doctor, on a node with other programs', { timeout: 240_000 }, () => {
  const lab = new DoctorLab('doctor-rules.txt')
  let impostor: Program | undefined
  const startImpostor = async (): Promise<void> => {
    copyFileSync('/bin/cat', join(lab.folder, 'kube-proxy'))
    impostor = new Program([join(lab.folder, 'kube-proxy')])
    impostor.write('ready\n')
    await impostor.line((line) => line === 'ready')
  }

  lab.names([
    {
      what: 'a running kube-proxy',
      make: startImpostor,
      undo: async () => await impostor?.kill(),
      check: 'kube-proxy-process',
      status: 'broken',
      seen: /kube-proxy runs \(pid \d+\)/,
    },
    {
      what: 'a running kube-proxy whose network namespace it may not read',
      make: startImpostor,
      undo: async () => await impostor?.kill(),
      options: { wrapper: withNetAdminAlone() },
      check: 'kube-proxy-process',
      status: 'unknown',
      seen: /^kube-proxy runs \(pid \d+\), and this process may not read in which network namespace$/,
    },
    {
      what: 'processes that it cannot see',
      options: { wrapper: ['unshare', '--pid', '--fork', '--mount-proc'] },
      check: 'kube-proxy-process',
      status: 'unknown',
      seen: /^no kube-proxy runs in this PID namespace/,
    },
    {
      what: "kube-proxy's chains in the legacy tables",
      make: () => sh('iptables-legacy -t nat -N KUBE-SERVICES'),
      undo: () => sh('iptables-legacy -t nat -X KUBE-SERVICES'),
      check: 'leftovers',
      status: 'warning',
      seen: /1 chains of kube-proxy in the legacy tables/,
    },
    {
      what: 'a table of a proxy in nftables mode',
      make: () => sh("nft 'add table ip kube-proxy; add chain ip kube-proxy services'"),
      undo: () => sh('nft delete table ip kube-proxy'),
      options: { flags: ['--proxy-mode=userspace'] },
      check: 'leftovers',
      status: 'warning',
      seen: /table kube-proxy with 1 chains/,
    },
    {
      what: 'a legacy rule that sets our mark bit',
      make: () => sh('iptables-legacy -t mangle -A PREROUTING -p tcp -j MARK --or-mark 0x4000'),
      undo: () => sh('iptables-legacy -t mangle -F'),
      check: 'mark-bits',
      status: 'warning',
      seen: /rule 1 of chain PREROUTING of table ip mangle in the legacy tables sets the mark bits 0x4000/,
    },
    {
      what: 'an nft rule that matches our mark bit',
      make: () =>
        sh(
          "nft 'add table inet mine; add chain inet mine c; add rule inet mine c meta mark & 0x4000 == 0x4000 accept'",
        ),
      undo: () => sh('nft delete table inet mine'),
      check: 'mark-bits',
      status: 'warning',
      seen: /rule 1 of chain c of table inet mine in nf_tables matches the mark bits 0x4000/,
    },
    {
      what: 'an nft rule that sets our mark bit',
      make: () =>
        sh(
          "nft 'add table ip6 mine; add chain ip6 mine c; add rule ip6 mine c meta mark set meta mark or 0x8000'",
        ),
      undo: () => sh('nft delete table ip6 mine'),
      check: 'mark-bits',
      status: 'warning',
      seen: /table ip6 mine in nf_tables sets the mark bits 0x8000/,
    },
    {
      what: 'a policy routing rule that matches our mark bit',
      make: () => sh('ip -4 rule add fwmark 0x4000/0x4000 priority 100 table 100'),
      undo: () => sh('ip -4 rule delete priority 100'),
      check: 'mark-bits',
      status: 'warning',
      seen: /^ip -4 rule "100: fwmark 0x4000\/0x4000 lookup 100" depends on the mark bits 0x4000$/,
    },
    {
      what: 'a policy routing rule that compares the whole mark',
      make: () => sh('ip -6 rule add not fwmark 0x1 priority 101 unreachable'),
      undo: () => sh('ip -6 rule delete priority 101'),
      check: 'mark-bits',
      status: 'warning',
      seen: /^ip -6 rule "101: not fwmark 0x1 unreachable" depends on the mark bits 0xc000$/,
      remedy:
        /^Let the rule compare only its own bits, as in fwmark 0x1\/0x1; none of them may be in 0xc000\.$/,
    },
    {
      what: 'many policy routing rules',
      make: () =>
        sh('for i in $(seq 100 109); do ip rule add fwmark 0x4000/0x4000 priority $i table 100; done'),
      undo: () => sh('for i in $(seq 100 109); do ip rule delete priority $i; done'),
      check: 'mark-bits',
      status: 'warning',
      seen: /^2 more rules of policy routing depend on the mark bits 0xc000$/,
    },
    {
      what: 'many legacy rules',
      make: () =>
        sh('for i in $(seq 10); do iptables-legacy -t mangle -A INPUT -j MARK --or-mark 0x4000; done'),
      undo: () => sh('iptables-legacy -t mangle -F'),
      check: 'mark-bits',
      status: 'warning',
      seen: /^2 more rules match or set the mark bits 0xc000$/,
    },
    {
      what: 'a nat chain before ours',
      make: () =>
        sh("nft 'add table ip early; add chain ip early pre { type nat hook prerouting priority -110; }'"),
      undo: () => sh('nft delete table ip early'),
      check: 'nat-order',
      status: 'warning',
      seen: /chain pre of table ip early in nf_tables has priority -110/,
    },
    {
      what: 'a chain at hook forward that drops',
      make: () =>
        sh(
          "nft 'add table inet wall; add chain inet wall forward { type filter hook forward priority 0; policy drop; }'",
        ),
      undo: () => sh('nft delete table inet wall'),
      check: 'forward',
      status: 'warning',
      seen: /^the policy of chain forward of table inet wall in nf_tables drops forwarded connections$/,
      remedy: /nft insert rule inet wall forward ct status dnat accept/,
    },
    {
      // It found nothing.
      what: 'a chain at hook forward that jumps to one that drops',
      make: () =>
        sh(`${wall} policy accept; }; add chain inet wall deny'
nft 'add rule inet wall deny ct state established accept; add rule inet wall deny drop; add rule inet wall forward jump deny'`),
      undo: () => sh('nft delete table inet wall'),
      check: 'forward',
      status: 'warning',
      seen: /^rule 2 of chain deny of table inet wall in nf_tables \(-j DROP\) drops forwarded connections$/,
      remedy: /nft insert rule inet wall forward ct status dnat accept/,
    },
    {
      what: 'the policy DROP of the legacy FORWARD',
      make: () => sh('iptables-legacy -P FORWARD DROP'),
      undo: () => sh('iptables-legacy -P FORWARD ACCEPT'),
      check: 'forward',
      status: 'warning',
      seen: /^the policy of chain FORWARD of table ip filter in the legacy tables drops/,
      remedy: /: iptables-legacy -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT\.$/,
    },
    {
      what: 'a firewall that rejects what comes in, in userspace mode',
      make: () =>
        sh(
          `nft 'add table inet firewalld; add chain inet firewalld filter_INPUT { type filter hook input priority 10; }'
nft 'add rule inet firewalld filter_INPUT iifname lo accept; add rule inet firewalld filter_INPUT reject'`,
        ),
      undo: () => sh('nft delete table inet firewalld'),
      options: { flags: ['--proxy-mode=userspace'] },
      check: 'input',
      status: 'warning',
      seen: /^rule 2 of chain filter_INPUT of table inet firewalld in nf_tables \(reject .*\) drops IPv4 .* the network of cluster IPs$/,
    },
    {
      what: 'the policy DROP of the legacy INPUT, in userspace mode',
      make: () => sh('iptables-legacy -P INPUT DROP; iptables-legacy -I INPUT -i lo -j ACCEPT'),
      undo: () => sh('iptables-legacy -P INPUT ACCEPT; iptables-legacy -F INPUT'),
      options: { flags: ['--proxy-mode=userspace'] },
      check: 'input',
      status: 'warning',
      seen: /^the policy of chain INPUT of table ip filter in the legacy tables drops IPv4 connections, .* TCP ports 30000 to 32767/,
    },
    {
      what: 'a firewall that accepts the cluster IPs alone, in userspace mode',
      make: () => sh(`iptables-legacy -P INPUT DROP; ${acceptClusterIPs}`),
      undo: () => sh('iptables-legacy -P INPUT ACCEPT; iptables-legacy -F INPUT'),
      options: { flags: ['--proxy-mode=userspace'] },
      check: 'input',
      status: 'warning',
      seen: /^the policy of chain INPUT .* no earlier rule accepts all of those to TCP ports 30000 to 32767 \(node ports\)$/,
    },
    {
      what: 'a firewall that accepts known connections and one address of the node, in userspace mode',
      make: () =>
        sh(
          'iptables-legacy -P INPUT DROP; iptables-legacy -A INPUT -d 192.0.2.10 -j ACCEPT; ' +
            'iptables-legacy -A INPUT -d 10.96.0.0/12 -m conntrack --ctstate ESTABLISHED -j ACCEPT',
        ),
      undo: () => sh('iptables-legacy -P INPUT ACCEPT; iptables-legacy -F INPUT'),
      options: { flags: ['--proxy-mode=userspace'] },
      check: 'input',
      status: 'warning',
      seen: /^the policy of chain INPUT .* no earlier rule accepts all of those to the network of cluster IPs$/,
    },
    {
      what: 'known connections to the node ports, in userspace mode',
      make: () =>
        sh(
          'iptables-legacy -P INPUT DROP; ' +
            'iptables-legacy -A INPUT -p tcp --dport 1024:65535 -m state --state ESTABLISHED -j ACCEPT',
        ),
      undo: () => sh('iptables-legacy -P INPUT ACCEPT; iptables-legacy -F INPUT'),
      options: { flags: ['--proxy-mode=userspace'] },
      check: 'input',
      status: 'warning',
      seen: /^the policy of chain INPUT .* no earlier rule accepts all of those to TCP ports 30000 to 32767 \(node ports\)$/,
    },
    {
      what: 'rules in both flavours of x_tables',
      make: () => sh('iptables-legacy -A INPUT -i lo -j ACCEPT; iptables-nft -A INPUT -i lo -j ACCEPT'),
      undo: () => sh('iptables-legacy -F INPUT; iptables-nft -F INPUT; nft delete table ip filter'),
      check: 'iptables-flavour',
      status: 'warning',
      seen: /^1 rules of iptables are in nf_tables and 1 in the legacy tables/,
    },
    {
      what: "kube-router's service proxy",
      make: () => sh('ip link add kube-dummy-if type bridge'),
      undo: () => sh('ip link delete kube-dummy-if'),
      check: 'other-proxies',
      status: 'broken',
      seen: /the link kube-dummy-if: kube-router serves Services/,
    },
    {
      what: "Antrea's proxyAll",
      make: () => sh('ipset create ANTREA-NODEPORT-IP hash:ip'),
      undo: () => sh('ipset destroy ANTREA-NODEPORT-IP'),
      check: 'other-proxies',
      status: 'broken',
      seen: /the set ANTREA-NODEPORT-IP: Antrea serves all Services/,
    },
    {
      what: "Antrea's proxyAll with IPv6 only",
      make: () => sh('ipset create ANTREA-NODEPORT-IP6 hash:ip,port family inet6'),
      undo: () => sh('ipset destroy ANTREA-NODEPORT-IP6'),
      check: 'other-proxies',
      status: 'broken',
      seen: /the set ANTREA-NODEPORT-IP6: Antrea serves all Services/,
    },
    {
      what: "Antrea's proxyAll with nftables",
      make: () => sh("nft 'add table ip antrea; add chain ip antrea nat-prerouting-proxy-all'"),
      undo: () => sh('nft delete table ip antrea'),
      check: 'other-proxies',
      status: 'broken',
      seen: /the chain antrea nat-prerouting-proxy-all: Antrea serves all Services/,
    },
    {
      what: 'the eBPF data plane of Calico',
      make: () => sh('ip link add bpfin.cali type veth peer name bpfout.cali'),
      undo: () => sh('ip link delete bpfin.cali'),
      check: 'other-proxies',
      status: 'broken',
      seen: /the link bpfin\.cali: the eBPF data plane of Calico serves Services/,
    },
    {
      what: 'a bridge of pods whose packets pass no rules',
      make: () => sh(`ip link add cni0 type bridge; ip address add 10.244.0.1/24 dev cni0; ${unfiltered}`),
      undo: () => sh('ip link delete cni0'),
      check: 'bridge-filter',
      status: 'broken',
      seen: /^pods are on the bridge cni0, and (?:br_netfilter is not loaded|net\.bridge\.bridge-nf-call-iptables is 0)$/,
      remedy: /sysctl -w net\.bridge\.bridge-nf-call-iptables=1 /,
    },
    {
      what: 'Cilium, of which the mode is not known',
      make: () => sh('ip link add cilium_host type bridge'),
      undo: () => sh('ip link delete cilium_host'),
      check: 'other-proxies',
      status: 'unknown',
      seen: /the link cilium_host: Cilium runs/,
    },
  ])

  // Each was a warning.
  const remedies = [
    {
      what: 'in a chain to which the one at hook forward jumps',
      make: `${wall} policy drop; }; add chain inet wall allow; add rule inet wall allow ct status dnat accept'
nft add rule inet wall forward jump allow`,
      undo: 'nft delete table inet wall',
    },
    {
      what: 'by the remedy for the legacy FORWARD',
      make: 'iptables-legacy -P FORWARD DROP; iptables-legacy -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT',
      undo: 'iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F FORWARD',
    },
    {
      what: 'in a chain to which the one at hook input jumps, in userspace mode',
      make: `nft 'add table inet wall; add chain inet wall in { type filter hook input priority 0; policy drop; }; add chain inet wall allow'
nft 'add rule inet wall in iifname lo accept; add rule inet wall allow ip daddr 10.96.0.0/12 accept; add rule inet wall allow ip6 daddr fd00:10:96::/112 accept'
nft 'add rule inet wall allow tcp dport 30000-32767 accept; add rule inet wall in jump allow'`,
      undo: 'nft delete table inet wall',
      flags: ['--proxy-mode=userspace'],
    },
    {
      what: 'by the remedy for the legacy INPUT, in userspace mode',
      make: `iptables-legacy -P INPUT DROP; ${acceptClusterIPs}; iptables-legacy -A INPUT -p tcp --dport 30000:32767 -j ACCEPT`,
      undo: 'iptables-legacy -P INPUT ACCEPT; iptables-legacy -F INPUT',
      flags: ['--proxy-mode=userspace'],
    },
  ]
  for (const { what, make, undo, flags = [] } of remedies)
    it(`accepts a firewall that accepts Services ${what}`, async () => {
      await sh(make)
      try {
        assert.deepEqual((await lab.problems({ flags })).found, [])
      } finally {
        await sh(undo)
      }
    })

  it('accepts the rules of flannel, which leave packets with the mark of kube-proxy alone', async () => {
    await sh(`iptables-legacy -t nat -N FLANNEL-POSTRTG
iptables-legacy -t nat -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -m comment --comment "flanneld masq" -j RETURN
iptables-legacy -t nat -A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
nft 'add table ip flannel-ipv4; add chain ip flannel-ipv4 postrtg { type nat hook postrouting priority srcnat; }'
nft 'add rule ip flannel-ipv4 postrtg meta mark 0x4000 return'`)
    try {
      assert.deepEqual((await lab.problems()).found, [])
    } finally {
      await sh('iptables-legacy -t nat -F; iptables-legacy -t nat -X; nft delete table ip flannel-ipv4')
    }
  })

  it('accepts a bridge that has no pods', async () => {
    await sh(`ip link add docker0 type bridge; ip address add 172.17.0.1/16 dev docker0; ${unfiltered}`)
    try {
      assert.deepEqual((await lab.problems()).found, [])
    } finally {
      await sh('ip link delete docker0')
    }
  })

  it('accepts policy routing rules that look at other bits of the mark', async () => {
    await sh(
      'ip rule add fwmark 0x80/0x80 priority 100 table 100; ip rule add to 192.0.2.0/24 priority 101 table 100',
    )
    try {
      assert.deepEqual((await lab.problems()).found, [])
    } finally {
      await sh('ip rule delete priority 100; ip rule delete priority 101')
    }
  })
})

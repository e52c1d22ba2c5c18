// viaduct doctor: chains of type nat of other programs, compared with Viaduct's as the kernel orders them. Before, only priorities below -100
// counted, so that the chain at -100 that was registered later, and came first, was called harmless. Issue 35, E3.
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { DoctorLab, sh } from '../support/doctor-lab.js'

requireFreshNamespace()

/** A chain that leads to a rule that translates, as portmap and Docker have it. */
const translating = (priority: number): string =>
  `nft 'add table ip late; add chain ip late ports; add rule ip late ports tcp dport 8080 dnat to 10.244.1.10:80
add chain ip late pre { type nat hook prerouting priority ${priority}; }; add rule ip late pre fib daddr type local jump ports'`
const dropTable = (): Promise<unknown> => sh('nft delete table ip late')
const legacy = { flags: ['--proxy-mode=iptables', '--iptables-flavour=legacy'] }
const nft = { flags: ['--proxy-mode=iptables', '--iptables-flavour=nft'] }

describe('viaduct doctor, beside nat chains of other programs', { timeout: 240_000 }, () => {
  const lab = new DoctorLab()
  lab.names([
    {
      what: 'a chain before that of nftables mode',
      make: () =>
        sh("nft 'add table inet late; add chain inet late pre { type nat hook output priority -102; }'"),
      undo: () => sh('nft delete table inet late'),
      check: 'nat-order',
      status: 'warning',
      seen: /^chain pre of table inet late in nf_tables has priority -102, before -101$/,
      remedy: /^Let the other program use a priority above -101, /,
    },
    {
      what: 'a chain that translates, at the priority of nftables mode',
      make: () => sh(translating(-101)),
      undo: dropTable,
      check: 'nat-order',
      status: 'warning',
      seen: /^chain pre of table ip late in nf_tables has priority -101, as Viaduct's rules have, and may translate connections by rule 1 of chain ports of table ip late in nf_tables \(".*dnat.*"\)$/,
    },
    {
      what: 'a chain that translates, at the priority of the legacy table nat',
      make: () => sh(translating(-100)),
      undo: dropTable,
      options: legacy,
      check: 'nat-order',
      status: 'warning',
      seen: /has priority -100, as Viaduct's rules have/,
      remedy: /use nftables mode, whose chains come before those with priority -100\.$/,
    },
    {
      what: 'a rule before the jump to KUBE-SERVICES, in the flavour nft',
      make: () =>
        sh(`iptables-nft -t nat -N KUBE-SERVICES; iptables-nft -t nat -A OUTPUT -d 10.96.0.9 -j ACCEPT
iptables-nft -t nat -A OUTPUT -j KUBE-SERVICES`),
      undo: () => sh('nft delete table ip nat'),
      options: nft,
      check: 'nat-rules',
      status: 'warning',
      seen: /^rule 1 of chain OUTPUT of table ip nat in nf_tables \("-d 10\.96\.0\.9\/32 -j ACCEPT"\) comes before the jump to KUBE-SERVICES$/,
    },
  ])

  const harmless = [
    { what: 'a chain that translates at -100, in nftables mode', make: translating(-100), options: {} },
    { what: 'a chain that translates at -100, in the flavour nft', make: translating(-100), options: nft },
    {
      what: 'a chain at the priority of the legacy table nat that translates nothing',
      make: "nft 'add table ip late; add chain ip late pre { type nat hook prerouting priority -100; }; add rule ip late pre accept'",
      options: legacy,
    },
    {
      what: 'a chain that translates sources',
      make: "nft 'add table ip late; add chain ip late post { type nat hook postrouting priority 0; }; add rule ip late post masquerade'",
      options: {},
    },
  ]
  for (const { what, make, options } of harmless)
    it(`accepts ${what}`, async () => {
      await sh(make)
      try {
        const { found } = await lab.problems(options)
        assert.deepEqual(
          found.filter(({ check }) => check === 'nat-order'),
          [],
        )
      } finally {
        await dropTable()
      }
    })
})

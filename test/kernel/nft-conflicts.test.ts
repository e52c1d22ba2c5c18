// Objects of nf_tables that other programs make with nft, and that keep packets from Viaduct's rules. Before, the agent used such tables
// and chains silently, and named no barrier beside filter FORWARD of the other flavour.
import assert from 'node:assert/strict'
import { after, beforeEach, describe, it } from 'node:test'
import { NftConflicts, openConflicts } from '../../src/host/index.js'
import type { XtFlavour } from '../../src/kernel/index.js'
import { requireFreshNamespace } from '../contract/fresh-namespace.js'
import { openRealKernel } from '../contract/real-kernel.js'
import { MemoryLog } from '../support/pipeline-lab.js'
import { mustRun } from '../support/processes.js'

requireFreshNamespace()

const kernel = openRealKernel()
after(async () => await kernel.close())

async function nft(...commands: readonly string[]): Promise<void> {
  for (const command of commands)
    await mustRun(command.startsWith('iptables-nft ') ? command.split(' ') : ['nft', command])
}

const conflict = 'warn Rules of other programs conflict with Viaduct: '
const recovery = 'info Rules of other programs no longer conflict with Viaduct'

/** A function that looks, and returns the new lines. */
function lookIn(inUse: XtFlavour | undefined): () => Promise<readonly string[]> {
  const log = new MemoryLog()
  const conflicts = openConflicts(log)
  const options = {
    kernel,
    inUse,
    hasOwnTable: true,
    tables: ['filter', 'nat'],
    families: ['ipv4', 'ipv6'],
    log,
    conflicts,
  } as const
  const found = new NftConflicts(options)
  return async () => {
    const before = log.lines.length
    await found.look()
    return log.lines.slice(before).map(({ level, message }) => `${level} ${message}`)
  }
}

/** The base chains as firewalld makes them, with the rules that decide about forwarded packets. */
const firewalld = `add table inet firewalld
add chain inet firewalld filter_FORWARD { type filter hook forward priority 10; policy accept; }
add rule inet firewalld filter_FORWARD ct state { established, related } accept
add rule inet firewalld filter_FORWARD ct status dnat accept
add rule inet firewalld filter_FORWARD iifname "lo" accept
add rule inet firewalld filter_FORWARD ct state invalid drop
add rule inet firewalld filter_FORWARD reject with icmpx admin-prohibited`

interface Case {
  readonly what: string
  readonly flavours: readonly (XtFlavour | undefined)[]
  readonly commands: readonly string[]
  /** The report; undefined: none. */
  readonly report: string | undefined
  /** Ends the conflict: commands of nft, or of iptables-nft with its name. */
  readonly remedy?: readonly string[]
}

const all = ['nft', 'legacy', undefined] as const
const mine =
  'table inet mine; add chain inet mine forward { type filter hook forward priority 0; policy drop; }'

const cases: readonly Case[] = [
  {
    what: 'a shared table that is dormant',
    flavours: ['nft'],
    commands: ['add table ip nat { flags dormant; }'],
    report:
      "IPv4 table nat of nf_tables is dormant, so that no packet enters Viaduct's chains in it; " +
      '"nft add table ip nat" wakes it',
    remedy: ['add table ip nat'],
  },
  {
    what: 'a dormant table that the mode does not use',
    flavours: ['legacy', undefined],
    commands: ['add table ip nat { flags dormant; }'],
    report: undefined,
  },
  // The rules had no effect, and nothing said so. Issue 35, E4.
  {
    what: 'a rule before the jump to KUBE-SERVICES',
    flavours: ['nft'],
    commands: [
      'iptables-nft -t nat -N KUBE-SERVICES',
      'iptables-nft -t nat -A PREROUTING -p tcp --dport 30080 -j ACCEPT',
      'iptables-nft -t nat -A PREROUTING -j KUBE-SERVICES',
      'iptables-nft -t nat -A PREROUTING -p tcp --dport 30081 -j ACCEPT',
    ],
    report:
      'rule 1 of chain PREROUTING of table ip nat in nf_tables ("-p tcp -m tcp --dport 30080 -j ACCEPT") before the jump to KUBE-SERVICES: ' +
      "without effect on connections to Services, which Viaduct's own table translates before; translate in a chain of nf_tables with " +
      'type nat and a priority below -101, drop in table mangle, or use --iptables-flavour=legacy',
    remedy: ['iptables-nft -t nat -D PREROUTING 1'],
  },
  {
    what: 'a base chain with another priority',
    flavours: ['nft'],
    commands: [
      'add table ip6 nat; add chain ip6 nat PREROUTING { type nat hook prerouting priority -90; }; ' +
        'add rule ip6 nat PREROUTING accept',
    ],
    report:
      'IPv6 nat PREROUTING in nf_tables has type nat, hook prerouting, priority -90 instead of type nat, hook prerouting, ' +
      'priority -100, so that iptables may refuse the table; delete the chain ' +
      `("nft 'flush chain ip6 nat PREROUTING; delete chain ip6 nat PREROUTING'"), and Viaduct makes it again`,
    remedy: ['flush chain ip6 nat PREROUTING; delete chain ip6 nat PREROUTING'],
  },
  {
    what: 'a base chain at another hook',
    flavours: ['nft'],
    commands: ['add table ip filter; add chain ip filter INPUT { type filter hook forward priority 0; }'],
    report:
      'IPv4 filter INPUT in nf_tables has type filter, hook forward, priority 0 instead of type filter, hook input, priority 0, ' +
      `so that iptables may refuse the table; delete the chain ("nft 'flush chain ip filter INPUT; delete chain ip filter INPUT'"), ` +
      'and Viaduct makes it again',
    remedy: ['flush chain ip filter INPUT; delete chain ip filter INPUT'],
  },
  {
    what: 'a chain with the name of a base chain',
    flavours: ['nft'],
    commands: ['add table ip filter; add chain ip filter OUTPUT'],
    report:
      'IPv4 filter OUTPUT in nf_tables is no base chain instead of type filter, hook output, priority 0, ' +
      `so that iptables may refuse the table; delete the chain ("nft 'flush chain ip filter OUTPUT; delete chain ip filter OUTPUT'"), ` +
      'and Viaduct makes it again',
    remedy: ['flush chain ip filter OUTPUT; delete chain ip filter OUTPUT'],
  },
  {
    what: 'a policy at hook forward, in a table of both families',
    flavours: all,
    commands: [`add ${mine}`, 'add rule inet mine forward ct state established accept'],
    report:
      'chain forward of table inet mine in nf_tables, at hook forward, drops by its policy what no rule there accepts, ' +
      'also what Viaduct accepts; accept the traffic of Services there ("nft insert rule inet mine forward ct status dnat accept")',
    remedy: ['insert rule inet mine forward ct status dnat accept'],
  },
  {
    what: 'a rule at hook forward, in a table of one family',
    flavours: all,
    commands: [
      'add table ip6 mine; add chain ip6 mine ahead { type filter hook forward priority 10; }; add rule ip6 mine ahead counter reject',
    ],
    report:
      'chain ahead of table ip6 mine in nf_tables, at hook forward, drops or rejects by its rule 1 what no earlier rule there accepts, ' +
      'also what Viaduct accepts; accept the traffic of Services there ("nft insert rule ip6 mine ahead ct status dnat accept")',
    remedy: ['delete table ip6 mine'],
  },
  {
    what: 'a policy in a table with the name of that of iptables, in a chain with another name',
    flavours: all,
    commands: [
      'add table ip filter; add chain ip filter forward { type filter hook forward priority 0; policy drop; }',
    ],
    report:
      'chain forward of table ip filter in nf_tables, at hook forward, drops by its policy what no rule there accepts, ' +
      'also what Viaduct accepts; accept the traffic of Services there ("nft insert rule ip filter forward ct status dnat accept")',
    remedy: ['insert rule ip filter forward ct status dnat accept'],
  },
  { what: 'firewalld', flavours: all, commands: firewalld.split('\n'), report: undefined },
  {
    what: 'a policy in a table that is dormant, and at another hook',
    flavours: all,
    commands: [
      `add ${mine}`,
      'add table inet mine { flags dormant; }',
      'add table ip other; add chain ip other in { type filter hook input priority 0; policy drop; }',
    ],
    report: undefined,
  },
  {
    what: 'the policy of iptables FORWARD where Viaduct accepts in the same chain, or another look reports it',
    flavours: ['nft', 'legacy'],
    commands: [
      'add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }',
    ],
    report: undefined,
  },
  {
    what: 'the policy of iptables FORWARD for a mode without rules there',
    flavours: [undefined],
    commands: [
      'add table ip filter; add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }',
    ],
    report:
      'chain FORWARD of table ip filter in nf_tables, at hook forward, drops by its policy what no rule there accepts, ' +
      'also what Viaduct accepts; accept the traffic of Services there ("iptables-nft -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT")',
    remedy: ['iptables-nft -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT'],
  },
]

describe('a look at objects of nf_tables', () => {
  beforeEach(async () => await nft('flush ruleset'))

  for (const { what, flavours, commands, report, remedy = [] } of cases) {
    for (const flavour of flavours) {
      it(`${report === undefined ? 'does not report' : 'reports once'} ${what}: ${flavour ?? 'nftables mode'}`, async () => {
        const look = lookIn(flavour)
        assert.deepEqual(await look(), [])
        await nft(...commands)
        assert.deepEqual(await look(), report === undefined ? [] : [`${conflict}${report}`])
        assert.deepEqual(await look(), [])
        await nft(...remedy)
        assert.deepEqual(await look(), report === undefined ? [] : [recovery])
      })
    }
  }
})

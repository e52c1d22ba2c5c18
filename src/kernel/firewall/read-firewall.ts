// Reads the chains that packets of one family meet, in both flavours.
import type { IpFamily } from '../../address.js'
import { KernelError, orRefusal } from '../../errors.js'
import type { NfHook } from '../nftables/nftables.js'
import type { RealNftables } from '../nftables/real-nftables.js'
import type { KernelTables } from '../xtables/kernel-tables.js'
import type { XtTableName } from '../xtables/xtables.js'
import {
  type FirewallChain,
  type FirewallEntrance,
  type FirewallHook,
  firewallHooks,
  type FirewallScope,
  natPriority,
} from './firewall.js'
import { readNftRule } from './nft-rule.js'

interface FirewallReader {
  readonly nftables: Pick<RealNftables, 'chainsOf' | 'rulesOf'>
  readonly tables: Pick<KernelTables, 'active' | 'firewallRules'>
}

/** `ForeignRules.firewall`. */
export async function readFirewall(
  reader: FirewallReader,
  family: IpFamily,
  { isLeftOut, hasLegacyNat }: FirewallScope,
): Promise<readonly FirewallChain[]> {
  return [
    ...(await legacyChains(reader, family, hasLegacyNat)),
    ...(await nftChains(reader, family, isLeftOut)),
  ]
}

/** NF_IP_PRI_* (linux/netfilter_ipv4.h); undefined: those of table nat, which differ by hook. */
const legacyPriorities = { raw: -300, mangle: -150, nat: undefined, filter: 0 } as const

async function legacyChains(
  { tables }: FirewallReader,
  family: IpFamily,
  hasNat: boolean,
): Promise<readonly FirewallChain[]> {
  const found: FirewallChain[] = []
  for (const table of await tables.active(family)) {
    if (table === 'nat' && !hasNat) continue
    const { chains, closed } = await tables.firewallRules({ family, table })
    for (const [chain, rules] of chains) {
      found.push({
        flavour: 'legacy',
        family,
        table,
        chain,
        ...(chain === chain.toUpperCase() ? legacyEntrance(chain.toLowerCase(), table) : {}),
        accepts: !closed.has(chain),
        rules: once(async () => await Promise.resolve(rules())),
      })
    }
  }
  return found
}

/** Many packets may be asked for. */
function once<Result>(read: () => Promise<Result>): () => Promise<Result> {
  let result: Promise<Result> | undefined
  return () => (result ??= read())
}

/** Empty: packets come only from other chains, or at a hook that is left out. */
interface Entered {
  readonly entrance?: FirewallEntrance
}

function legacyEntrance(name: string, table: XtTableName): Entered {
  const hook = firewallHooks.find((each) => each === name)
  if (hook === undefined) return {}
  const priority = legacyPriorities[table]
  return priority === undefined ? natEntrance(hook, natPriority(hook)) : { entrance: { hook, priority } }
}

function nftEntrance({ hook: name, priority, type }: NfHook): Entered {
  const hook = firewallHooks.find((each) => each === name)
  if (hook === undefined) return {}
  return type === 'nat' ? natEntrance(hook, priority) : { entrance: { hook, priority } }
}

function natEntrance(hook: FirewallHook, natOrder: number): Entered {
  return { entrance: { hook, priority: natPriority(hook), natOrder } }
}

/** Errors of a kernel without nfnetlink or without nf_tables. */
const absences: ReadonlySet<string> = new Set(['EPROTONOSUPPORT', 'EINVAL'])

async function nftChains(
  { nftables }: FirewallReader,
  family: IpFamily,
  isLeftOut: (table: string) => boolean,
): Promise<readonly FirewallChain[]> {
  const found: FirewallChain[] = []
  for (const scope of [family, 'inet'] as const) {
    const chains = await orRefusal(
      async () => await nftables.chainsOf(scope, isLeftOut),
      ({ code }) => absences.has(code),
    )
    if (chains instanceof KernelError) return []
    for (const { table, chain, hook } of chains) {
      const place = { family: scope, table, chain }
      found.push({
        flavour: 'nft',
        ...place,
        ...(hook === undefined ? {} : nftEntrance(hook)),
        accepts: hook?.policy !== 'drop',
        rules: once(async () => (await nftables.rulesOf(place)).map((rule) => readNftRule(rule, family))),
      })
    }
  }
  return found
}

// Objects of other programs that keep packets from Viaduct's rules, drop what these accept, or do their work twice: in the other flavour of
// x_tables, which a packet must pass too, and in nf_tables.
import type { IpFamily } from '../address.js'
import { KernelError, orRefusal } from '../errors.js'
import {
  type Kernel,
  type XtBarrier,
  type XtFlavour,
  baseChain,
  describeChainPlace,
  type NfChainState,
  type NfHookBarrier,
  type NfHook,
  nftFamilyNames,
  xtHooks,
  type XtTableName,
  type Links,
} from '../kernel/index.js'
import { type Log, type Problem, StateReporter } from '../log.js'
import {
  familyName,
  type FlavourKernel,
  flavourContradiction,
  kubeletSigns,
  otherFlavour,
  placeName,
  servicesSign,
} from './iptables-flavour.js'
import { type NatRule, rulesBeforeServices } from './nat-rules.js'
import { dummyDeviceName } from './machine-addresses.js'

interface OtherFlavourOptions {
  readonly kernel: FlavourKernel & Pick<Kernel, 'findBarrier'>
  /** The flavour in which the mode has its rules. */
  readonly inUse: XtFlavour
  readonly families: readonly IpFamily[]
  readonly log: Log
  /** Gets the conflicts. */
  readonly conflicts: StateReporter
}

/** The reports of `OtherFlavour` and `NftConflicts`. */
export function openConflicts(log: Log): StateReporter {
  return new StateReporter({
    log,
    level: 'warn',
    problemLine: 'Rules of other programs conflict with Viaduct',
    recovery: 'Rules of other programs no longer conflict with Viaduct',
  })
}

/** Looks for conflicts with the other flavour. Reports each once, and its end. */
export class OtherFlavour {
  readonly #options: OtherFlavourOptions
  readonly #other: XtFlavour

  constructor(options: OtherFlavourOptions) {
    this.#options = options
    this.#other = otherFlavour(options.inUse)
  }

  /**
   * Looks once. `isClean`: an earlier call has removed the chains of kube-proxy and of Viaduct in the other flavour; chains that are there
   * now came later. Never throws KernelError: what cannot be read keeps its state.
   */
  async look({ isClean }: { readonly isClean: boolean }): Promise<void> {
    const { kernel, inUse, families } = this.#options
    await this.#ask('flavour', async () => flavourContradiction(inUse, await kubeletSigns(kernel)))
    for (const family of families)
      await this.#ask(`barrier ${family}`, async () => await this.#describeBarrier(family))
    if (isClean) await this.#ask('kube-proxy', async () => await this.#describeKubeProxy())
  }

  async #ask(key: string, question: () => Promise<string | undefined>): Promise<void> {
    const answer = await orRefusal(question)
    if (answer instanceof KernelError)
      this.#options.log.debug('The other flavour of iptables cannot be read', { err: answer })
    else this.#options.conflicts.report(key, answer === undefined ? undefined : { text: answer })
  }

  /** In filter FORWARD, where Viaduct accepts connections to Services. Only of a table that exists. */
  async #describeBarrier(family: IpFamily): Promise<string | undefined> {
    const { kernel, inUse } = this.#options
    if (!(await kernel.activeTables(family, this.#other)).includes('filter')) return undefined
    const barrier = await kernel.findBarrier({ family, table: 'filter', hook: 'FORWARD' }, this.#other)
    if (barrier === undefined) return undefined
    return (
      `${familyName(family)} filter FORWARD in ${placeName(this.#other)} ${describeBarrier(barrier)}, ` +
      `also what Viaduct accepts in ${placeName(inUse)}; ${describeRemedy(family, this.#other)}`
    )
  }

  /** KUBE-SERVICES in the other flavour, where no mode of Viaduct writes now. */
  async #describeKubeProxy(): Promise<string | undefined> {
    const sign = await servicesSign(this.#options.kernel, this.#other)
    if (sign === undefined) return undefined
    return `${sign} has come back: stop the kube-proxy that makes it, and restart Viaduct, which removes it`
  }
}

/** The effect of the barrier, as a clause without its subject. */
function describeBarrier({ rule, isPolicy }: XtBarrier): string {
  return isPolicy
    ? 'drops by its policy what no rule there accepts'
    : `drops or rejects by its rule ${rule + 1} what no earlier rule there accepts`
}

function describeRemedy(family: IpFamily, other: XtFlavour): string {
  const tool = `${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${other}`
  return (
    `let the program that made it use the flavour ${otherFlavour(other)}, or accept the traffic of Services there ` +
    `("${tool} -S FORWARD" shows the chain)`
  )
}

interface NftConflictsOptions extends Pick<OtherFlavourOptions, 'families' | 'log' | 'conflicts'> {
  readonly kernel: Pick<Kernel, 'nftables' | 'forwardBarriers' | 'firewall'>
  /** The flavour of x_tables in which the mode has its rules; undefined: it has none. */
  readonly inUse: XtFlavour | undefined
  /** The mode translates in a table of its own, before the chains of the shared table nat. */
  readonly hasOwnTable: boolean
  /** The tables of x_tables that the mode writes. */
  readonly tables: readonly XtTableName[]
}

type Place = Pick<NfHookBarrier, 'family' | 'table' | 'chain'>

/** Looks for conflicts with objects of nf_tables. Reports each once, and its end. */
export class NftConflicts {
  readonly #options: NftConflictsOptions
  /** Keys of the barriers that are reported. */
  #barriers: readonly string[] = []

  constructor(options: NftConflictsOptions) {
    this.#options = options
  }

  /** Looks once. Never throws KernelError: what cannot be read keeps its state. */
  async look(): Promise<void> {
    const { inUse, families, hasOwnTable, log } = this.#options
    const refusal = await orRefusal(async () => {
      if (inUse === 'nft') for (const family of families) await this.#lookAtTables(family)
      if (inUse === 'nft' && hasOwnTable)
        for (const family of families) await this.#lookBeforeServices(family)
      this.#reportBarriers(await this.#options.kernel.forwardBarriers())
    })
    if (refusal instanceof KernelError) log.debug('The tables of nf_tables cannot be read', { err: refusal })
  }

  async #lookAtTables(family: IpFamily): Promise<void> {
    const { kernel, tables, conflicts } = this.#options
    const states = await kernel.nftables.tables(family)
    for (const table of tables) {
      const state = states.find((each) => each.table === table)
      const isDormant = state?.flags?.includes('dormant') === true
      conflicts.report(`dormant ${family} ${table}`, isDormant ? dormancy(family, table) : undefined)
      const chains = state === undefined ? [] : await kernel.nftables.chains({ family, table })
      for (const hook of xtHooks[table]) {
        const chain = chains.find((each) => each.chain === hook)
        const wanted = baseChain(table, hook)
        const isRight = chain === undefined || isSameHook(chain.hook, wanted)
        conflicts.report(`chain ${family} ${table} ${hook}`, isRight ? undefined : wrongHook(chain, wanted))
      }
    }
  }

  async #lookBeforeServices(family: IpFamily): Promise<void> {
    const { kernel, conflicts } = this.#options
    const rules = await rulesBeforeServices(kernel, family)
    conflicts.report(`before services ${family}`, rules.length === 0 ? undefined : withoutEffect(rules))
  }

  /** Viaduct accepts connections to Services in FORWARD of the flavour in use. `OtherFlavour` reports that of the other one. */
  #reportBarriers(barriers: readonly NfHookBarrier[]): void {
    const { inUse, families, conflicts } = this.#options
    const concerned = barriers.filter(
      (barrier) =>
        (barrier.family === 'inet' || families.includes(barrier.family)) &&
        (inUse === undefined || !isOfIptables(barrier)),
    )
    const found = new Map(concerned.map((barrier) => [`forward ${barrierPlace(barrier)}`, barrier]))
    for (const key of this.#barriers) if (!found.has(key)) conflicts.report(key, undefined)
    for (const [key, barrier] of found) conflicts.report(key, forwardBarrier(barrier))
    this.#barriers = [...found.keys()]
  }
}

function withoutEffect([first, ...others]: readonly NatRule[]): Problem {
  const more = others.length === 0 ? '' : ` and ${others.length} more`
  return {
    text:
      `${first?.text ?? ''}${more} before the jump to KUBE-SERVICES: without effect on connections to Services, which Viaduct's own table ` +
      'translates before; translate in a chain of nf_tables with type nat and a priority below -101, drop in table mangle, ' +
      'or use --iptables-flavour=legacy',
  }
}

function dormancy(family: IpFamily, table: XtTableName): Problem {
  return {
    text:
      `${familyName(family)} table ${table} of nf_tables is dormant, so that no packet enters Viaduct's chains in it; ` +
      `"nft add table ${nftFamilyNames[family]} ${table}" wakes it`,
  }
}

function isSameHook(found: NfHook | undefined, wanted: NfHook): boolean {
  return found?.hook === wanted.hook && found.priority === wanted.priority && found.type === wanted.type
}

function wrongHook({ family, table, chain, hook }: NfChainState, wanted: NfHook): Problem {
  const found = hook === undefined ? 'is no base chain' : `has ${describeHook(hook)}`
  const place = `${nftFamilyNames[family]} ${table} ${chain}`
  return {
    text:
      `${familyName(family)} ${table} ${chain} in nf_tables ${found} instead of ${describeHook(wanted)}, so that iptables may refuse ` +
      `the table; delete the chain ("nft 'flush chain ${place}; delete chain ${place}'"), and Viaduct makes it again`,
  }
}

function describeHook({ type, hook, priority }: NfHook): string {
  return `type ${type}, hook ${hook}, priority ${priority}`
}

/** `inet mine forward`: family, table and chain, as nft takes them. */
function barrierPlace({ family, table, chain }: Place): string {
  return `${nftFamilyNames[family]} ${table} ${chain}`
}

function forwardBarrier(barrier: NfHookBarrier): Problem {
  return {
    text:
      `${describeChainPlace({ ...barrier, flavour: 'nft' })}, at hook forward, ` +
      `${describeBarrier(barrier)}, also what Viaduct accepts; accept the traffic of Services there ` +
      `("${acceptingCommand(barrier)}")`,
  }
}

/** Whether the chain is FORWARD of iptables-nft. */
function isOfIptables({ family, table, chain }: Place): boolean {
  return family !== 'inet' && table === 'filter' && chain === 'FORWARD'
}

/** The command that accepts the traffic of Services in the chain. A rule of nft would make iptables refuse its table. */
export function acceptingCommand(chain: Place, flavour: XtFlavour = 'nft'): string {
  if (!isOfIptables(chain)) return `nft insert rule ${barrierPlace(chain)} ct status dnat accept`
  const tool = chain.family === 'ipv4' ? 'iptables' : 'ip6tables'
  return `${tool}-${flavour} -I FORWARD -m conntrack --ctstate DNAT -j ACCEPT`
}

/**
 * Reports a dummy device of kube-proxy's ipvs mode, for a mode that has removed it: kube-proxy makes it again at each sync. Never throws
 * KernelError: if the device cannot be looked for, the report stays as it is.
 */
export async function reportReturnedDevice(
  links: Pick<Links, 'find'>,
  conflicts: StateReporter,
): Promise<void> {
  const found = await orRefusal(async () => await links.find(dummyDeviceName))
  if (found instanceof KernelError) return
  const text = `the device ${dummyDeviceName} has come back: stop the kube-proxy in ipvs mode that makes it, and restart Viaduct, which removes it`
  conflicts.report('device', found?.kind === 'dummy' ? { text } : undefined)
}

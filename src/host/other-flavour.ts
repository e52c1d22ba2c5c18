// Rules in the flavour of x_tables that the mode does not use. A packet must pass both flavours.
import type { IpFamily } from '../address.js'
import { KernelError, orRefusal } from '../errors.js'
import type { Kernel, XtBarrier, XtFlavour } from '../kernel/index.js'
import { type Log, StateReporter } from '../log.js'
import {
  familyName,
  type FlavourKernel,
  flavourContradiction,
  kubeletSigns,
  otherFlavour,
  placeName,
  servicesSign,
} from './iptables-flavour.js'

export interface OtherFlavourOptions {
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
export function describeBarrier({ rule, isPolicy }: XtBarrier): string {
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

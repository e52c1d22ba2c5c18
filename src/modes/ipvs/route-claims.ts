// Changed service ports of one family: decided, compiled, and claimed in the ledger.
import type { Intake, Pass } from '../../engine/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'
import { claimDirty, type RouteDecisions } from '../../engine/index.js'
import type { ForeignAddresses, NatGuard } from '../../layers/vips/index.js'
import type { IpvsPipelineOptions } from './pipeline-options.js'
import type { IpvsPolicies } from './policies.js'
import type { IpvsLedger } from './tables/ledger.js'

export interface RouteClaimsOptions extends Pick<
  IpvsPipelineOptions,
  'family' | 'scheduling' | 'metrics' | 'clock' | 'log'
> {
  readonly intake: Pick<Intake, 'takeDirty' | 'tracker'>
  readonly decisions: Pick<RouteDecisions, 'decide'>
  readonly policies: Pick<IpvsPolicies, 'compile' | 'forget' | 'machine' | 'renewMarks'>
  readonly foreign: Pick<ForeignAddresses, 'admit' | 'forget' | 'renew' | 'setMachine'>
  readonly guard: Pick<NatGuard, 'setMachine'>
  readonly ledger: Pick<IpvsLedger, 'claim' | 'foreignMarks'>
  readonly isStopping: () => boolean
}

/** The policies must know this machine before the first call. Each call ends early once `isStopping`. */
export class RouteClaims {
  readonly #options: RouteClaimsOptions

  constructor(options: RouteClaimsOptions) {
    this.#options = options
  }

  /** Claims the changed service ports, and those whose addresses are other machines' now, or are not any more. */
  async claimChanged(pass: Pass): Promise<void> {
    const { policies, foreign, guard, intake } = this.#options
    foreign.setMachine(policies.machine)
    guard.setMachine(policies.machine)
    await this.#claimDirty(pass)
    intake.tracker.mark(await foreign.renew())
    if (intake.tracker.hasDirty) await this.#claimDirty(pass)
  }

  /**
   * Compiles again the service ports that lost their mark, or can have one now, before they are sent to the kernel. False: there
   * are none.
   */
  async renewMarks(pass: Pass): Promise<boolean> {
    const { policies, ledger, intake } = this.#options
    const keys = policies.renewMarks(ledger.foreignMarks)
    if (keys.length === 0) return false
    intake.tracker.mark(keys)
    await this.#claimDirty(pass)
    return true
  }

  async #claimDirty(pass: Pass): Promise<void> {
    const { scheduling, metrics } = this.#options
    const routes = await claimDirty({
      ...this.#options,
      pass,
      claim: (key, decided) =>
        decided !== undefined && scheduling.concerns(decided)
          ? this.#settleAndClaim(decided)
          : this.#claim(key, decided),
    })
    metrics.dirtyRoutes.inc(routes)
  }

  async #settleAndClaim(decided: Route): Promise<void> {
    await this.#options.scheduling.settle(decided)
    this.#claim(decided.key, decided)
  }

  #claim(key: ServicePortKey, decided: Route | undefined): void {
    const { scheduling, foreign, ledger, policies } = this.#options
    const served = decided && foreign.admit(decided)
    ledger.claim(key, served, served ? policies.compile(served, scheduling.settings) : [])
    if (decided !== undefined) return
    foreign.forget(key)
    scheduling.forget(key)
    policies.forget(key)
  }
}

import { familyOf, hasAddress, type IpAddress } from '../../address.js'
import { Backoff } from '../../clock.js'
import { type FamilyContext, type FamilyParts, logFamily, type Pass } from '../../engine/index.js'
import { disownBatch, FailedObjects } from '../objects/index.js'
import { KernelError } from '../../errors.js'
import { viaductRouteProtocol } from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import {
  bindingOperations,
  userspaceRouteMetric,
  type VipCut,
  VipTable,
  type VipTableOptions,
} from './vip-table.js'
import type { Vip, VipHolder } from './vip.js'
import { findDummyDevice, findVipPlace } from './vip-place.js'

/**
 * The VIPs of one family in a mode that has nothing else in the kernel. No set says which routes are ours: their protocol and their metric
 * prove it (docs/adr/0005). Every binding is a route.
 */
export class VipBindings {
  readonly #context: FamilyContext & FamilyParts
  readonly #vips: VipTable
  readonly #failed: FailedObjects<Vip, IpAddress>
  readonly #claims = new Map<
    ServicePortKey,
    { readonly holder: VipHolder; readonly vips: readonly IpAddress[] }
  >()
  /** VIPs of the pass in progress. */
  #work: readonly Vip[] = []
  #isAdopted = false
  /** Time of the next reading, by the clock of looks. */
  #readMs = -Infinity
  /** Time of a reading after a refusal or a surprise; Infinity: none is requested. */
  #retryMs = Infinity
  readonly #rest = new Backoff({ shortestMs: 1000, longestMs: 30_000 })
  #isSurprised = false
  #isStopping = false

  constructor(context: FamilyContext & FamilyParts, onNeed: NonNullable<VipTableOptions['onNeed']>) {
    this.#context = context
    this.#vips = new VipTable({ binding: 'routes', metric: userspaceRouteMetric, onNeed })
    this.#failed = new FailedObjects({
      ...context,
      keyOf: ({ address }) => address,
      nameOf: ({ address }) => `vip ${address}`,
      servicesOf: ({ holders }) => holders.map(({ service }) => service),
    })
  }

  /** Replaces the VIPs of a service port; an empty list releases them. `service`: `namespace/name`. */
  claim(key: ServicePortKey, service: string, vips: readonly IpAddress[]): void {
    const former = this.#claims.get(key)
    const holder = former?.holder ?? { service }
    for (const vip of vips) this.#vips.need(vip, holder)
    for (const vip of former?.vips ?? []) if (!hasAddress(vips, vip)) this.#vips.release(vip, holder)
    if (vips.length > 0) this.#claims.set(key, { holder, vips })
    else this.#claims.delete(key)
  }

  isNeeded(address: IpAddress): boolean {
    return this.#vips.isNeeded(address)
  }

  /** Something is to be written now. */
  get isWriteDue(): boolean {
    return this.#vips.hasDirty || this.#failed.nextInMs() === 0
  }

  get isReadDue(): boolean {
    return this.#untilReadMs === 0
  }

  requestRead(): void {
    this.#readMs = -Infinity
  }

  /** False before the first reading: which bindings are ours is not known. */
  get isAdopted(): boolean {
    return this.#isAdopted
  }

  /** Milliseconds until there is work without a change. */
  nextInMs(): number {
    return Math.min(this.#untilReadMs, this.#failed.nextInMs() ?? Infinity)
  }

  /** Some VIP is not bound as desired. */
  get hasFailures(): boolean {
    return this.#failed.nextInMs() !== undefined
  }

  /** Number of VIPs that are needed, or still bound. */
  get size(): number {
    return this.#vips.size
  }

  /** Reads the bindings in the kernel, and makes dirty the VIPs that differ. False: the kernel could not be read. */
  async read(): Promise<boolean> {
    const { family, syncPeriodMs, links, routes, node, log, metrics } = this.#context
    const { clock, lookClock = clock } = this.#context
    this.#readMs = lookClock.now() + syncPeriodMs
    this.#retryMs = Infinity
    const reading = await this.#context.questions.ask(
      { key: 'read routes', subject: 'VIP routes' },
      async () => {
        const dummy = await findDummyDevice(links)
        const { place } = await findVipPlace({ links, routes }, dummy, node.facts.addresses[family])
        // The addresses of the dummy device are left to the clean-up of ipvs mode, which recognizes its virtual servers by them.
        return { place, addresses: new Uint8Array(), routes: await routes.dumpLocalRoutes(family) }
      },
    )
    if (reading instanceof KernelError) {
      this.#readAgain()
      return false
    }
    const drift = this.#vips.adopt({ ...reading, isMarkedVip: () => true })
    const ipFamily = logFamily(family)
    // Differences at the first reading arose while no agent ran.
    if (!this.#isAdopted) log.info('Kernel state is read', { ipFamily, vips: this.#vips.size })
    else if (drift.size > 0) {
      for (const [kind, count] of drift) metrics.drift(kind).inc(count)
      log.info('Kernel state differs and is repaired', { ipFamily, drift: Object.fromEntries(drift) })
    }
    this.#isAdopted = true
    return true
  }

  /** The write in progress ends at its next batch. */
  stopSoon(): void {
    this.#isStopping = true
  }

  /** Makes needed VIPs local. */
  async bind(pass: Pass): Promise<void> {
    for (const address of this.#failed.due()) this.#vips.markDirty(address)
    this.#work = this.#vips.takeDirty()
    this.#isSurprised = false
    await this.#apply(this.#work, (vips) => this.#vips.planBinds(vips), pass)
  }

  /** Removes the bindings that no service port needs, unless `keepsUnneeded`. Ends the pass that `bind` began. */
  async unbind(pass: Pass, { keepsUnneeded }: { readonly keepsUnneeded: boolean }): Promise<void> {
    const work = this.#work
    this.#work = []
    const removable = keepsUnneeded ? work.filter(({ holders }) => holders.length > 0) : work
    await this.#apply(removable, (vips) => this.#vips.planUnbinds(vips), pass)
    this.#failed.settle(work)
    if (this.#isSurprised) this.#readAgain()
    else this.#rest.reset()
  }

  /** Reads the kernel soon, and later each time. */
  #readAgain(): void {
    this.#retryMs = Math.min(this.#retryMs, this.#context.clock.now() + this.#rest.next())
  }

  get #untilReadMs(): number {
    const { clock, lookClock = clock } = this.#context
    return Math.max(0, Math.min(this.#readMs - lookClock.now(), this.#retryMs - clock.now()))
  }

  async #apply(vips: readonly Vip[], plan: (vips: readonly Vip[]) => VipCut, pass: Pass): Promise<void> {
    const { clock, questions, routes } = this.#context
    for (let rest = vips; rest.length > 0;) {
      if (this.#isStopping) return pass.fail()
      const { batch, rest: next } = plan(rest)
      if (batch.ops.length > 0) {
        const answer = routes.apply(batch.ops)
        const outcome = await questions.answers(pass, bindingOperations, batch.ops, answer)
        if (outcome === undefined) {
          disownBatch(batch)
          this.#isSurprised = true
        } else {
          const answers = this.#vips.confirm(batch, outcome)
          this.#failed.note(answers)
          this.#isSurprised ||= answers.surprises.length > 0
        }
      }
      rest = next
      if (rest.length > 0) await clock.pause()
    }
  }
}

/** The route that makes a VIP local, as `ip route show table local` prints it. */
export function describeVipRoute(vip: IpAddress, nodeIP: IpAddress | undefined): string {
  const scope = familyOf(vip) === 'ipv4' ? ' scope host' : ''
  const source = nodeIP === undefined ? '' : ` src ${nodeIP}`
  return `local ${vip} dev lo proto ${viaductRouteProtocol}${scope}${source} metric ${userspaceRouteMetric}`
}

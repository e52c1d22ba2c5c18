import { isDeepStrictEqual } from 'node:util'
import { KernelError } from '../../errors.js'
import type { IpvsDump } from '../../kernel/index.js'
import type { AdoptOptions, IpvsLedger } from './tables/ledger.js'
import { logFamily } from '../../engine/index.js'
import { type Drift } from '../objects/index.js'
import type { IpvsContext } from './context.js'
import {
  dummyAdvice,
  ensureDummyDevice,
  findVipPlace,
  type VipPlace,
  type VipReading,
  type VipTable,
} from '../vips/index.js'

interface KernelState {
  readonly place: VipPlace
  readonly routes: Uint8Array
  readonly addresses: Uint8Array
  readonly table: IpvsDump
}

const maxDelayMs = 30_000

/**
 * Reads the kernel and compares it with the ledger: at start (adoption), every sync period, on request, and after a surprise, which
 * is an answer that contradicts the ledger or was lost. This is the only periodic work that grows with the number of objects.
 */
export class Reconciler {
  readonly #context: IpvsContext
  readonly #ledger: IpvsLedger
  readonly #vips: VipTable
  #isAdopted = false
  /** The last reading, until it is compared. */
  #reading: KernelState | undefined
  /** Time of the next reading, by the clock of looks. */
  #nextMs = -Infinity
  /** Time of a reading after a surprise; Infinity: none is requested. */
  #retryMs = Infinity
  /** Number of consecutive passes that met a surprise or a kernel that could not be read. */
  #surprises = 0
  #isSurprised = false
  /** The last reading, if it had exactly the objects of the ledger and nothing was applied since. */
  #inOrder: KernelState | undefined

  constructor(context: IpvsContext, ledger: IpvsLedger, vips: VipTable) {
    this.#context = context
    this.#ledger = ledger
    this.#vips = vips
  }

  /** False before the first comparison: nothing may be applied. */
  get isAdopted(): boolean {
    return this.#isAdopted
  }

  get isDue(): boolean {
    return !this.#isAdopted || this.nextInMs() === 0
  }

  /** A reading is to be compared. */
  get hasReading(): boolean {
    return this.#reading !== undefined
  }

  nextInMs(): number {
    const { clock, lookClock = clock } = this.#context
    return Math.max(0, Math.min(this.#nextMs - lookClock.now(), this.#retryMs - clock.now()))
  }

  request(): void {
    this.#nextMs = -Infinity
  }

  /** Requests a reconcile, the first time at once. After repeated surprises it waits longer each time. At most once a pass. */
  requestAfterSurprise(): void {
    if (this.#isSurprised) return
    this.#isSurprised = true
    this.#surprises++
    const delayMs = this.#surprises === 1 ? 0 : Math.min(1000 * 2 ** (this.#surprises - 2), maxDelayMs)
    this.#retryMs = Math.min(this.#retryMs, this.#context.clock.now() + delayMs)
  }

  /** An operation is applied: the last reading does not show the kernel's state any more. */
  noteChange(): void {
    this.#inOrder = undefined
  }

  /** Ends a pass. After a pass without a surprise, the next surprise counts as a first one again. */
  endPass(): void {
    if (!this.#isSurprised) this.#surprises = 0
    this.#isSurprised = false
  }

  /** Comes before any operation of the pass. False: the kernel could not be read; a retry follows with back-off. */
  async read(): Promise<boolean> {
    const { clock, lookClock = clock, syncPeriodMs } = this.#context
    this.#nextMs = lookClock.now() + syncPeriodMs
    this.#retryMs = Infinity
    const state = await this.#context.questions.ask(
      { key: 'read servers and VIPs', subject: 'state of the kernel' },
      async () => await this.#read(),
    )
    if (state instanceof KernelError) {
      this.requestAfterSurprise()
      return false
    }
    this.#reading = state
    return true
  }

  /** Enters the last reading, if it was not compared yet. Comes after the claims of the pass. False: it was. */
  compare(options: AdoptOptions & Pick<VipReading, 'isMarkedVip'>): boolean {
    const [ledger, vips] = [this.#ledger, this.#vips]
    const state = this.#reading
    if (state === undefined) return false
    this.#reading = undefined
    if (this.#inOrder !== undefined && isSame(this.#inOrder, state)) return true
    // Bindings come first: they show which unknown virtual servers are ours.
    const bindings = vips.adopt({ ...state, isMarkedVip: options.isMarkedVip })
    const drift = new Map([...bindings, ...ledger.adopt(state.table, options)])
    this.#reportDrift(state.table, drift)
    // A holder may be the only proof that a route is ours, and holders are not known at the first reading: read again.
    const isFirst = !this.#isAdopted
    this.#isAdopted = true
    const isAllOurs = ledger.acknowledgedCount === ledger.expectedCount && !options.keepLeftovers
    const isInOrder = !isFirst && isAllOurs && drift.size === 0 && !ledger.hasDirty && !vips.hasDirty
    this.#inOrder = isInOrder ? state : undefined
    return true
  }

  async #read(): Promise<KernelState> {
    const { family, kernel, node, vipBinding, hints } = this.#context
    const found = await ensureDummyDevice(kernel.links)
    const isMissing = typeof found === 'string'
    hints.report('dummy device', isMissing ? { text: dummyAdvice(found, vipBinding) } : undefined)
    const dummy = isMissing ? undefined : found
    const nodeIp = node.facts.addresses[family]
    const { place, isNodeIpForeign } = await findVipPlace(kernel, dummy, nodeIp)
    const isUnusable = isNodeIpForeign && vipBinding === 'routes'
    const text = `the node's address ${nodeIp ?? ''} is on no interface: VIP routes have no preferred source`
    hints.report(`node address ${family}`, isUnusable ? { text } : undefined)
    return {
      place,
      routes: await kernel.routes.dumpLocalRoutes(family),
      addresses:
        dummy === undefined ? new Uint8Array() : await kernel.routes.dumpAddresses(family, dummy.index),
      table: await kernel.ipvs.dump(family),
    }
  }

  /** Differences at the first reading are no drift: they arose while no agent ran. Later ones were made by another program. */
  #reportDrift(table: IpvsDump, drift: Drift): void {
    const { family, log, metrics } = this.#context
    const ipFamily = logFamily(family)
    if (!this.#isAdopted) {
      log.info('Kernel state is read', {
        ipFamily,
        adopted: this.#ledger.acknowledgedCount,
        bytes: table.virtualServers.byteLength,
      })
      return
    }
    for (const [kind, count] of drift) metrics.drift(kind).inc(count)
    if (drift.size > 0)
      log.info('Kernel state differs and is repaired', { ipFamily, drift: Object.fromEntries(drift) })
  }
}

function isSame(a: KernelState, b: KernelState): boolean {
  return (
    isDeepStrictEqual(a.place, b.place) &&
    areSameBytes(a.routes, b.routes) &&
    areSameBytes(a.addresses, b.addresses) &&
    areSameBytes(a.table.virtualServers, b.table.virtualServers) &&
    areSameBytes(a.table.realServers, b.table.realServers)
  )
}

function areSameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0
}

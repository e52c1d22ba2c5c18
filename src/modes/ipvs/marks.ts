// Which firewall mark each service port of policy Local has (docs/adr/0011), in one family.
import type { IpFamily } from '../../address.js'
import type { Route } from '../../routing/index.js'
import type { VirtualServerKey } from '../../kernel/index.js'
import type { IpsetTable } from './tables/ipset-table.js'
import { MarkTable } from './tables/ipset-marks.js'
import type { Log, StateReporter } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'
import { logFamily } from '../../engine/index.js'

export interface IpvsMarksOptions {
  readonly family: IpFamily
  /** Bits that marks lie in. */
  readonly markMask: number
  /** One bit outside of the mask: it makes a second mark of each. */
  readonly masqueradeMark: number
  /** The sets of the family, which remember marks over a restart. */
  readonly table: IpsetTable
  readonly log: Log
  /** What Services ask for and do not get. */
  readonly warnings: StateReporter
}

/** Assigns marks that no other program's virtual server has. */
export class IpvsMarks {
  readonly #options: IpvsMarksOptions
  readonly #marks: MarkTable
  /** Service ports that found every mark taken. */
  readonly #waiting = new Set<ServicePortKey>()
  /** Since the last `renew`. */
  #isAnyFreed = false
  #foreign: ReadonlySet<number> = new Set()

  constructor(options: IpvsMarksOptions) {
    this.#options = options
    this.#marks = new MarkTable(options.markMask)
  }

  /** The mark of the route, from now until it is released; undefined: all are taken. `frontends`: its virtual servers. */
  take(route: Route, frontends: () => readonly VirtualServerKey[]): number | undefined {
    const { table } = this.#options
    const mark = this.#marks.take(route.key, {
      former: (preferred) => {
        const isIdle = table.isMarkIdle(preferred) && !this.#isForeign(preferred)
        return isIdle ? preferred : this.#formerMark(frontends())
      },
      isReserved: (candidate) => table.isMarkTaken(candidate) || this.#isForeign(candidate),
    })
    if (mark === undefined) this.#waiting.add(route.key)
    else this.#waiting.delete(route.key)
    this.#report(route)
    return mark
  }

  /** undefined: the route has no mark now. */
  markOf(key: ServicePortKey): number | undefined {
    return this.#marks.markOf(key)
  }

  /** The route needs no mark, or is gone. */
  release(key: ServicePortKey): void {
    this.#marks.release(key)
    if (this.#waiting.delete(key)) this.#report(undefined)
  }

  /** The kernel took everything: released marks to which no frontend leads any more are free. */
  settle(): void {
    if (this.#marks.settle(() => this.#options.table.leads())) this.#isAnyFreed = true
  }

  /**
   * Gives up marks for which somebody else has a virtual server, as the kernel was read last. Returns the service ports that
   * are to be compiled again: those that lost their mark, and as many of those that wait for one as there are free ones.
   */
  renew(foreign: ReadonlySet<number>): readonly ServicePortKey[] {
    // Nothing that was given out since the last reading is foreign by it.
    const isRead = foreign !== this.#foreign
    this.#foreign = foreign
    const lost = isRead ? [...this.#marks.entries].filter(([, mark]) => this.#isForeign(mark)) : []
    for (const [key, mark] of lost) {
      this.#marks.release(key)
      const { log, family } = this.#options
      const ipFamily = logFamily(family)
      log.info('Firewall mark belongs to a foreign virtual server, choosing another', { ipFamily, key, mark })
    }
    const free = isRead || this.#isAnyFreed ? this.#marks.freeCount : 0
    this.#isAnyFreed = false
    const next = free === 0 ? [] : [...this.#waiting].slice(0, free)
    return [...lost.map(([key]) => key), ...next]
  }

  #isForeign(mark: number): boolean {
    return this.#foreign.has(mark) || this.#foreign.has(mark + this.#options.masqueradeMark)
  }

  /** What the kernel has for one of the frontends. */
  #formerMark(frontends: readonly VirtualServerKey[]): number | undefined {
    const { table } = this.#options
    const marks = frontends.map((server) => table.markAt(server))
    return marks.find((mark) => mark !== undefined && !this.#isForeign(mark))
  }

  /** Once for all service ports that wait. `route`: the one that was looked at last. */
  #report(route: Route | undefined): void {
    const { family, markMask, warnings } = this.#options
    const key = `${family} marks`
    if (this.#waiting.size === 0) return warnings.report(key, undefined)
    const mask = `0x${markMask.toString(16)}`
    const text = `${logFamily(family)}: all ${this.#marks.size} marks of --ipvs-mark-mask ${mask} are taken: pods and the node reach other Services with externalTrafficPolicy Local as with kube-proxy, by endpoints of this node alone`
    const fields = route === undefined ? {} : { service: route.service }
    warnings.report(key, { text, fields: { ipFamily: logFamily(family), ...fields } })
  }
}

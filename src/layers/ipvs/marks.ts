// The firewall mark of each service port of policy Local (docs/adr/0011), in one family.
import type { Route } from '../../routing/index.js'
import type { VirtualServerKey } from '../../kernel/index.js'
import type { IpsetTable } from './tables/ipset-table.js'
import { MarkTable } from './tables/ipset-marks.js'
import type { IpvsContext } from './context.js'
import type { ServicePortKey } from '../../model/index.js'
import { logFamily } from '../../engine/index.js'

/** Assigns marks that no other program's virtual server has. */
export class IpvsMarks {
  readonly #context: IpvsContext
  /** The sets of the family, which remember marks over a restart. */
  readonly #table: IpsetTable
  /** One bit outside of the mask of marks. Each mark is used with and without it. */
  readonly #masqueradeMark: number
  readonly #marks: MarkTable
  /** Service ports without a mark, as all marks were taken. */
  readonly #waiting = new Set<ServicePortKey>()
  /** Whether a mark was freed since the last `renew`. */
  #isAnyFreed = false
  #foreign: ReadonlySet<number> = new Set()

  constructor(context: IpvsContext, table: IpsetTable) {
    const { ipvs, iptables } = context.config
    this.#context = context
    this.#table = table
    this.#masqueradeMark = 2 ** iptables.masqueradeBit
    this.#marks = new MarkTable(ipvs.markMask)
  }

  /** Returns the mark of the route until it is released; undefined: all are taken. `frontends`: its virtual servers. */
  take(route: Route, frontends: readonly { readonly key: VirtualServerKey }[]): number | undefined {
    const table = this.#table
    const mark = this.#marks.take(route.key, {
      former: (preferred) => {
        const isIdle = table.isMarkIdle(preferred) && !this.#isForeign(preferred)
        return isIdle ? preferred : this.#formerMark(frontends)
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

  /** As `ServiceMarks.of`. */
  answerFor(key: ServicePortKey): number | 'all-taken' | undefined {
    return this.markOf(key) ?? (this.#waiting.has(key) ? 'all-taken' : undefined)
  }

  /** The route needs no mark any more, or was removed. */
  release(key: ServicePortKey): void {
    this.#marks.release(key)
    if (this.#waiting.delete(key)) this.#report(undefined)
  }

  /** The kernel took everything: released marks that no frontend leads to any more are free. */
  settle(): void {
    if (this.#marks.settle(() => this.#table.leads())) this.#isAnyFreed = true
  }

  /**
   * Gives up marks for which another program has a virtual server, by the last reading of the kernel. Returns the service ports to
   * compile again: those that lost their mark, and as many waiting ones as there are free marks.
   */
  renew(foreign: ReadonlySet<number>): readonly ServicePortKey[] {
    // No mark given out since the last reading is foreign by that reading.
    const isRead = foreign !== this.#foreign
    this.#foreign = foreign
    const lost = isRead ? [...this.#marks.entries].filter(([, mark]) => this.#isForeign(mark)) : []
    for (const [key, mark] of lost) {
      this.#marks.release(key)
      const { log, family } = this.#context
      const ipFamily = logFamily(family)
      log.info('Firewall mark belongs to a foreign virtual server; another one is chosen', {
        ipFamily,
        key,
        mark,
      })
    }
    const free = isRead || this.#isAnyFreed ? this.#marks.freeCount : 0
    this.#isAnyFreed = false
    const next = free === 0 ? [] : [...this.#waiting].slice(0, free)
    return [...lost.map(([key]) => key), ...next]
  }

  #isForeign(mark: number): boolean {
    return this.#foreign.has(mark) || this.#foreign.has(mark + this.#masqueradeMark)
  }

  /** The mark that the kernel has for one of the frontends. */
  #formerMark(frontends: readonly { readonly key: VirtualServerKey }[]): number | undefined {
    const marks = frontends.map(({ key }) => this.#table.markAt(key))
    return marks.find((mark) => mark !== undefined && !this.#isForeign(mark))
  }

  /** Reports one problem for all waiting service ports. `route`: the one that changed. */
  #report(route: Route | undefined): void {
    const { config, family, warnings } = this.#context
    const key = `${family} marks`
    if (this.#waiting.size === 0) return warnings.report(key, undefined)
    const mask = `0x${config.ipvs.markMask.toString(16)}`
    const text = `${logFamily(family)}: all ${this.#marks.size} marks of --ipvs-mark-mask ${mask} are taken: pods and the node reach other Services with externalTrafficPolicy Local as with kube-proxy, by endpoints of this node alone`
    const fields = route === undefined ? {} : { service: route.service }
    warnings.report(key, { text, fields: { ipFamily: logFamily(family), ...fields } })
  }
}

/** Whether outside clients reach only this node's endpoints, while pods and the node reach all endpoints: this needs a mark. */
export function needsMark(route: Route): boolean {
  return route.isExternalLocal && route.isExternallyAccessible
}

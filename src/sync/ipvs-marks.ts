// Which firewall mark each service port of policy Local has (docs/adr/0011), in one family.
import type { IpFamily } from '../address.js'
import type { Route } from '../routing/index.js'
import type { VirtualServerKey } from '../kernel/index.js'
import { type IpsetTable, MarkTable } from '../ledger/index.js'
import type { Log, StateReporter } from '../log.js'
import type { ServicePortKey } from '../model/index.js'
import { logFamily } from './sync-report.js'

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

/** Gives out marks that nobody else in the kernel has. */
export class IpvsMarks {
  readonly #options: IpvsMarksOptions
  readonly #marks: MarkTable
  /** Service ports that found every mark taken. */
  readonly #waiting = new Set<ServicePortKey>()
  #isAnyReleased = false
  #foreign: ReadonlySet<number> = new Set()

  constructor(options: IpvsMarksOptions) {
    this.#options = options
    this.#marks = new MarkTable(options.markMask)
  }

  /** The mark of the route, from now until it is released; undefined: all are taken. `frontends`: its virtual servers. */
  take(route: Route, frontends: () => readonly VirtualServerKey[]): number | undefined {
    const { table } = this.#options
    const mark = this.#marks.take(route.key, {
      former: (preferred) => (table.isMarkIdle(preferred) ? preferred : this.#formerMark(frontends())),
      isReserved: (candidate) => table.isMarkTaken(candidate) || this.#isForeign(candidate),
    })
    if (mark === undefined) this.#waiting.add(route.key)
    else this.#waiting.delete(route.key)
    this.#report(route)
    return mark
  }

  /** The route needs no mark, or is gone. */
  release(key: ServicePortKey): void {
    if (this.#marks.release(key)) this.#isAnyReleased = true
    if (this.#waiting.delete(key)) this.#report(undefined)
  }

  /**
   * Gives up marks for which somebody else has a virtual server, as the kernel was read last. Returns the service ports that
   * are to be compiled again: those that lost their mark, and those that wait for one where some are free.
   */
  renew(foreign: ReadonlySet<number>): readonly ServicePortKey[] {
    this.#foreign = foreign
    const lost = [...this.#marks.entries].filter(([, mark]) => this.#isForeign(mark))
    for (const [key, mark] of lost) {
      this.#marks.release(key)
      const { log, family } = this.#options
      const ipFamily = logFamily(family)
      log.info('Firewall mark belongs to a foreign virtual server, choosing another', { ipFamily, key, mark })
    }
    const waiting = this.#isAnyReleased ? [...this.#waiting] : []
    this.#isAnyReleased = false
    return [...lost.map(([key]) => key), ...waiting]
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

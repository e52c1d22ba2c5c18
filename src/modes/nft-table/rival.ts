// Finds out that a kube-proxy runs beside the agent.
import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import { logFamily } from '../../engine/index.js'
import type { NftChange, NftChangedObject } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'
import { tableName } from './compile/schema.js'

/** Chains of a Service or an endpoint that kube-proxy makes in iptables mode. Viaduct has none in nf_tables. */
const serviceChain = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-/u

/** Chains that kube-proxy makes in ipvs mode. Viaduct has most of them in that mode. */
const ipvsChain = /^KUBE-(?:NODE-PORT|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER)$/u

/** Names of iptables-restore in both families and of its flavour nft, at most 15 characters. kube-proxy writes rules through it. */
const restoreProgram = /^ip6?tables-(?:re|nft-r)/u

const signKinds: ReadonlySet<NftChangedObject['kind']> = new Set(['chain', 'chain-update', 'rules'])

/** Changes within this time are of one sync of kube-proxy. Its periodic sync comes every 30 s. */
const syncMs = 5000

/** Without a change for this time, no kube-proxy runs. Four of its periods. */
const quietMs = 120_000

export interface RivalOptions {
  readonly family: IpFamily
  /** Whether Viaduct runs in ipvs mode, or in a mode with a table of its own. */
  readonly mode: 'ipvs' | 'table'
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
}

/**
 * A kube-proxy of one family that writes rules after the agent has taken over. It shows itself by chains that only kube-proxy makes, in
 * two syncs. The first one alone may be the last work of a kube-proxy that stops. In ipvs mode, iptables-restore of the chains that both
 * make is a sign too.
 */
export class Rival {
  readonly #options: RivalOptions
  readonly #reporter: StateReporter
  #firstMs = -Infinity
  #lastMs = -Infinity
  #isActive = false

  constructor(options: RivalOptions) {
    this.#options = options
    this.#reporter = new StateReporter({
      log: options.log,
      level: 'warn',
      problemLine: 'Another kube-proxy is running',
      recovery: 'No other kube-proxy is running any more',
    })
  }

  /** Takes in changes of other programs. */
  note(changes: readonly NftChange[]): void {
    for (const change of changes) {
      if (change.kind !== 'transaction') continue
      const object = change.objects.find((each) => this.#isSign(each, change.program))
      if (object !== undefined) this.#noteSign(change, object)
    }
  }

  /** Whether a kube-proxy runs now. Reports its end. */
  isActiveNow(): boolean {
    if (this.#isActive && this.#options.clock.now() - this.#lastMs >= quietMs) {
      this.#isActive = false
      this.#reporter.report('', undefined)
    }
    return this.#isActive
  }

  /** In its own table, kube-proxy names chains `service-HASH-namespace/name/...`; Viaduct's names have no slash. */
  #isSign({ family, kind, table, name }: NftChangedObject, program: string): boolean {
    if (family !== this.#options.family || !signKinds.has(kind)) return false
    if (table === tableName) return name.includes('/')
    if (serviceChain.test(name)) return true
    return ipvsChain.test(name) && (this.#options.mode === 'table' || restoreProgram.test(program))
  }

  #noteSign(
    writer: { readonly program: string; readonly pid: number },
    { table, name }: NftChangedObject,
  ): void {
    const nowMs = this.#options.clock.now()
    if (nowMs - this.#lastMs >= quietMs) this.#firstMs = nowMs
    this.#lastMs = nowMs
    if (this.#isActive || nowMs - this.#firstMs < syncMs) return
    this.#isActive = true
    const { family, mode } = this.#options
    const ipFamily = logFamily(family)
    const consequence =
      mode === 'ipvs'
        ? 'both change the same rules and virtual servers'
        : 'Viaduct repairs its own rules at most once a minute'
    this.#reporter.report('', {
      text:
        `${writer.program} (pid ${writer.pid}) changes ${ipFamily} ${table} ${name} again: stop that kube-proxy; ` +
        `until then ${consequence}`,
      fields: { ipFamily, program: writer.program, pid: writer.pid },
    })
  }
}

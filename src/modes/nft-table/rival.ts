// Finds out that a kube-proxy runs beside the agent.
import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import { logFamily } from '../../engine/index.js'
import type { NftChange, NftChangedObject } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'
import { tableName } from './compile/schema.js'

/** Chains of a Service or an endpoint that kube-proxy makes in nat and filter. Viaduct has none in nf_tables. */
const serviceChain = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-/u

/** Changes within this time are of one sync of kube-proxy. Its periodic sync comes every 30 s. */
const syncMs = 5000

/** Without a change for this time, no kube-proxy runs. Four of its periods. */
const quietMs = 120_000

export interface RivalOptions {
  readonly family: IpFamily
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
}

/**
 * A kube-proxy of one family that writes rules after the agent has taken over. It shows itself by chains that only kube-proxy makes, in
 * two syncs. The first one alone may be the last work of a kube-proxy that stops.
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
      const object = change.kind === 'transaction' ? this.#sign(change.objects) : undefined
      if (change.kind === 'transaction' && object !== undefined) this.#noteSign(change, object)
    }
  }

  /** Whether a kube-proxy runs now. Reports its end. */
  get isActive(): boolean {
    const isActive = this.#isActive && this.#options.clock.now() - this.#lastMs < quietMs
    if (this.#isActive && !isActive) {
      this.#isActive = false
      this.#reporter.report('', undefined)
    }
    return isActive
  }

  #sign(objects: readonly NftChangedObject[]): NftChangedObject | undefined {
    return objects.find((object) => object.family === this.#options.family && isOfKubeProxy(object))
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
    const ipFamily = logFamily(this.#options.family)
    this.#reporter.report('', {
      text:
        `${writer.program} (pid ${writer.pid}) changes ${ipFamily} ${table} ${name} again: stop that kube-proxy; ` +
        'until then Viaduct repairs its own rules at most once a minute',
      fields: { ipFamily, program: writer.program, pid: writer.pid },
    })
  }
}

/** In its own table, kube-proxy names chains `service-HASH-namespace/name/...`; Viaduct's names have no slash. */
function isOfKubeProxy({ kind, table, name }: NftChangedObject): boolean {
  if (kind !== 'chain' && kind !== 'rules') return false
  return table === tableName ? name.includes('/') : serviceChain.test(name)
}

// Finds out that another agent runs beside this one: a kube-proxy, or an agent that writes other rules or elements into the same table.
import type { IpFamily } from '../../address.js'
import type { Clock } from '../../clock.js'
import { logFamily } from '../../engine/index.js'
import type { NftChange, NftChangedObject } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'
import { tableName } from './compile/schema.js'

/** The other agent that runs now. `agent`: one that writes the same table, of another version or with other settings or objects. */
export type OtherAgent = 'none' | 'agent' | 'kube-proxy'

/** Chains of a Service or an endpoint that kube-proxy makes in iptables mode. Viaduct has none in nf_tables. */
const serviceChain = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-/u

/** Chains that kube-proxy makes in ipvs mode. Viaduct has most of them in that mode. */
const ipvsChain = /^KUBE-(?:NODE-PORT|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS-FILTER|IPVS-OUT-FILTER)$/u

/** Names of iptables-restore in both families and of its flavour nft, at most 15 characters. kube-proxy writes rules through it. */
const restoreProgram = /^ip6?tables-(?:re|nft-r)/u

const signKinds: ReadonlySet<NftChangedObject['kind']> = new Set(['chain', 'chain-update', 'rules'])

/** Signs within this time may be of one sync of kube-proxy, or of one restart of another program. */
const seriesMs = 5000

/** Without a sign for this time, no kube-proxy runs. Four periods of its syncs. */
const kubeProxyGapMs = 120_000

/** Longest time between two signs of an agent, beside the shortest time between two repairs. Another agent repairs its rules twice a second. */
const agentGapMs = 2000

/** Shortest time between two repairs while another agent writes. Short, since an upgrade ends the other agent soon. */
export const agentRestMs = 5000

/** Content of another program in a set or chain of ours. */
export interface ForeignContent {
  readonly kind: 'rules' | 'elements'
  /** The same for the same content. */
  readonly sample: string
}

export interface OtherAgentsOptions {
  readonly family: IpFamily
  /** Whether Viaduct runs in ipvs mode, or in a mode with a table of its own. */
  readonly mode: 'ipvs' | 'table'
  /** Shortest time between two repairs of this agent. */
  readonly minSyncPeriodMs: number
  readonly clock: Pick<Clock, 'now'>
  readonly log: Log
}

interface SignTimes {
  /** Longest time between two signs of a series. */
  readonly gapMs: number
  /** A series of this length shows the agent. */
  readonly lengthMs: number
  /** Without a sign for this time, the agent has ended. */
  readonly quietMs: number
}

type Report = Parameters<StateReporter['report']>[1]

/** Signs of one kind of agent: it runs when the same sign has come again and again for some time. */
class Signs {
  readonly #clock: Pick<Clock, 'now'>
  readonly #times: SignTimes
  readonly #reporter: StateReporter
  readonly #series = new Map<string, { readonly firstMs: number; lastMs: number }>()
  #lastMs = -Infinity
  #isActive = false

  constructor(clock: Pick<Clock, 'now'>, times: SignTimes, reporter: StateReporter) {
    this.#clock = clock
    this.#times = times
    this.#reporter = reporter
  }

  /** `report`: for the first sign that shows the agent. */
  note(sign: string, report: () => Report): void {
    const { gapMs, lengthMs } = this.#times
    const nowMs = this.#clock.now()
    for (const [known, { lastMs }] of this.#series) if (nowMs - lastMs > gapMs) this.#series.delete(known)
    const series = this.#series.get(sign) ?? { firstMs: nowMs, lastMs: nowMs }
    series.lastMs = nowMs
    this.#series.set(sign, series)
    this.#lastMs = nowMs
    if (this.#isActive || nowMs - series.firstMs < lengthMs) return
    this.#isActive = true
    this.#reporter.report('', report())
  }

  /** Whether the agent runs now. Reports its end. */
  isActiveNow(): boolean {
    if (this.nextInMs() === 0) {
      this.#isActive = false
      this.#reporter.report('', undefined)
    }
    return this.#isActive
  }

  /** Milliseconds until `isActiveNow` may report the end; undefined: no such agent runs. */
  nextInMs(): number | undefined {
    if (!this.#isActive) return undefined
    return Math.max(0, this.#lastMs + this.#times.quietMs - this.#clock.now())
  }
}

/**
 * The other agents of one family. A kube-proxy shows itself by chains that only kube-proxy makes, in two syncs: the first one alone may be
 * the last work of a kube-proxy that stops. In ipvs mode, iptables-restore of the chains that both make is a sign too. Another agent shows
 * itself by content of its own that comes back after each repair: a program that only removes is none.
 */
export class OtherAgents {
  readonly #options: OtherAgentsOptions
  readonly #kubeProxy: Signs
  readonly #agent: Signs
  #writer = { program: 'a program', pid: 0 }

  constructor(options: OtherAgentsOptions) {
    const { clock, log, minSyncPeriodMs } = options
    this.#options = options
    this.#kubeProxy = new Signs(
      clock,
      { gapMs: kubeProxyGapMs, lengthMs: seriesMs, quietMs: kubeProxyGapMs },
      new StateReporter({
        log,
        level: 'warn',
        problemLine: 'Another kube-proxy is running',
        recovery: 'No other kube-proxy is running any more',
      }),
    )
    this.#agent = new Signs(
      clock,
      {
        gapMs: agentGapMs + minSyncPeriodMs,
        // At least three signs, also where repairs are rare.
        lengthMs: Math.max(seriesMs, 2 * minSyncPeriodMs),
        // Two looks at the table.
        quietMs: 2 * agentRestMs + minSyncPeriodMs,
      },
      new StateReporter({
        log,
        level: 'warn',
        problemLine: 'Another agent is running',
        recovery: 'No other agent is running any more',
      }),
    )
  }

  /** Takes in changes of other programs. The last one that changed the table is the writer of its content. */
  note(changes: readonly NftChange[]): void {
    const { family } = this.#options
    for (const change of changes) {
      if (change.kind !== 'transaction') continue
      const { program, pid, objects } = change
      if (objects.some((object) => object.family === family && object.table === tableName))
        this.#writer = { program, pid }
      const sign = objects.find((object) => this.#isOfKubeProxy(object, program))
      if (sign !== undefined) this.#kubeProxy.note('', () => this.#kubeProxyReport({ program, pid }, sign))
    }
  }

  /** A look found content of another program in these sets and chains, which is repaired. */
  noteForeign(found: ReadonlyMap<string, ForeignContent>): void {
    for (const [name, { kind, sample }] of found)
      this.#agent.note(`${name} ${sample}`, () => this.#agentReport(kind, name))
  }

  /** The agent that runs now. Reports the end of one. */
  runningNow(): OtherAgent {
    const isAgent = this.#agent.isActiveNow()
    if (this.#kubeProxy.isActiveNow()) return 'kube-proxy'
    return isAgent ? 'agent' : 'none'
  }

  /** Milliseconds until `runningNow` may report an end; undefined: no other agent runs. */
  nextInMs(): number | undefined {
    const times = [this.#kubeProxy.nextInMs(), this.#agent.nextInMs()].filter((time) => time !== undefined)
    return times.length === 0 ? undefined : Math.min(...times)
  }

  /** In its own table, kube-proxy names chains `service-HASH-namespace/name/...`; Viaduct's names have no slash. */
  #isOfKubeProxy({ family, kind, table, name }: NftChangedObject, program: string): boolean {
    if (family !== this.#options.family || !signKinds.has(kind)) return false
    if (table === tableName) return name.includes('/')
    if (serviceChain.test(name)) return true
    return ipvsChain.test(name) && (this.#options.mode === 'table' || restoreProgram.test(program))
  }

  #kubeProxyReport(
    writer: { readonly program: string; readonly pid: number },
    { table, name }: NftChangedObject,
  ): Report {
    const ipFamily = logFamily(this.#options.family)
    const consequence =
      this.#options.mode === 'ipvs'
        ? 'both change the same rules and virtual servers'
        : 'Viaduct repairs its own rules at most once a minute'
    return {
      text:
        `${writer.program} (pid ${writer.pid}) changes ${ipFamily} ${table} ${name} again: stop that kube-proxy; ` +
        `until then ${consequence}`,
      fields: { ipFamily, ...writer },
    }
  }

  #agentReport(kind: ForeignContent['kind'], name: string): Report {
    const ipFamily = logFamily(this.#options.family)
    const { program, pid } = this.#writer
    return {
      text:
        `${program} (pid ${pid}) writes other ${kind} into ${ipFamily} ${tableName} ${name} after each repair: it has another version, ` +
        `other settings or another API server. Stop one of the two; until then Viaduct repairs its table with each change of Services, and ` +
        `otherwise every ${agentRestMs / 1000} s at most`,
      fields: { ipFamily, program, pid },
    }
  }
}

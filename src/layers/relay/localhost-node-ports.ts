import type { IpAddress, IpFamily } from '../../address.js'
import { JoinedWatch, KernelQuestions, type ModeWatch } from '../../engine/index.js'
import { KernelError } from '../../errors.js'
import type { Relay } from '../../kernel/index.js'
import type { Log } from '../../log.js'
import { type LocalhostFacts, relayedLoopback } from '../../node/index.js'
import type { LocalhostNodePortTotals } from '../../metrics/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { Route } from '../../routing/index.js'
import type { AfterSyncPart } from '../shared/index.js'
import { compileNodePort } from './compile/compile.js'
import { RelayConditionWatch } from './condition-watch.js'
import { type RelayPass, RelayTable, type RelayTableOptions } from './relay-table.js'
import { nearClients, type SharedRelay } from './shared-relay.js'

export interface LocalhostNodePortsOptions extends Omit<RelayTableOptions, 'relay' | 'nextId'> {
  readonly mode: LocalhostFacts['mode']
  readonly config: LocalhostFacts['config']
  readonly relay: SharedRelay
}

/** The part, and what it has done so far. */
export interface LocalhostNodePorts extends AfterSyncPart {
  readonly totals: LocalhostNodePortTotals
}

/** undefined: the configuration does not ask for node ports on the loopback address of this family. */
export function openLocalhostNodePorts(options: LocalhostNodePortsOptions): LocalhostNodePorts | undefined {
  const address = relayedLoopback(options)
  return address === undefined ? undefined : new RelayedNodePorts(options, address)
}

export interface LocalhostWatchOptions extends Pick<LocalhostNodePortsOptions, 'mode' | 'config'> {
  readonly families: readonly IpFamily[]
  readonly kernel: { readonly relay: Relay }
  readonly log: Log
}

/** The watch of a mode, joined by that of the relay's shortages if the configuration asks for node ports on a loopback address. */
export function withConditionWatch(
  watch: ModeWatch | undefined,
  { families, mode, config, kernel, log }: LocalhostWatchOptions,
): ModeWatch | undefined {
  const usesRelay = families.some((family) => relayedLoopback({ mode, family, config }) !== undefined)
  if (!usesRelay) return watch
  const conditions = new RelayConditionWatch(kernel.relay, log)
  return watch === undefined ? conditions : new JoinedWatch([watch, conditions])
}

/**
 * The node ports of one family on its loopback address, through the relay, in a mode whose own objects do not serve them. The relay starts
 * with the first listener. The clients are this node itself: they get the endpoints of policy Cluster (F-051).
 */
class RelayedNodePorts implements LocalhostNodePorts {
  readonly #options: LocalhostNodePortsOptions
  readonly listensOn: IpAddress
  readonly #questions: KernelQuestions
  readonly #table: RelayTable
  #creationFailures = 0
  /** A write of this part is no pass of its own: its failures are reported as problems. */
  readonly #pass: RelayPass = {
    count: (_kind, ops, { failures }) => {
      for (const { index } of failures) if (ops.at(index)?.op === 'set-listener') this.#creationFailures++
    },
    fail: () => {},
  }

  constructor(options: LocalhostNodePortsOptions, address: IpAddress) {
    const { relay } = options
    this.#options = options
    this.listensOn = address
    this.#questions = new KernelQuestions(options)
    this.#table = new RelayTable({ ...options, relay: relay.relay, nextId: relay.nextId })
  }

  get totals(): LocalhostNodePortTotals {
    return {
      listeners: this.#table.sizes['relay-listener'],
      creationFailures: this.#creationFailures,
    }
  }

  note(key: ServicePortKey, served: Route | undefined): void {
    const settings = {
      nodePortAddresses: [this.listensOn],
      servesAllAddresses: false,
      nodeIP: undefined,
    }
    this.#table.claim(key, served?.service ?? '', served && compileNodePort(served, settings))
  }

  /** Reports listeners that fail. A later run tries them again. */
  async run(): Promise<void> {
    if (!this.#table.isWriteDue) return
    const { family, relay } = this.#options
    const near = nearClients([this.listensOn], undefined)
    const isReady = await this.#questions.ask({ key: 'relay settings' }, () =>
      relay.configure(family, { near, nodePortAddresses: [this.listensOn] }),
    )
    if (!(isReady instanceof KernelError)) await this.#table.write(this.#pass, async () => {})
  }
}

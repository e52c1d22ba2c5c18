// One write of a table: brings what is desired to the kernel, in transactions of bounded size, one after the other. It plans one
// transaction while the kernel works on the one before.
import { constants } from 'node:os'
import type { Clock } from '../../../clock.js'
import type { Pass } from '../../../engine/index.js'
import { KernelError } from '../../../errors.js'
import type { NfOutcome, NfTransaction } from '../../../kernel/index.js'
import type { ServicePortKey } from '../../../model/index.js'
import { sendTransaction } from '../../objects/index.js'
import type { HeldSet, TableContent } from './content.js'
import type { FrontendEntry, HeldEntry } from './entries.js'
import { isPublished, isSameState } from './frontend-state.js'
import { type OwnPortEntry, ruleCount } from './own-ports.js'
import type { StructureOps } from './structure-state.js'
import {
  elementsPerRule,
  nftOperations,
  type Refusal,
  type RefusedDrift,
  SentOperations,
  targetOf,
  Transaction,
} from './transaction.js'

/** Elements of a transaction, and those of one frontend more. */
export const elementLimits = {
  /** A write in one transaction: other writers wait for the kernel, at most 100 ms. */
  whole: 32_000,
  /** A write in parts: the kernel works on one part while the next one is planned. */
  part: 8000,
} as const

/**
 * Operations of a transaction with new sets and chains: other writers wait some 30 ms. A list of 1,000 endpoints has 8,000 of them, which
 * took 256 ms.
 */
const mostStructureOps = 1000

interface TableWriteOptions {
  /** Sends a transaction of the table. */
  readonly send: (transaction: NfTransaction) => Promise<NfOutcome>
  readonly clock: Clock
  readonly content: TableContent
  readonly pass: Pass
  /** True: no further transaction is sent. */
  readonly isStopping: () => boolean
}

/** The dirty objects. */
interface Work {
  readonly frontends: readonly FrontendEntry[]
  readonly ownPorts: readonly OwnPortEntry[]
  readonly held: readonly { readonly of: HeldSet; readonly entries: readonly HeldEntry[] }[]
  /** One transaction does not take everything. */
  readonly isInParts: boolean
}

/** Searches for refused elements in one write, and readings of a table that another program changed meanwhile. */
const mostSearches = 4

/** Errors of elements that no element causes. */
const notOfElements: ReadonlySet<string> = new Set(['EAGAIN', 'EBADF', 'EINTR', 'ENOBUFS', 'ENOMEM', 'EPERM'])

interface WriteTableOptions extends TableWriteOptions {
  /** Reads what another program changed meanwhile. Throws KernelError. */
  readonly readAgain: (drift: RefusedDrift) => Promise<void>
  /** The kernel refuses elements of the service port, which has no claims from now on. */
  readonly noteLeftOut: (route: ServicePortKey, cause: KernelError) => void
}

/**
 * Writes all that is dirty, without the service ports that the kernel refuses. Throws KernelError when the table cannot be written without
 * them either. False: the write was stopped.
 */
export async function writeTable(options: WriteTableOptions): Promise<boolean> {
  let write: TableWrite | undefined
  return await sendTransaction({
    send: async () => {
      write = new TableWrite(options)
      return await write.run()
    },
    leaveOut: async (error) => await leaveOut(error, write?.refusal, options),
    mostSearches,
  })
}

/** Takes the service ports of refused elements out, or reads the table again. False: neither helps. */
async function leaveOut(
  error: KernelError,
  refusal: Refusal | undefined,
  { content, pass, readAgain, noteLeftOut }: WriteTableOptions,
): Promise<boolean> {
  if (refusal === undefined || notOfElements.has(error.code)) return false
  if (refusal.drift !== undefined) {
    pass.note(error.message)
    await readAgain(refusal.drift)
    return true
  }
  const routes = new Map<ServicePortKey, KernelError>()
  for (const [owner, cause] of refusal.owners)
    for (const route of content.routesOf(owner)) routes.set(route, cause)
  for (const [route, cause] of routes) {
    content.claim(route, undefined)
    noteLeftOut(route, cause)
    pass.note(`${route}: ${cause.message}`)
  }
  return routes.size > 0
}

/** One write of all that is dirty: made, then run once. */
class TableWrite {
  readonly #options: TableWriteOptions
  readonly #structure: StructureOps
  readonly #work: Work
  /** New sets and chains come in transactions of their own. */
  readonly #isEarlyApart: boolean
  /** The number of elements with which a transaction is full. */
  readonly #mostElements: number
  /** The next one to be sent. */
  #next: Transaction
  #refusal: Refusal | undefined
  /** The last transaction that was sent. */
  #sent: Transaction | undefined
  /** Settles when its outcome is in the acknowledged state. */
  #inFlight: Promise<void> = Promise.resolve()

  /** Takes all objects that are dirty now. `run` must follow. */
  constructor(options: TableWriteOptions) {
    this.#options = options
    const { content } = options
    for (const entry of content.moves.due()) content.frontends.markDirty(entry)
    const frontends = content.frontends.takeDirty()
    const ownPorts = content.own.entries.takeDirty()
    const held = content.heldSets.map((of) => ({ of, entries: of.entries.takeDirty() }))
    content.compile(frontends)
    const { structure } = content
    const most = structure.isServing ? elementLimits.whole : elementLimits.part
    const isInParts = isMoreThan({ frontends, ownPorts }, most, content.packer.endpointBytes)
    this.#work = { frontends, ownPorts, held, isInParts }
    this.#mostElements = isInParts ? elementLimits.part : elementLimits.whole
    this.#structure = structure.plan({ isForeign: structure.isForeign })
    const { early, first } = this.#structure
    this.#isEarlyApart = early.length > mostStructureOps
    this.#next = new Transaction(content, this.#isEarlyApart ? first : [...early, ...first])
  }

  /** Why the kernel refused a transaction; undefined: it refused none, or its answer was lost. */
  get refusal(): Refusal | undefined {
    return this.#refusal
  }

  /**
   * Writes the structure and all dirty objects. One transaction, unless it would have too many elements: then the endpoints of
   * frontends that no packet meets come first, and what makes them serve after them. While no packet enters the table, the order of
   * elements does not matter: the structure comes first, so that the kernel works on it while the first elements are planned, and the
   * base chains come at the end. Throws KernelError; transactions before the failed one stay, and objects that the kernel does not
   * have are dirty still. False: `isStopping` returned true before the last transaction; the rest was not sent.
   */
  async run(): Promise<boolean> {
    const { frontends, ownPorts, held } = this.#work
    let isSent = false
    try {
      isSent = await this.#sendAll()
      return isSent
    } finally {
      const { content } = this.#options
      if (!isSent) {
        for (const entry of frontends) content.frontends.markDirty(entry)
        for (const entry of ownPorts) content.own.entries.markDirty(entry)
        for (const { of, entries } of held) for (const entry of entries) of.entries.markDirty(entry)
      }
    }
  }

  async #sendAll(): Promise<boolean> {
    const { frontends, ownPorts, held, isInParts } = this.#work
    const { isServing } = this.#options.content.structure
    try {
      if (this.#isEarlyApart) await this.#writeEarly()
      if (isInParts && !isServing) await this.#writeStructure()
      await this.#writeStrays()
      await this.#writeOwnPorts(ownPorts)
      if (isInParts && isServing) await this.#writeData(frontends)
      await this.#writeFrontends(frontends)
      for (const { of, entries } of held) await this.#writeHeld(of, entries)
      return await this.#end()
    } finally {
      // Also after a stop: no transaction may still run when the write ends.
      await this.#settled()
    }
  }

  /** The sets, and the chains that no packet enters yet, in a transaction of their own. */
  async #writeStructure(): Promise<void> {
    await this.#send()
  }

  /** New sets and chains, to which nothing leads. */
  async #writeEarly(): Promise<void> {
    const { content, isStopping } = this.#options
    const { early } = this.#structure
    const rest = this.#next
    for (let from = 0; from < early.length && !isStopping(); from += mostStructureOps) {
      this.#next = new Transaction(content, early.slice(from, from + mostStructureOps))
      await this.#sendFull()
    }
    this.#next = rest
  }

  /** Deletes elements that belong to no object. They are known until the kernel has deleted them. */
  async #writeStrays(): Promise<void> {
    const { content, isStopping } = this.#options
    for (const [name, { set, keys }] of content.strays) {
      for (const key of keys) {
        if (isStopping()) return
        this.#next.remove(set, undefined, { key })
        if (this.#isFull) await this.#sendFull()
      }
      this.#next.endStrays(name)
    }
  }

  /** The own chains come before the elements that lead to them. */
  async #writeOwnPorts(ownPorts: readonly OwnPortEntry[]): Promise<void> {
    for (const entry of ownPorts) {
      if (this.#options.isStopping()) return
      this.#next.addOwnPort(entry)
      if (this.#isFull) await this.#sendFull()
    }
  }

  /** The endpoints of frontends that no packet meets yet, in transactions of their own. */
  async #writeData(frontends: readonly FrontendEntry[]): Promise<void> {
    const { content, isStopping } = this.#options
    const { endpointBytes } = content.packer
    for (const entry of frontends) {
      if (isStopping()) return
      const { acknowledged } = entry
      if (isPublished(acknowledged)) continue
      const { endpoints, shortCircuit } = targetOf(entry, endpointBytes)
      const data = { ...acknowledged, endpoints, shortCircuit }
      if (isSameState(data, acknowledged)) continue
      this.#next.addFrontend(entry, data)
      if (this.#isFull) await this.#sendFull()
    }
    if (this.#next.size > 0) await this.#send()
  }

  async #writeFrontends(frontends: readonly FrontendEntry[]): Promise<void> {
    const { content, isStopping } = this.#options
    const { endpointBytes } = content.packer
    for (const entry of frontends) {
      if (isStopping()) return
      // The plan needs the acknowledged state.
      if (this.#sent?.hasFrontend(entry) === true) await this.#settled()
      this.#next.addFrontend(entry, content.moves.stepTo(targetOf(entry, endpointBytes), entry))
      if (this.#isFull) await this.#sendFull()
    }
  }

  async #writeHeld(of: HeldSet, entries: readonly HeldEntry[]): Promise<void> {
    for (const entry of entries) {
      if (this.#options.isStopping()) return
      this.#next.addHeld(of, entry)
      if (this.#isFull) await this.#sendFull()
    }
  }

  /** The last transaction, with what makes the elements serve. False: the write was stopped, and nothing more was sent. */
  async #end(): Promise<boolean> {
    const { structure, staticSets } = this.#options.content
    const known = new Set(structure.sets.map(({ set }) => set))
    for (const each of staticSets) if (known.has(each.set.set)) this.#next.addStatic(each)
    this.#next.addLast(this.#structure.last)
    if (!(await this.#send())) return false
    await this.#settled()
    return true
  }

  /** Resolves when no transaction is in flight. Throws the KernelError of the one that was not applied. */
  async #settled(): Promise<void> {
    await this.#options.pass.stages.inKernel(async () => await this.#inFlight)
  }

  /** The plan is as much as a transaction takes. */
  get #isFull(): boolean {
    return this.#next.size >= this.#mostElements
  }

  async #sendFull(): Promise<void> {
    await this.#send()
    await this.#options.clock.pause()
  }

  /**
   * Sends what is planned as soon as the kernel has taken the transaction before, and does not wait for the answer. False: the
   * write was stopped.
   */
  async #send(): Promise<boolean> {
    // After a refusal nothing more is sent: the plan may need what was refused.
    await this.#settled()
    if (this.#options.isStopping()) return false
    this.#sent = this.#next
    this.#inFlight = this.#commit(this.#sent)
    // `#settled` throws this failure too.
    this.#inFlight.catch(() => undefined)
    this.#next = new Transaction(this.#options.content)
    return true
  }

  async #commit(transaction: Transaction): Promise<void> {
    const { pass } = this.#options
    const { ops } = transaction
    if (ops.length > 0) await this.#apply(transaction, ops)
    pass.stages.plan(() => transaction.confirm())
  }

  async #apply(transaction: Transaction, ops: NfTransaction): Promise<void> {
    const { send, content, pass } = this.#options
    const outcome = await send(ops)
    const [failure] = outcome.failures
    if (outcome.state === 'applied') {
      pass.count(nftOperations, new SentOperations(ops), { applied: ops.length, failures: [] })
      return
    }
    if (outcome.state === 'refused') this.#refusal = transaction.refusalOf(outcome)
    else content.staleParts.markUnknown()
    throw failure?.error ?? lostAnswer()
  }
}

function lostAnswer(): KernelError {
  const operation = 'commit nf_tables transaction'
  return new KernelError({ errno: constants.errno.ENOBUFS, subsystem: 'nftables', operation })
}

/** Whether the frontends and own chains may have more elements than `limit`. */
function isMoreThan(
  { frontends, ownPorts }: Pick<Work, 'frontends' | 'ownPorts'>,
  limit: number,
  endpointBytes: number,
): boolean {
  let size = 0
  for (const entry of ownPorts) {
    size += elementsPerRule * ruleCount(entry)
    if (size > limit) return true
  }
  for (const { acknowledged, desired } of frontends) {
    if (acknowledged === desired) continue
    size += 4 + (desired.endpoints.length + desired.shortCircuit.length) / endpointBytes
    if (size > limit) return true
  }
  return false
}

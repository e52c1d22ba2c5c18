// All that one family's table wants and has.
import type { IpFamily } from '../../../address.js'
import type { NfSet, NfTableKey } from '../../../kernel/index.js'
import { compileStructure } from '../compile/structure.js'
import type { NftModeSettings } from '../compile/settings.js'
import type { FrontendEntry } from './entries.js'
import { NftLedger } from './ledger.js'
import type { PackedBytes } from './packed.js'
import { addressElements, StaticSet } from './static-sets.js'
import { StructureState } from './structure-state.js'
import { StaleParts } from './stale-parts.js'
import { UsedValues } from './use.js'

/** Elements of a set that belong to no object. */
interface Strays {
  readonly set: NfSet
  readonly keys: readonly PackedBytes[]
}

export class TableState {
  readonly table: NfTableKey
  readonly ledger: NftLedger
  readonly staleParts: StaleParts
  readonly structure: StructureState
  readonly nodePortIPs: StaticSet
  readonly serviceCidrs: StaticSet
  /** To be deleted, by the names of the sets. */
  readonly strays = new Map<string, Strays>()
  readonly #use = new UsedValues()
  #settings: NftModeSettings | undefined
  #compiledFor: { readonly settings: NftModeSettings; readonly size: number } | undefined

  constructor(family: IpFamily) {
    this.ledger = new NftLedger(family)
    const { schema } = this.ledger
    this.table = schema.table
    this.structure = new StructureState(schema)
    this.staleParts = new StaleParts(schema.table)
    this.nodePortIPs = new StaticSet(schema.nodePortIPs)
    this.serviceCidrs = new StaticSet(schema.serviceCidrs)
  }

  get settings(): NftModeSettings | undefined {
    return this.#settings
  }

  set settings(settings: NftModeSettings) {
    this.#settings = settings
    const { nodePortAddresses } = settings
    const addresses = nodePortAddresses === 'all' ? [] : nodePortAddresses
    this.nodePortIPs.want(addressElements(this.ledger.schema.nodePortIPs, addresses))
  }

  /** Sets that are written as a whole. */
  get staticSets(): readonly StaticSet[] {
    return [this.nodePortIPs, this.serviceCidrs]
  }

  /** The kernel has a set of this name: what it is for is in use. */
  noteSet(name: string): void {
    this.#use.noteSet(this.ledger.schema, name)
  }

  /** The kernel has a chain of this name. */
  noteChain(name: string): void {
    this.#use.noteChain(name)
  }

  /**
   * Compiles the structure for the settings, and for what the frontends have and want. `changed`: the frontends that may have changed
   * since the last call. A frontend is dirty from its change to the next write.
   */
  compile(changed: Iterable<FrontendEntry> = this.ledger.frontends.dirty): void {
    const settings = this.#settings
    if (settings === undefined) return
    const { packer } = this.ledger
    for (const { acknowledged, desired, isNodePort } of changed) {
      this.#use.note(acknowledged, isNodePort, packer)
      this.#use.note(desired, isNodePort, packer)
    }
    const { size } = this.#use
    if (this.#compiledFor?.settings === settings && this.#compiledFor.size === size) return
    this.#compiledFor = { settings, size }
    this.structure.wanted = compileStructure(settings, this.#use)
  }

  /** Compiles the structure for what is in use now, without what was in use before. Walks all frontends. */
  recompile(): void {
    this.#use.clear()
    this.#compiledFor = undefined
    this.compile(this.ledger.frontends.values())
  }
}

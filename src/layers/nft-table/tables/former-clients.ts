// Clients with session affinity that a former owner of the table recorded: kube-proxy's nftables mode, or Viaduct before sets of clients.
import { type IpAddress, parseIpAddress } from '../../../address.js'
import { isNotFound, KernelError } from '../../../errors.js'
import {
  NfElements,
  type NfField,
  type Nftables,
  type NfSet,
  type NfTableKey,
} from '../../../kernel/index.js'
import type { Clock } from '../../../clock.js'
import type { ObjectTable } from '../../objects/index.js'
import type { FrontendEntry } from './entries.js'
import type { OwnPortEntry, OwnPorts } from './own-ports.js'
import { packBytes, type PackedBytes, type Packer } from './packed.js'

/** Client . KEY -> endpoint: the maps of Viaduct 1.x. */
const formerMaps = [
  { name: 'session-affinity', isNodePort: false },
  { name: 'session-affinity-nodeports', isNodePort: true },
] as const

/** kube-proxy's set of the clients of one endpoint. Names of more than 240 bytes are cut, and do not match. */
const kubeProxySet =
  /^affinity-[A-Z2-7]{8}-(?<service>[^/]+\/[^/]+)\/(?<protocol>tcp|udp|sctp)\/(?<port>[^/]*)__(?<address>[^/]+)\/(?<number>\d+)$/u

interface FormerClient {
  readonly client: PackedBytes
  readonly endpoint: PackedBytes
  readonly untilMs: number
}

export interface FormerClientsOptions {
  readonly nftables: Pick<Nftables, 'elements' | 'sets'>
  readonly content: {
    readonly table: NfTableKey
    readonly packer: Packer
    readonly own: OwnPorts
    readonly frontends: ObjectTable<PackedBytes, FrontendEntry>
  }
  readonly clock: Pick<Clock, 'now'>
}

/** The clients that come into sets of clients when these are made, with the time that they have left. */
export class FormerClients {
  readonly #options: FormerClientsOptions
  readonly #clients = new Map<OwnPortEntry, FormerClient[]>()

  constructor(options: FormerClientsOptions) {
    this.#options = options
  }

  /** Reads the clients of the claimed service ports. A set that cannot be read has none. Throws KernelError. */
  async read(): Promise<void> {
    const { nftables, content } = this.#options
    this.#clients.clear()
    const sets = await nftables.sets(content.table).catch((error: unknown) => noneIfAbsent(error))
    const names = new Set(sets.map(({ set }) => set))
    for (const { name, isNodePort } of formerMaps) if (names.has(name)) await this.#readMap(name, isNodePort)
    for (const name of names) {
      const groups = kubeProxySet.exec(name)?.groups
      if (groups !== undefined) await this.#readSet(name, groups)
    }
  }

  /** The elements of the service port's set of clients, whose endpoints have slots now. undefined: there are none. */
  elementsOf(entry: OwnPortEntry, set: NfSet): NfElements | undefined {
    const clients = this.#clients.get(entry)
    if (clients === undefined || entry.wanted === undefined) return undefined
    const nowMs = this.#options.clock.now()
    const timeoutMs = entry.wanted.desired.affinitySeconds * 1000
    const untilMs = new Map<PackedBytes, number>()
    for (const { client, endpoint, untilMs: until } of clients) {
      const slot = entry.slots.get(endpoint)
      if (slot === undefined || until <= nowMs) continue
      const key = client + packSlot(slot)
      untilMs.set(key, Math.max(untilMs.get(key) ?? 0, until))
    }
    const elements = new NfElements(set)
    for (const [key, until] of untilMs)
      elements.add(Buffer.from(key, 'latin1'), {
        timeoutMs,
        expirationMs: Math.min(timeoutMs, Math.ceil(until - nowMs)),
      })
    return elements.length === 0 ? undefined : elements
  }

  /** The kernel has the service port's elements. */
  forget(entry: OwnPortEntry): void {
    this.#clients.delete(entry)
  }

  async #readMap(name: string, isNodePort: boolean): Promise<void> {
    const { content } = this.#options
    const { addressBytes } = content.packer
    const port: readonly NfField[] = ['inet_proto', 'inet_service']
    const map: NfSet = {
      ...this.#dynamicSet(name),
      key: [this.#address, ...(isNodePort ? [] : [this.#address]), ...port],
      data: [this.#address, 'inet_service'],
    }
    const elements = await this.#elements(map)
    for (let index = 0; index < elements.length; index++) {
      const key = packBytes(elements.key(index))
      const holder = content.frontends.get(key.slice(addressBytes))?.wanted?.holder
      const entry = holder && content.own.entryOf(holder)
      const endpoint = packBytes(elements.data(index))
      if (entry !== undefined) this.#add(entry, elements, index, endpoint)
    }
  }

  async #readSet(name: string, groups: Readonly<Record<string, string | undefined>>): Promise<void> {
    const { own } = this.#options.content
    const { service = '', protocol = '', port = '', address = '', number = '' } = groups
    const entry = own.entryNamed(`${service}:${port}/${protocol.toUpperCase()}`)
    const parsed = parseIpAddress(this.#address === 'ipv4_addr' ? address : address.replaceAll('.', ':'))
    if (entry === undefined || parsed === undefined) return
    const endpoint = this.#packEndpoint(parsed, Number(number))
    const elements = await this.#elements({ ...this.#dynamicSet(name), key: [this.#address] })
    for (let index = 0; index < elements.length; index++) this.#add(entry, elements, index, endpoint)
  }

  #add(entry: OwnPortEntry, elements: NfElements, index: number, endpoint: PackedBytes): void {
    const { addressBytes } = this.#options.content.packer
    const client = packBytes(elements.key(index)).slice(0, addressBytes)
    const untilMs = this.#options.clock.now() + elements.expirationMs(index)
    const clients = this.#clients.get(entry)
    if (clients === undefined) this.#clients.set(entry, [{ client, endpoint, untilMs }])
    else clients.push({ client, endpoint, untilMs })
  }

  #packEndpoint(address: IpAddress, port: number): PackedBytes {
    return this.#options.content.packer.endpoints([{ address, port }])
  }

  get #address(): NfField {
    return this.#options.content.table.family === 'ipv4' ? 'ipv4_addr' : 'ipv6_addr'
  }

  #dynamicSet(set: string): Pick<NfSet, 'family' | 'table' | 'set' | 'flags'> {
    return { ...this.#options.content.table, set, flags: ['timeout', 'dynamic'] }
  }

  /** None: the set has gone, or has other fields. */
  async #elements(set: NfSet): Promise<NfElements> {
    try {
      return await this.#options.nftables.elements(set)
    } catch (error) {
      if (error instanceof KernelError && (isNotFound(error) || error.code === 'EPROTO'))
        return new NfElements(set)
      throw error
    }
  }
}

function noneIfAbsent(error: unknown): readonly never[] {
  if (error instanceof KernelError && isNotFound(error)) return []
  throw error
}

/** A number of four bytes in the order of the host, as in a register. */
function packSlot(slot: number): PackedBytes {
  return String.fromCharCode(slot & 255, (slot >>> 8) & 255, (slot >>> 16) & 255, slot >>> 24)
}

// Packs IPVS operations into records, without an object per operation.
import { RealServerCursor, VirtualServerCursor } from './cursors.js'
import type {
  IpvsOp,
  RealServer,
  RealServerKey,
  RealServerSettings,
  VirtualServer,
  VirtualServerKey,
  VirtualServerSettings,
} from './servers.js'
import {
  writeRealServerKey,
  writeRealServerSettings,
  writeVirtualServerKey,
  writeVirtualServerSettings,
} from './encode.js'
import type { RealServerList } from './real-server-list.js'
import { opLayout, opNumber, realServerLayout as real, virtualServerLayout as virtual } from './layout.js'
import { recordBuffer, type RecordBuffer, type RecordLayout } from '../records.js'

/** A packed batch: operations refer to two tables by index. */
interface EncodedIpvsBatch {
  readonly ops: Uint8Array
  readonly virtualServers: Uint8Array
  readonly realServers: Uint8Array
}

const allFlags = 0xffffffff
const kinds: readonly IpvsOp['op'][] = [
  'add-virtual-server',
  'set-virtual-server',
  'remove-virtual-server',
  'add-real-server',
  'set-real-server',
  'remove-real-server',
  'zero-virtual-server',
]

function isSameKey(a: VirtualServerKey, b: VirtualServerKey): boolean {
  if (a === b) return true
  if ('mark' in a) return 'mark' in b && a.mark === b.mark && a.family === b.family
  return (
    !('mark' in b) &&
    a.port === b.port &&
    a.protocol === b.protocol &&
    a.family === b.family &&
    a.address === b.address
  )
}

/** Whether the kernel would store the same for both. */
export function isSameSettings(a: VirtualServerSettings, b: VirtualServerSettings): boolean {
  if (a === b) return true
  return (
    a.scheduler === b.scheduler &&
    a.flags === b.flags &&
    a.timeoutSeconds === b.timeoutSeconds &&
    a.netmaskLength === b.netmaskLength
  )
}

/** A table of equal records that grows at its end. */
class GrowingTable {
  #buffer: RecordBuffer
  #length = 0
  readonly #size: number

  constructor({ size }: RecordLayout, capacity: number) {
    this.#size = size
    this.#buffer = recordBuffer(capacity * size)
  }

  get length(): number {
    return this.#length
  }

  /** The buffer to write records to; valid until the next `add`. */
  get buffer(): RecordBuffer {
    return this.#buffer
  }

  /** The written records. More may follow. */
  get bytes(): Buffer {
    return this.#buffer.bytes.subarray(0, this.#length * this.#size)
  }

  /** Adds zeroed records and returns their byte offset. */
  add(count = 1): number {
    const at = this.#length * this.#size
    this.#length += count
    const needed = this.#length * this.#size
    if (needed > this.#buffer.bytes.length) {
      const grown = recordBuffer(Math.max(8 * this.#size, 2 * this.#buffer.bytes.length, needed))
      grown.bytes.set(this.#buffer.bytes)
      this.#buffer = grown
    }
    return at
  }
}

/** The bytes of settings that many records share. Copying them is faster than writing them again. */
class SettingsTemplate<Settings> {
  readonly #record: RecordBuffer
  readonly #isSame: (a: Settings, b: Settings) => boolean
  readonly #write: (record: RecordBuffer, settings: Settings) => void
  #settings: Settings | undefined

  constructor(
    { size }: RecordLayout,
    isSame: (a: Settings, b: Settings) => boolean,
    write: (record: RecordBuffer, settings: Settings) => void,
  ) {
    this.#record = recordBuffer(size)
    this.#isSame = isSame
    this.#write = write
  }

  copy(settings: Settings, into: RecordBuffer, at: number): void {
    if (this.#settings === undefined || !this.#isSame(this.#settings, settings)) {
      this.#record.bytes.fill(0)
      this.#write(this.#record, settings)
      this.#settings = settings
    }
    into.bytes.set(this.#record.bytes, at)
  }
}

/** A batch under construction; consecutive operations on one virtual server share its record. */
export class IpvsBatch {
  /** Number of operations. Only the batch changes it. */
  length = 0
  readonly #counts = new Map(kinds.map((kind) => [kind, 0]))
  /** Number of operations of each kind. */
  readonly counts: ReadonlyMap<IpvsOp['op'], number> = this.#counts
  readonly #ops: GrowingTable
  readonly #virtualServers: GrowingTable
  readonly #realServers: GrowingTable
  readonly #serverSettings = new SettingsTemplate<VirtualServerSettings>(
    virtual,
    isSameSettings,
    (record, settings) => writeVirtualServerSettings(record, 0, settings, allFlags),
  )
  readonly #realSettings = new SettingsTemplate<RealServerSettings>(
    real,
    (a, b) => a === b,
    (record, settings) => writeRealServerSettings(record, 0, settings),
  )
  /** Counts the virtual server records. Operations share the last one. */
  readonly #keys: VirtualServerKey[] = []

  /** `capacity`: expected number of operations. The batch grows beyond it. */
  constructor(capacity = 0) {
    this.#ops = new GrowingTable(opLayout, capacity)
    this.#virtualServers = new GrowingTable(virtual, capacity)
    this.#realServers = new GrowingTable(real, capacity)
  }

  static of(ops: readonly IpvsOp[]): IpvsBatch {
    const batch = new IpvsBatch(ops.length)
    for (const op of ops) batch.push(op)
    return batch
  }

  /** Adds a virtual server and all of its real servers. */
  addVirtualServer(
    server: VirtualServerKey,
    settings: VirtualServerSettings,
    realServers: RealServerList,
  ): void {
    this.#writeServer(server, settings, allFlags)
    this.#writeOp(opNumber['add-virtual-server'])
    this.#count('add-virtual-server', 1)
    this.#writeReals('add-real-server', realServers)
  }

  /**
   * Adds the operations that lead from one list of real servers to another. Real servers are added before others are changed, perhaps to
   * weight 0, or removed, so that clients always have one.
   */
  changeRealServers(server: VirtualServerKey, from: RealServerList, to: RealServerList): void {
    if (from.equals(to)) return
    const { added, changed, removed } = from.changesTo(to)
    this.#shareServer(server)
    this.#writeReals('add-real-server', added)
    this.#writeReals('set-real-server', changed)
    this.#writeReals('remove-real-server', removed)
  }

  push(op: IpvsOp): void {
    switch (op.op) {
      case 'add-virtual-server':
        this.#writeServer(op.server.key, op.server.settings, allFlags)
        break
      case 'set-virtual-server':
        this.#writeServer(op.server.key, op.server.settings, op.flagsMask ?? allFlags)
        break
      case 'remove-virtual-server':
      case 'zero-virtual-server':
        this.#shareServer(op.server)
        break
      case 'add-real-server':
      case 'set-real-server':
        this.#shareServer(op.server)
        this.#writeReal(op.real)
        break
      case 'remove-real-server':
        this.#shareServer(op.server)
        this.#writeRealKey(op.real)
        break
    }
    this.#writeOp(opNumber[op.op], this.#realServers.length - 1)
    this.#count(op.op, 1)
  }

  /** One operation as a new object; undefined: no such index. */
  at(index: number): IpvsOp | undefined {
    if (index < 0 || index >= this.length) return undefined
    const { view } = this.#ops.buffer
    const at = index * opLayout.size
    const op = kinds[view.getUint8(at + opLayout.op) - 1]
    const virtualServer = view.getUint32(at + opLayout.virtualServer, true)
    const server = this.#keys[virtualServer]
    if (op === undefined || server === undefined) return undefined
    const realServer = view.getUint32(at + opLayout.realServer, true)
    switch (op) {
      case 'add-virtual-server':
        return { op, server: this.#serverAt(virtualServer, server) }
      case 'set-virtual-server':
        return {
          op,
          server: this.#serverAt(virtualServer, server),
          flagsMask: this.#flagsMaskAt(virtualServer),
        }
      case 'remove-virtual-server':
      case 'zero-virtual-server':
        return { op, server }
      case 'add-real-server':
      case 'set-real-server':
        return { op, server, real: this.#realAt(realServer) }
      case 'remove-real-server':
        return { op, server, real: new RealServerCursor(this.#realServers.bytes).key(realServer) }
    }
  }

  #serverAt(index: number, key: VirtualServerKey): VirtualServer {
    return { key, settings: new VirtualServerCursor(this.#virtualServers.bytes).settings(index) }
  }

  #flagsMaskAt(index: number): number {
    return this.#virtualServers.buffer.view.getUint32(index * virtual.size + virtual.flagsMask, true)
  }

  #realAt(index: number): RealServer {
    const cursor = new RealServerCursor(this.#realServers.bytes)
    return { key: cursor.key(index), settings: cursor.settings(index) }
  }

  get encoded(): EncodedIpvsBatch {
    return {
      ops: this.#ops.bytes,
      virtualServers: this.#virtualServers.bytes,
      realServers: this.#realServers.bytes,
    }
  }

  #shareServer(key: VirtualServerKey): void {
    const last = this.#keys.at(-1)
    if (last !== undefined && isSameKey(last, key)) return
    const at = this.#virtualServers.add()
    writeVirtualServerKey(this.#virtualServers.buffer, at, key)
    this.#keys.push(key)
  }

  #writeServer(key: VirtualServerKey, settings: VirtualServerSettings, flagsMask: number): void {
    const at = this.#virtualServers.add()
    const { buffer } = this.#virtualServers
    this.#serverSettings.copy(settings, buffer, at)
    if (flagsMask !== allFlags) buffer.view.setUint32(at + virtual.flagsMask, flagsMask, true)
    writeVirtualServerKey(buffer, at, key)
    this.#keys.push(key)
  }

  #count(op: IpvsOp['op'], count: number): void {
    this.length += count
    this.#counts.set(op, (this.#counts.get(op) ?? 0) + count)
  }

  /** An operation on the last virtual server for each of these real servers. The kernel ignores the settings of one to remove. */
  #writeReals(op: IpvsOp['op'], realServers: RealServerList): void {
    const { length } = realServers
    if (length === 0) return
    const first = this.#realServers.length
    const at = this.#realServers.add(length)
    realServers.copyTo(this.#realServers.buffer.bytes, at)
    for (let index = first; index < first + length; index++) this.#writeOp(opNumber[op], index)
    this.#count(op, length)
  }

  #writeReal({ key, settings }: RealServer): void {
    const at = this.#realServers.add()
    const { buffer } = this.#realServers
    this.#realSettings.copy(settings, buffer, at)
    writeRealServerKey(buffer, at, key)
  }

  #writeRealKey(key: RealServerKey): void {
    const at = this.#realServers.add()
    writeRealServerKey(this.#realServers.buffer, at, key)
  }

  /** Writes an operation on the last virtual server; `realServer` is the index of its real server, if it has one. */
  #writeOp(number: number, realServer = 0): void {
    const at = this.#ops.add()
    const { bytes, view } = this.#ops.buffer
    view.setUint32(at + opLayout.virtualServer, this.#virtualServers.length - 1, true)
    if (hasRealServer(number)) view.setUint32(at + opLayout.realServer, realServer, true)
    bytes[at + opLayout.op] = number
  }
}

function hasRealServer(number: number): boolean {
  return number >= opNumber['add-real-server'] && number <= opNumber['remove-real-server']
}

// The addon's exports, declared by hand (native/binding/). Methods that return a promise run on libuv's pool, one call at
// a time per socket: a second one throws EBUSY, after close() all throw EBADF. Arrays that are passed in are read by the
// pool: leave them alone until the promise settles. A whole call that failed rejects with RawError.
import type { LookFinding } from './look/kernel-look.js'

/** Failures are FailureRecords, ascending by index; their texts lie in `text`. */
export interface RawOutcome {
  readonly applied: number
  readonly failures: Uint8Array
  readonly text: string
}

/** What a call of the addon rejects with, or throws when it cannot start. */
export interface RawError extends Error {
  /** Positive. */
  readonly errno: number
  /** "dump local routes" */
  readonly operation: string
  /** The kernel's own words, or empty. */
  readonly text: string
}

export interface RawIpvsTable {
  readonly virtualServers: Uint8Array
  readonly realServers: Uint8Array
  /** Only with counters. */
  readonly virtualServerCounters?: Uint8Array
  readonly realServerCounters?: Uint8Array
}

/** AF_INET or AF_INET6 of linux/socket.h. */
export type RawFamily = 2 | 10

export interface RawIpvsSocket {
  /** OpRecords, VirtualServerRecords, RealServerRecords. */
  apply(ops: Uint8Array, virtualServers: Uint8Array, realServers: Uint8Array): Promise<RawOutcome>
  dump(family: RawFamily, withCounters: boolean): Promise<RawIpvsTable>
  /** VirtualServerRecords, of which the key counts. */
  read(keys: Uint8Array, withCounters: boolean): Promise<RawIpvsTable>
  info(): Promise<{
    readonly version: number
    readonly connectionTableSize: number
    readonly ipv4VirtualServers: number
  }>
  timeouts(): Promise<{
    readonly tcpSeconds: number
    readonly tcpFinSeconds: number
    readonly udpSeconds: number
  }>
  setTimeouts(tcpSeconds: number, tcpFinSeconds: number, udpSeconds: number): Promise<void>
  /** Resolves when the call in flight is done and the socket closed. Any number of times. */
  close(): Promise<void>
}

export interface RawRouteSocket {
  /** RouteRecords. */
  applyRoutes(routes: Uint8Array): Promise<RawOutcome>
  /** AddressRecords. */
  applyAddresses(addresses: Uint8Array): Promise<RawOutcome>
  dumpLocalRoutes(family: RawFamily): Promise<Uint8Array>
  /** `interfaceIndex` 0: of all. */
  dumpAddresses(family: RawFamily, interfaceIndex: number): Promise<Uint8Array>
  /** LinkRecords. */
  dumpLinks(): Promise<Uint8Array>
  /** Index of the new device. At most 15 bytes. */
  addDummy(name: string): Promise<number>
  setUp(interfaceIndex: number): Promise<void>
  removeLink(interfaceIndex: number): Promise<void>
  close(): Promise<void>
}

export interface RawRouteEvents {
  /**
   * EventRecords. Waits on a thread of libuv's pool (open-kernel.ts counts them); the wait ends from time to time with no
   * records at all, so that a worker that is terminated can end: ask again.
   */
  next(): Promise<Uint8Array>
  /** Ends a wait. */
  close(): Promise<void>
}

export interface RawConntrackSocket {
  /** ConntrackFrontendRecords, ConntrackBackendRecords and ConntrackAddressRecords. `isFiltered`: only flows of the frontends were seen. */
  deleteStale(
    family: RawFamily,
    frontends: Uint8Array,
    backends: Uint8Array,
    nodePortAddresses: Uint8Array,
  ): Promise<{ readonly seen: number; readonly isFiltered: boolean; readonly deleted: number }>
  close(): Promise<void>
}

export interface RawIpsetSocket {
  /** IpsetOpRecords, IpsetSetRecords, IpsetEntryRecords, and the comments to which these point. */
  apply(ops: Uint8Array, sets: Uint8Array, entries: Uint8Array, texts: Uint8Array): Promise<RawOutcome>
  /** IpsetSetRecords of all sets. */
  listSets(): Promise<Uint8Array>
  /** IpsetEntryRecords. */
  listEntries(name: string): Promise<Uint8Array>
  close(): Promise<void>
}

export interface RawNftSocket {
  /** UTF-8: of each chain its table and its name, both ended by NUL. Rejects with EINVAL without nf_tables. */
  listChains(family: RawFamily): Promise<Uint8Array>
  /** The table with all that is in it. Rejects with ENOENT where there is none, EOPNOTSUPP without nf_tables. */
  deleteTable(family: RawFamily, table: string): Promise<void>
  /** Rejects where the kernel could not be asked, or knows nothing of the kind; both ways were tried then. */
  loadXtables(family: RawFamily): Promise<void>
  close(): Promise<void>
}

/** Streams (nftables/stream.ts) in and out. */
export interface RawNftTables {
  /** One transaction; its outcome (nftables/decode-outcome.ts). `generation` 0: whatever it is. */
  apply(operations: Uint8Array, generation: number, isDryRun: boolean): Promise<Uint8Array>
  generation(): Promise<number>
  list(request: Uint8Array): Promise<Uint8Array>
  listElements(request: Uint8Array): Promise<Uint8Array>
  /** By which events name this socket as their writer. At any time; 0 after close(). */
  portId(): number
  close(): Promise<void>
}

export interface RawNftEvents {
  /** nftables/changes.ts. As RawRouteEvents.next(): a wait ends from time to time without anything. */
  next(): Promise<Uint8Array>
  /** Ends a wait. */
  close(): Promise<void>
}

export interface RawLookWatch {
  /**
   * `sample`: VirtualServerRecords with their keys. Waits on a thread of libuv's pool until a look finds something, or so many
   * milliseconds are over.
   */
  next(sample: Uint8Array, longestMs: number): Promise<LookFinding>
  /** Ends a wait. */
  close(): Promise<void>
}

export interface RawKernelLook {
  /** Rejects never: what the kernel says against a question is part of the answer. */
  take(): Promise<Uint8Array>
  close(): Promise<void>
}

/** What became of an apply (xtables.ts, XtOutcome). */
export interface RawXtOutcome {
  readonly isWritten: boolean
  readonly entries: number
  readonly bytes: number
  readonly repeats: number
  readonly lockWaitMs: number
  readonly kept: readonly { readonly chain: string; readonly by: string }[]
}

export interface RawXtablesTable {
  /**
   * ChainRecords, RuleRecords, and the texts that they name: `texts` holds NUL-ended UTF-8 one after the other, a text's
   * number is its place among them.
   */
  stage(chains: Uint8Array, rules: Uint8Array, texts: Uint8Array): Promise<void>
  /** As `stage`. */
  load(chains: Uint8Array, rules: Uint8Array, texts: Uint8Array): Promise<void>
  /** The first three as `stage`. `prune`: chain names or patterns, NUL-ended as well. */
  apply(
    chains: Uint8Array,
    rules: Uint8Array,
    texts: Uint8Array,
    prune: Uint8Array,
    lockTimeoutMs: number,
  ): Promise<RawXtOutcome>
  refusals(): Promise<readonly { readonly chain: string; readonly rule: number; readonly error: RawError }[]>
  check(): Promise<boolean>
  compare(): Promise<{ readonly missing: readonly string[]; readonly changed: readonly string[] }>
  /** Parallel arrays. */
  chains(): Promise<{ readonly names: readonly string[]; readonly rules: Uint32Array }>
  /** `chains`: names, NUL-ended as above. Of each chain its rules' packets, in order. */
  packets(chains: Uint8Array): Promise<readonly Float64Array[]>
  /** At any time: no `apply` waits for the lock any more, the one in flight neither. */
  hurry(): void
  close(): Promise<void>
}

/** Constructors open their sockets in the network namespace of the calling thread, and throw RawError. */
export interface Addon {
  readonly IpvsSocket: new () => RawIpvsSocket
  readonly RouteSocket: new () => RawRouteSocket
  readonly RouteEvents: new () => RawRouteEvents
  readonly ConntrackSocket: new () => RawConntrackSocket
  readonly IpsetSocket: new () => RawIpsetSocket
  readonly NftSocket: new () => RawNftSocket
  readonly NftTables: new () => RawNftTables
  /** Without the changes of the socket with that port id. */
  readonly NftEvents: new (ownPort: number) => RawNftEvents
  readonly KernelLook: new (families: Uint8Array) => RawKernelLook
  /** Of the tables nat and filter alone, or, with a prefix, of ipvs mode: sets are looked at for one part in `setsShare` of the time. */
  readonly LookWatch: new (
    families: Uint8Array,
    periodMs: number,
    setPrefix?: string,
    setsShare?: number,
  ) => RawLookWatch
  readonly XtablesTable: new (family: RawFamily, table: string) => RawXtablesTable
  /** Lines such as `READY=1` to the socket of that name (NOTIFY_SOCKET). Does not wait; throws RawError. */
  readonly notifyServiceManager: (socket: string, state: string) => void
  /** Size and offsets of each record (records.ts). */
  readonly layout: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** The attributes of nf_tables objects, in order (nftables/schema.ts). */
  readonly nftGrammar: string
}

/** The addon's file name. */
export const addonFile = 'viaduct.node'

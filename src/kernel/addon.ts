// The addon's exports, declared by hand (native/binding/). A method that returns a promise runs on libuv's thread pool. A socket
// runs one call at a time: a second call throws EBUSY, a call after close() throws EBADF. The pool reads the arrays that are passed
// in: do not change them until the promise settles. A failed call rejects with RawError.
import type { Layouts } from './layouts.js'
import type { RelayConditions } from './relay/relay.js'
import type { XtBarrier, XtDrift } from './xtables/xtables.js'

/** Failures are FailureRecords, ascending by index; `text` holds their texts. */
export interface RawOutcome {
  readonly applied: number
  readonly failures: Uint8Array
  readonly text: string
}

/** The error of a call of the addon: a rejection, or thrown if the call cannot start. */
export interface RawError extends Error {
  /** Positive. */
  readonly errno: number
  /** "dump local routes" */
  readonly operation: string
  /** The kernel's message (extended ACK), or empty. */
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
  /** Rejects with ENOENT if the kernel has not loaded IP_VS. */
  load(): Promise<void>
  /** OpRecords, VirtualServerRecords, RealServerRecords. */
  apply(ops: Uint8Array, virtualServers: Uint8Array, realServers: Uint8Array): Promise<RawOutcome>
  dump(family: RawFamily, withCounters: boolean): Promise<RawIpvsTable>
  /** VirtualServerRecords; only their keys are read. */
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
  /** Resolves when the call in flight is done and the socket is closed. Idempotent. */
  close(): Promise<void>
}

export interface RawRouteSocket {
  /** RouteRecords. */
  applyRoutes(routes: Uint8Array): Promise<RawOutcome>
  /** AddressRecords. */
  applyAddresses(addresses: Uint8Array): Promise<RawOutcome>
  /** RouteQueryRecords; RouteChoiceRecords in the same order. */
  lookUp(queries: Uint8Array): Promise<Uint8Array>
  dumpLocalRoutes(family: RawFamily): Promise<Uint8Array>
  /** AddressRecords. */
  dumpNextHops(family: RawFamily): Promise<Uint8Array>
  /** `interfaceIndex` 0: all interfaces. */
  dumpAddresses(family: RawFamily, interfaceIndex: number): Promise<Uint8Array>
  /** LinkRecords. */
  dumpLinks(): Promise<Uint8Array>
  /** RuleRecords. */
  dumpRules(family: RawFamily): Promise<Uint8Array>
  /** Index of the new device. At most 15 bytes. */
  addDummy(name: string): Promise<number>
  setUp(interfaceIndex: number): Promise<void>
  removeLink(interfaceIndex: number): Promise<void>
  close(): Promise<void>
}

export interface RawRouteEvents {
  /**
   * EventRecords. Waits on a thread of libuv's pool (open-kernel.ts counts the threads), at most `longestMs`, and then resolves
   * without records. Call it again. A terminated worker thread ends only when the wait ends.
   */
  next(longestMs: number): Promise<Uint8Array>
  /** Ends a wait. */
  close(): Promise<void>
}

export interface RawConntrackSocket {
  /** ConntrackFrontendRecords, ConntrackBackendRecords and ConntrackAddressRecords. `isFiltered`: the kernel sent only flows of the frontends. */
  deleteStale(
    family: RawFamily,
    frontends: Uint8Array,
    backends: Uint8Array,
    nodePortAddresses: Uint8Array,
  ): Promise<{ readonly seen: number; readonly isFiltered: boolean; readonly deleted: number }>
  /** ConntrackFrontendRecords and ConntrackAddressRecords. `flows`: ConntrackFlowRecords, at most `limit` of `total`. */
  listFlows(
    family: RawFamily,
    frontends: Uint8Array,
    nodePortAddresses: Uint8Array,
    limit: number,
  ): Promise<{ readonly flows: Uint8Array; readonly total: number }>
  /** ConntrackFrontendRecords and ConntrackAddressRecords. Resolves with ConntrackFlowCountRecords. */
  countFlows(family: RawFamily, frontends: Uint8Array, nodePortAddresses: Uint8Array): Promise<Uint8Array>
  close(): Promise<void>
}

export interface RawIpsetSocket {
  /** IpsetOpRecords, IpsetSetRecords, IpsetEntryRecords, and the comments of the entries. */
  apply(ops: Uint8Array, sets: Uint8Array, entries: Uint8Array, texts: Uint8Array): Promise<RawOutcome>
  /** IpsetSetRecords of all sets. */
  listSets(): Promise<Uint8Array>
  /** IpsetEntryRecords. */
  listEntries(name: string): Promise<Uint8Array>
  /** The number by which rules of x_tables name a set. Rejects with ENOENT if the family has no such set. */
  findIndex(family: RawFamily, name: string): Promise<number>
  close(): Promise<void>
}

export interface RawNftSocket {
  /** UTF-8: table and name of each chain, both NUL-ended. Rejects with EINVAL without nf_tables. */
  listChains(family: RawFamily): Promise<Uint8Array>
  /** Deletes the table and its content. Rejects with ENOENT if it is absent, EOPNOTSUPP without nf_tables. */
  deleteTable(family: RawFamily, table: string): Promise<void>
  /** Rejects if both requests failed (nft_socket.h). */
  loadXtables(family: RawFamily): Promise<void>
  close(): Promise<void>
}

/** Arguments and results are streams (nftables/stream.ts), except names and numbers. */
export interface RawNftTables {
  /** Applies one transaction. Resolves with its outcome (nftables/decode-outcome.ts). `generation` 0: any. */
  apply(operations: Uint8Array, generation: number, isDryRun: boolean): Promise<Uint8Array>
  generation(): Promise<number>
  list(request: Uint8Array): Promise<Uint8Array>
  listElements(request: Uint8Array): Promise<Uint8Array>
  /** Elements by key. */
  findElements(request: Uint8Array): Promise<Uint8Array>
  /** The port id by which events name this socket as their writer. May be called at any time. 0 after close(). */
  portId(): number
  close(): Promise<void>
}

export interface RawNftEvents {
  /** A stream (nftables/changes.ts). Waits as RawRouteEvents.next() does. */
  next(longestMs: number): Promise<Uint8Array>
  /** Ends a wait. */
  close(): Promise<void>
}

/** The result of a look of a watch. */
export interface LookFinding {
  /**
   * Since the previous look the state of `RawKernelLook.take`, a set, its number of entries, or one of the virtual servers with its real servers has
   * changed.
   */
  readonly isOther: boolean
  /** Another program released the lock of the iptables tools: it may have changed any table. */
  readonly isUnlocked: boolean
}

export interface RawLookWatch {
  /**
   * `sample`: VirtualServerRecords with their keys. Waits on a thread of libuv's pool until a look finds a change, at most
   * `longestMs`.
   */
  next(sample: Uint8Array, longestMs: number): Promise<LookFinding>
  /** Ends a wait. */
  close(): Promise<void>
}

export interface RawKernelLook {
  /** Never rejects: an error of the kernel is part of the result. */
  take(): Promise<Uint8Array>
  close(): Promise<void>
}

/** Result of `apply` (XtOutcome in xtables.ts). */
export interface RawXtOutcome {
  readonly isWritten: boolean
  readonly entries: number
  readonly bytes: number
  readonly repeats: number
  readonly lockWaitMs: number
  readonly kept: readonly { readonly chain: string; readonly by: string }[]
  /** Differences that no operation since the last success caused. */
  readonly repaired: XtDrift
}

/** A table as the kernel has it. */
export interface RawXtListing {
  /** Built-in chains first. `rules`, `last`: byte offsets of the first rule and of the entry after the last rule. */
  readonly chains: readonly {
    readonly name: string
    readonly isBuiltIn: boolean
    /** The policy of a built-in chain is DROP. */
    readonly drops: boolean
    readonly rules: number
    readonly last: number
  }[]
  /** Entries: ipt_entry or ip6t_entry. */
  readonly bytes: Uint8Array
}

/** A rule that expects bits of the packet mark to be 1, or sets them to 1. */
export interface RawMarkUse {
  readonly chain: string
  readonly rule: number
  readonly isSet: boolean
  readonly bits: number
}

export interface RawXtablesTable {
  /**
   * ChainRecords, RuleRecords and their texts: `texts` holds NUL-ended UTF-8 strings one after the other; records refer to a text
   * by its index.
   */
  stage(chains: Uint8Array, rules: Uint8Array, texts: Uint8Array): Promise<void>
  /** Arguments as for `stage`. */
  load(chains: Uint8Array, rules: Uint8Array, texts: Uint8Array): Promise<void>
  /** The first three arguments as for `stage`. `prune`: chain names or patterns, NUL-ended. */
  apply(
    chains: Uint8Array,
    rules: Uint8Array,
    texts: Uint8Array,
    prune: Uint8Array,
    lockTimeoutMs: number,
  ): Promise<RawXtOutcome>
  refusals(): Promise<readonly { readonly chain: string; readonly rule: number; readonly error: RawError }[]>
  check(): Promise<boolean>
  compare(): Promise<XtDrift>
  /** Parallel arrays. */
  chains(): Promise<{ readonly names: readonly string[]; readonly rules: Uint32Array }>
  list(): Promise<RawXtListing>
  /**
   * The built-in chains and those to which they lead; desired chains without their rules. What `compare` has read within the last second,
   * if the table has the same size.
   */
  listReached(): Promise<RawXtListing>
  /** Of a built-in chain, by name. undefined: none. */
  barrier(hook: string): Promise<XtBarrier | undefined>
  /** Of the whole table, in its order. */
  markUses(): Promise<readonly RawMarkUse[]>
  /** `chains`: NUL-ended names. For each chain the number of its rules, then their packet counts, in order. */
  packets(chains: Uint8Array): Promise<Float64Array>
  /** From now on no `apply` waits for the lock, not even the one in flight. May be called at any time. */
  hurry(): void
  close(): Promise<void>
}

export interface RawRelay {
  /** NetworkRecords, InterfaceRecords; NetworkRecords of one address each. */
  configure(
    nearNetworks: Uint8Array,
    nearInterfaces: Uint8Array,
    udpIdleMs: number,
    nodePortAddresses: Uint8Array,
  ): Promise<void>
  /** OpRecords, ServiceRecords, ListenerRecords, EndpointRecords, NetworkRecords. */
  apply(
    ops: Uint8Array,
    services: Uint8Array,
    listeners: Uint8Array,
    endpoints: Uint8Array,
    ranges: Uint8Array,
  ): Promise<RawOutcome>
  /** FlowRecords. */
  flows(): Promise<Uint8Array>
  /** One CountersRecord. May be called at any time; throws EBADF after close(). */
  counters(): Uint8Array
  /** May be called at any time. undefined after close(). */
  conditions(): RelayConditions | undefined
  /** Ends the threads, with all connections. */
  close(): Promise<void>
}

/** Holds ports until its end. */
export interface RawPortHolder {
  /** PortRecords. `storeErrno`: why the service manager lacks the last changes; 0: it has them, or there is none. */
  apply(ports: Uint8Array): Promise<RawOutcome & { readonly storeErrno: number }>
  /** PortRecords. */
  list(): Promise<Uint8Array>
  close(): Promise<void>
}

export interface RawListenerSocket {
  /** `ports`: PortRecords, of which only protocol and port count. ListenerRecords of the sockets on these ports. */
  find(family: RawFamily, ports: Uint8Array): Promise<Uint8Array>
  close(): Promise<void>
}

/** An empty network namespace. Its constructor needs CAP_SYS_ADMIN, and throws EPERM without it. */
export interface RawNetworkNamespace {
  /** Calls `act` with this thread in the namespace, and returns its result. A socket that it opens belongs to the namespace. */
  run<T>(act: () => T): T
  close(): Promise<void>
}

/** The process at the other end of a Unix socket. */
export interface PeerCredentials {
  readonly pid: number
  readonly uid: number
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
  /** Leaves out the changes of the socket with port id `ownPort`. */
  readonly NftEvents: new (ownPort: number) => RawNftEvents
  readonly KernelLook: new (families: Uint8Array) => RawKernelLook
  /** Watches the tables nat and filter; with a prefix, the state of ipvs mode. Reading sets takes at most 1/`setsShare` of the time. */
  readonly LookWatch: new (
    families: Uint8Array,
    periodMs: number,
    setPrefix?: string,
    setsShare?: number,
  ) => RawLookWatch
  /** Starts its threads. */
  readonly Relay: new () => RawRelay
  readonly XtablesTable: new (family: RawFamily, table: string) => RawXtablesTable
  /** InheritedRecords, and the value of NOTIFY_SOCKET if a service manager stores held ports. Opens nothing. */
  readonly PortHolder: new (inherited: Uint8Array, storeSocket?: string) => RawPortHolder
  readonly ListenerSocket: new () => RawListenerSocket
  readonly NetworkNamespace: new () => RawNetworkNamespace
  /** Sends lines such as `READY=1` to the socket (NOTIFY_SOCKET). Does not wait; throws RawError. */
  readonly notifyServiceManager: (socket: string, state: string) => void
  /** The process that connected to a Unix socket of ours, by the descriptor of the accepted connection. Throws RawError. */
  readonly peerCredentials: (fd: number) => PeerCredentials
  /** The status bits of adjtimex(2). Throws RawError. */
  readonly clockStatus: () => number
  /** Sizes, offsets and numbers of the records. */
  readonly layout: Layouts
  /** The attributes of nf_tables objects, in order (nftables/schema.ts). */
  readonly nftGrammar: string
}

/** The addon's file name. */
export const addonFile = 'viaduct.node'

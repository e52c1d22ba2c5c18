// Services and listeners of the relay, as kinds of objects with an outcome per operation.
import type { IpAddress, IpFamily } from '../../address.js'
import { KernelObject, type Meaning, type ObjectKind } from '../objects/index.js'
import { isNotFound } from '../../errors.js'
import {
  describeRelayListener,
  type OperationFailure,
  type RelayEndpoint,
  type RelayListener,
  type RelayOp,
  type RelayService,
  describeRelayOp,
} from '../../kernel/index.js'
import type { ServicePortKey } from '../../model/index.js'
import type { OperationKind } from '../../engine/index.js'

/** The service of one service port. Its `number` is its id in the relay, which both families share. */
export class ServiceObject extends KernelObject<ServicePortKey, RelayService | undefined> {
  readonly family: IpFamily
  readonly number: number
  desired: RelayService | undefined

  constructor(key: ServicePortKey, family: IpFamily, number: number) {
    super(key, undefined)
    this.family = family
    this.number = number
  }

  /** `ipv4 default/web:http/TCP`. */
  get name(): string {
    return `${this.family} ${this.id}`
  }

  get isAcknowledged(): boolean {
    return this.acknowledged !== undefined
  }

  get isUnused(): boolean {
    return this.desired === undefined && !this.isAcknowledged
  }
}

/** A listener that one service port wants at this address. */
export interface WantedListener {
  readonly listener: RelayListener
  /** `namespace/name`, for messages. */
  readonly serviceName: string
  /** Unix seconds of the Service's creation; undefined: unknown. */
  readonly createdSeconds: number | undefined
  /** A node port. It gives way to an external IP that is the same address. */
  readonly isNodePort: boolean
  /** A listener on all addresses: these. undefined: a listener on one address. */
  readonly addresses?: readonly IpAddress[] | undefined
  /** The id of the listener on all addresses in whose place it is; undefined: of none. */
  readonly partOf?: string | undefined
}

export class ListenerObject extends KernelObject<string, RelayListener | undefined> {
  #wanted: readonly WantedListener[] = []
  /** Ascends with the arrival. */
  readonly number: number
  /** `namespace/name` of the Service that a listener on all addresses serves here now, in place of this one. */
  servedFor: string | undefined

  constructor(id: string, number: number) {
    super(id, undefined)
    this.number = number
  }

  /** undefined: no service port wants it. */
  get wanted(): WantedListener | undefined {
    return this.#wanted[0]
  }

  /** `namespace/name` of the Service that is served here, or is to be; empty: none. */
  get services(): readonly string[] {
    const service = this.wanted?.serviceName ?? this.servedFor
    return service === undefined ? [] : [service]
  }

  add(wanted: WantedListener): void {
    this.#wanted = wanted.isNodePort ? [...this.#wanted, wanted] : [wanted, ...this.#wanted]
  }

  remove(wanted: WantedListener): void {
    this.#wanted = this.#wanted.filter((other) => other !== wanted)
  }

  get isAcknowledged(): boolean {
    return this.acknowledged !== undefined
  }

  get isUnused(): boolean {
    return this.wanted === undefined && !this.isAcknowledged
  }
}

export const serviceKind: ObjectKind<ServiceObject, RelayService | undefined, RelayOp, RelayOp[]> = {
  plan: (ops, { number, name, acknowledged }, target) => {
    if (isSameService(acknowledged, target)) return 0
    if (target === undefined) ops.push({ op: 'remove-service', id: number, name })
    else ops.push({ op: 'set-service', service: target, name })
    if (target === undefined) return 1
    const { clusterEndpoints, localEndpoints, flowEndpoints } = target
    return 1 + clusterEndpoints.length + localEndpoints.length + flowEndpoints.length
  },
  advance: (_state, op) => (op.op === 'set-service' ? op.service : undefined),
  meaningOf,
  isSame: isSameService,
}

export const listenerKind: ObjectKind<ListenerObject, RelayListener | undefined, RelayOp, RelayOp[]> = {
  plan: (ops, { acknowledged }, target) => {
    if (isSameListener(acknowledged, target)) return 0
    if (target !== undefined) ops.push({ op: 'set-listener', listener: target })
    else if (acknowledged !== undefined) ops.push({ op: 'remove-listener', listener: acknowledged })
    return 1
  },
  advance: (_state, op) => (op.op === 'set-listener' ? op.listener : undefined),
  meaningOf,
  isSame: isSameListener,
}

/** A removal that finds nothing is done. */
function meaningOf(_object: unknown, { op }: RelayOp, { error }: OperationFailure): Meaning {
  const isRemoval = op === 'remove-service' || op === 'remove-listener'
  return isRemoval && isNotFound(error) ? 'done' : 'refused'
}

function isSameListener(a: RelayListener | undefined, b: RelayListener | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return (
    a.service === b.service &&
    a.near === b.near &&
    a.far === b.far &&
    a.hasSourceRanges === b.hasSourceRanges &&
    describeRelayListener(a) === describeRelayListener(b)
  )
}

function isSameService(a: RelayService | undefined, b: RelayService | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return (
    a.affinitySeconds === b.affinitySeconds &&
    areSame(a.clusterEndpoints, b.clusterEndpoints, isSameEndpoint) &&
    areSame(a.localEndpoints, b.localEndpoints, isSameEndpoint) &&
    areSame(a.flowEndpoints, b.flowEndpoints, isSameEndpoint) &&
    areSame(
      a.sourceRanges,
      b.sourceRanges,
      (one, other) => one.address === other.address && one.prefixLength === other.prefixLength,
    )
  )
}

function isSameEndpoint(a: RelayEndpoint, b: RelayEndpoint): boolean {
  return a.address === b.address && a.port === b.port
}

function areSame<T>(a: readonly T[], b: readonly T[], isSame: (a: T, b: T) => boolean): boolean {
  return (
    a === b ||
    (a.length === b.length &&
      a.every((one, i) => {
        const other = b[i]
        return other !== undefined && isSame(one, other)
      }))
  )
}

/** Operations of the relay, as a pass counts and prints them. */
export const relayOperations: OperationKind<RelayOp> = {
  name: 'relay',
  describe: describeRelayOp,
  isMetered: true,
}

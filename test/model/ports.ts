import { constants } from 'node:os'
import type { IpFamily } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import type {
  HoldOutcome,
  Listener,
  PortOp,
  PortPlace,
  Ports,
  WatchedPort,
} from '../../src/kernel/ports/ports.js'
import { describePlace } from '../../src/kernel/ports/real-ports.js'
import { ModelBatches } from './faults.js'
import type { ModelNetwork } from './network.js'

const { EADDRINUSE, EADDRNOTAVAIL, ENOENT } = constants.errno

/** A socket of another program. */
export interface ModelProgram extends Omit<Listener, 'isHeld' | 'isOwn'> {
  readonly family: IpFamily
  /** An IPv6 socket on every address that takes IPv4 too. */
  readonly isDualStack?: boolean
  /** Another agent holds the port. */
  readonly isHeld?: boolean
  readonly isOwn?: boolean
}

/** The ports of a machine in memory. */
export class ModelPorts implements Ports {
  /** Sockets of other programs. Tests change them at any time. */
  programs: readonly ModelProgram[] = []
  /** The ports of each question of `find`, in order. */
  readonly questions: (readonly WatchedPort[])[] = []
  /** errno of the service manager's store; 0: it takes everything. */
  storeErrno = 0
  /** Faults, and the log of operations. */
  readonly batches = new ModelBatches<PortOp>({
    subsystem: 'ports',
    describe: ({ place }) => describePlace(place),
    familyOf: ({ place }) => place.family,
  })
  readonly #network: ModelNetwork
  readonly #held = new Map<string, PortPlace>()

  /** `stored`: what an earlier agent stored. */
  constructor(network: ModelNetwork, stored: readonly PortPlace[] = []) {
    this.#network = network
    for (const place of stored) this.#held.set(keyOf(place), place)
  }

  /** Descriptions of the held ports, sorted. */
  get held(): readonly string[] {
    return [...this.#held.values()].map(describePlace).toSorted()
  }

  /** Another program binds a port. Returns whether it gets the port. */
  take(program: ModelProgram): boolean {
    const isTaken = [...this.#held.values()].some((place) => conflicts(program, place))
    if (!isTaken) this.programs = [...this.programs, program]
    return !isTaken
  }

  async apply(ops: readonly PortOp[]): Promise<HoldOutcome> {
    this.batches.enter('apply')
    const outcome = this.batches.apply(ops, (op) => this.#applyOne(op))
    const errno = this.storeErrno
    const storeError =
      errno === 0 ? undefined : new KernelError({ errno, subsystem: 'ports', operation: 'store held ports' })
    return { ...outcome, storeError }
  }

  async list(): Promise<readonly PortPlace[]> {
    this.batches.enter('list')
    return [...this.#held.values()]
  }

  async find(family: IpFamily, ports: readonly WatchedPort[]): Promise<readonly Listener[]> {
    this.batches.enter('list listening sockets', { family })
    this.questions.push(ports)
    const programs: readonly ModelProgram[] = [...this.programs, ...this.#ownSockets()]
    return programs.flatMap(
      ({ family: own, isDualStack = false, isHeld = false, isOwn = false, ...socket }) => {
        const isAsked = ports.some(
          ({ protocol, port }) => protocol === socket.protocol && port === socket.port,
        )
        return isAsked && (own === family || isDualStack) ? [{ ...socket, isHeld, isOwn }] : []
      },
    )
  }

  async close(): Promise<void> {
    this.batches.close()
    this.#held.clear()
  }

  #ownSockets(): readonly ModelProgram[] {
    return [...this.#held.values()].map((place) => ({
      ...place,
      uid: 0,
      process: undefined,
      isHeld: true,
    }))
  }

  #applyOne({ op, place }: PortOp): number {
    const key = keyOf(place)
    if (op === 'release') return this.#held.delete(key) ? 0 : ENOENT
    if (this.#held.has(key)) return 0
    const { address } = place
    if (address !== undefined && !this.#network.addresses.some((own) => own.address === address))
      return EADDRNOTAVAIL
    const others: readonly ModelProgram[] = [...this.programs, ...this.#ownSockets()]
    if (others.some((other) => conflicts(other, place))) return EADDRINUSE
    this.#held.set(key, place)
    return 0
  }
}

function keyOf(place: PortPlace): string {
  return `${place.family} ${describePlace(place)}`
}

/** inet_csk_bind_conflict(), udp_lib_lport_inuse(): the same port, and an address in common. */
function conflicts(program: ModelProgram, { family, protocol, address, port }: PortPlace): boolean {
  if (program.protocol !== protocol || program.port !== port) return false
  if (program.family !== family) return program.isDualStack === true
  return address === undefined || program.address === undefined || program.address === address
}

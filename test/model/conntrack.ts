import { constants } from 'node:os'
import { familyOf, type IpAddress, type IpFamily } from '../../src/address.js'
import { KernelError } from '../../src/errors.js'
import type {
  Conntrack,
  ConntrackFlowCount,
  ConntrackFlows,
  ConntrackFrontend,
  ConntrackOutcome,
} from '../../src/kernel/conntrack/conntrack.js'
import type { Protocol } from '../../src/kernel/ipvs/ipvs.js'

/** One entry of the table: the client's packet and the backend that replies. */
export interface ModelFlow {
  readonly protocol: Protocol
  readonly source: IpAddress
  readonly sourcePort: number
  readonly destination: IpAddress
  readonly destinationPort: number
  /** The backend of a translated flow, or the destination of any other flow. */
  readonly replySource: IpAddress
  readonly replySourcePort: number
}

/** Conntrack in memory. Tests add flows and read the remaining flows. */
export class ModelConntrack implements Conntrack {
  flows: readonly ModelFlow[] = []
  /** The requests, in order. */
  readonly calls: { readonly family: IpFamily; readonly frontends: readonly ConntrackFrontend[] }[] = []
  /** Injects faults: called before each request, returns the errno of the refusal. */
  fault: () => number | undefined = () => undefined
  /** Called for each clean-up, which is answered once this resolves. */
  beforeAnswer: () => Promise<void> = async () => {}
  #isClosed = false

  async deleteStale(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<ConntrackOutcome> {
    if (this.#isClosed) throw refusal('use a closed socket', constants.errno.EBADF, family)
    this.calls.push({ family, frontends })
    await this.beforeAnswer()
    const errno = this.fault()
    if (errno !== undefined) throw refusal('dump conntrack entries', errno, family)
    const seen = this.flows.filter(({ destination }) => familyOf(destination) === family)
    const stale = new Set(seen.filter((flow) => isStale(flow, frontends, nodePortAddresses)))
    this.flows = this.flows.filter((flow) => !stale.has(flow))
    return { seen: seen.length, deleted: stale.size }
  }

  async listFlows(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
    limit: number,
  ): Promise<ConntrackFlows> {
    if (this.#isClosed) throw refusal('use a closed socket', constants.errno.EBADF, family)
    const errno = this.fault()
    if (errno !== undefined) throw refusal('dump conntrack entries', errno, family)
    const found = this.flows.filter(
      (flow) =>
        familyOf(flow.destination) === family && frontendOf(flow, frontends, nodePortAddresses) !== undefined,
    )
    const flows = found.slice(0, limit).map((flow) => ({
      ...flow,
      tcpState: flow.protocol === 'tcp' ? ('ESTABLISHED' as const) : undefined,
      timeoutSeconds: 600,
    }))
    return { flows, total: found.length }
  }

  async countFlows(
    family: IpFamily,
    frontends: readonly ConntrackFrontend[],
    nodePortAddresses: readonly IpAddress[],
  ): Promise<Iterable<ConntrackFlowCount>> {
    const { flows } = await this.listFlows(family, frontends, nodePortAddresses, Infinity)
    const counts = new Map<string, ConntrackFlowCount>()
    for (const flow of flows) {
      const { protocol, destination, destinationPort, replySource, replySourcePort } = flow
      const key = `${protocol} ${destination} ${destinationPort} ${replySource} ${replySourcePort}`
      const active = (counts.get(key)?.active ?? 0) + 1
      const pair = { protocol, destination, destinationPort, replySource, replySourcePort }
      counts.set(key, { ...pair, active, inactive: 0 })
    }
    return counts.values()
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }
}

/** undefined: the flow goes to none of the frontends. */
function frontendOf(
  flow: ModelFlow,
  frontends: readonly ConntrackFrontend[],
  nodePortAddresses: readonly IpAddress[],
): ConntrackFrontend | undefined {
  const asked = frontends.filter(
    ({ protocol, port }) => protocol === flow.protocol && port === flow.destinationPort,
  )
  const isToNode = nodePortAddresses.includes(flow.destination)
  return (
    asked.find(({ address }) => address === flow.destination) ??
    (isToNode ? asked.find(({ address }) => address === undefined) : undefined)
  )
}

function isStale(
  flow: ModelFlow,
  frontends: readonly ConntrackFrontend[],
  nodePortAddresses: readonly IpAddress[],
): boolean {
  const frontend = frontendOf(flow, frontends, nodePortAddresses)
  if (frontend === undefined) return false
  return !frontend.backends.some(
    ({ address, port }) => address === flow.replySource && port === flow.replySourcePort,
  )
}

function refusal(operation: string, errno: number, family: IpFamily): KernelError {
  return new KernelError({ errno, subsystem: 'conntrack', operation, family })
}

import type { ModeWatch } from '../../engine/index.js'
import type { Relay, RelayConditions } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'

/**
 * Reports that the relay is short of file descriptors or of local ports, that another program has a port, and that a Service leads in a circle. Asks for a run when
 * descriptors are no longer short: listeners that failed may open then.
 */
export class RelayConditionWatch implements ModeWatch {
  readonly #relay: Pick<Relay, 'nextConditions'>
  readonly #descriptors: StateReporter
  readonly #udpPorts: StateReporter
  readonly #tcpPorts: StateReporter
  readonly #takenPorts: StateReporter
  readonly #loops: StateReporter
  readonly #spentHops: StateReporter
  readonly #closed: Promise<undefined>
  #close = (): void => {}

  constructor(relay: Pick<Relay, 'nextConditions'>, log: Log) {
    this.#relay = relay
    this.#descriptors = new StateReporter({
      log,
      level: 'error',
      problemLine: 'File descriptors are short',
      recovery: 'File descriptors are no longer short',
    })
    this.#udpPorts = new StateReporter({
      log,
      level: 'error',
      problemLine: 'Local UDP ports are short',
      recovery: 'Local UDP ports are no longer short',
    })
    this.#tcpPorts = new StateReporter({
      log,
      level: 'error',
      problemLine: 'Local TCP ports are short',
      recovery: 'Local TCP ports are no longer short',
    })
    this.#takenPorts = new StateReporter({
      log,
      level: 'error',
      problemLine: 'UDP node ports are taken',
      recovery: 'UDP node ports are no longer taken',
    })
    this.#loops = new StateReporter({
      log,
      level: 'error',
      problemLine: 'Service leads back to the relay',
      recovery: 'No Service leads back to the relay',
    })
    this.#spentHops = new StateReporter({
      log,
      level: 'warn',
      problemLine: 'Hop limits run out',
      recovery: 'Hop limits no longer run out',
    })
    this.#closed = new Promise((resolve) => {
      this.#close = () => resolve(undefined)
    })
  }

  async next(): Promise<boolean> {
    for (let wasShort = this.#descriptors.size > 0; ; wasShort = this.#descriptors.size > 0) {
      const conditions = await Promise.race([this.#relay.nextConditions(), this.#closed])
      if (conditions === undefined) return false
      this.#report(conditions)
      if (wasShort && !conditions.hasFewDescriptors) return true
    }
  }

  async close(): Promise<void> {
    this.#close()
  }

  #report(conditions: RelayConditions): void {
    const { hasFewDescriptors, hasFewUdpPorts, hasFewTcpPorts } = conditions
    const { hasTakenPort, hasLoop, hasSpentHops, descriptorLimit, udpPortLimit } = conditions
    const connections = `the limit is ${descriptorLimit}; the relay refuses new connections of the busiest listeners`
    this.#descriptors.report('descriptors', hasFewDescriptors ? { text: connections } : undefined)
    const flows = `the limit is ${udpPortLimit} flows; the relay ends the oldest flows of the busiest listeners`
    this.#udpPorts.report('udp ports', hasFewUdpPorts ? { text: flows } : undefined)
    const ports = 'all of them have connections to one endpoint; the relay passes over the endpoint'
    this.#tcpPorts.report('tcp ports', hasFewTcpPorts ? { text: ports } : undefined)
    const taken =
      'another program bound the port of one while its Service had no endpoints; the node port serves again after the end of the program'
    this.#takenPorts.report('taken ports', hasTakenPort ? { text: taken } : undefined)
    const loop = 'one of its endpoints is a frontend of this node; the relay refuses its own connections'
    this.#loops.report('loop', hasLoop ? { text: loop } : undefined)
    const hops =
      'ten or more connections or datagrams per second came with hop limit 1; a Service may lead in a circle over several nodes'
    this.#spentHops.report('hops', hasSpentHops ? { text: hops } : undefined)
  }
}

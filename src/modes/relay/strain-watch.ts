import type { ModeWatch } from '../../engine/index.js'
import type { Relay, RelayStrain } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'

/**
 * Reports that the relay is short of file descriptors or of local UDP ports. Asks for a run when descriptors are no longer short: listeners
 * that failed may open then.
 */
export class StrainWatch implements ModeWatch {
  readonly #relay: Pick<Relay, 'nextStrain'>
  readonly #descriptors: StateReporter
  readonly #udpPorts: StateReporter
  readonly #closed: Promise<undefined>
  #close = (): void => {}

  constructor(relay: Pick<Relay, 'nextStrain'>, log: Log) {
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
    this.#closed = new Promise((resolve) => {
      this.#close = () => resolve(undefined)
    })
  }

  async next(): Promise<boolean> {
    for (let wasShort = this.#descriptors.size > 0; ; wasShort = this.#descriptors.size > 0) {
      const strain = await Promise.race([this.#relay.nextStrain(), this.#closed])
      if (strain === undefined) return false
      this.#report(strain)
      if (wasShort && !strain.hasFewDescriptors) return true
    }
  }

  async close(): Promise<void> {
    this.#close()
  }

  #report({ hasFewDescriptors, hasFewUdpPorts, descriptorLimit, udpPortLimit }: RelayStrain): void {
    const connections = `the limit is ${descriptorLimit}; the relay refuses new connections of the busiest listeners`
    this.#descriptors.report('descriptors', hasFewDescriptors ? { text: connections } : undefined)
    const flows = `the limit is ${udpPortLimit} flows; the relay ends the oldest flows of the busiest listeners`
    this.#udpPorts.report('udp ports', hasFewUdpPorts ? { text: flows } : undefined)
  }
}

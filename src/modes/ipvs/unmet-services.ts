import type { Problem, StateReporter } from '../../log.js'

/** Warns of Services whose scheduling requests are not met: one warning per Service, for all of its service ports in both families. */
export class UnmetServices {
  readonly #warnings: StateReporter
  /** Service ports with an unmet request, by Service. */
  readonly #ports = new Map<string, Set<string>>()

  /** `warnings`: gets the requests of Services that the mode does not provide, of both families. */
  constructor(warnings: StateReporter) {
    this.#warnings = warnings
  }

  /** Takes the current problem of the Service, as one of its ports has it, or undefined for none. `port`: unique in both families. */
  report(service: string, port: string, problem: Problem | undefined): void {
    if (problem === undefined) this.#remove(service, port)
    else this.#ports.set(service, (this.#ports.get(service) ?? new Set()).add(port))
    this.#warnings.report(keyOf(service), problem)
  }

  /** The service port was removed. The problem of the Service ends with the last one that has it. */
  forget(service: string, port: string): void {
    this.#remove(service, port)
    if (!this.#ports.has(service)) this.#warnings.forget(keyOf(service))
  }

  #remove(service: string, port: string): void {
    const ports = this.#ports.get(service)
    ports?.delete(port)
    if (ports?.size === 0) this.#ports.delete(service)
  }
}

function keyOf(service: string): string {
  return `scheduling of ${service}`
}

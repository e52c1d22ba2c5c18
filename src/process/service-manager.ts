// Notifications to a service manager: sd_notify(3), sd_watchdog_enabled(3).
import { KernelError } from '../errors.js'
import type { Log } from '../log.js'

export interface ServiceManagerOptions {
  /** Environment of the process, with NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly pid: number
  /** Throws KernelError. */
  readonly notify: (socket: string, state: string) => void
  /** Calls `run` every `periodMs` until the process ends, without keeping it alive. */
  readonly every: (periodMs: number, run: () => void) => void
  readonly log: Log
}

/** Notifies the service manager, if there is one. The log reports one that does not answer once; the agent runs on. */
export class ServiceManager {
  readonly #options: ServiceManagerOptions
  readonly #socket: string | undefined
  #isLost = false

  /** Starts to feed the watchdog from the event loop, twice per period. */
  constructor(options: ServiceManagerOptions) {
    const { environment, every } = options
    this.#options = options
    this.#socket = environment['NOTIFY_SOCKET']
    const periodMs = watchdogMs(options)
    if (periodMs !== undefined) every(periodMs / 2, () => this.#notify('WATCHDOG=1'))
  }

  /** Reports that all objects are programmed for the first time. */
  ready(): void {
    this.#notify('READY=1')
  }

  stopping(): void {
    this.#notify('STOPPING=1')
  }

  #notify(state: string): void {
    if (this.#socket === undefined || this.#socket === '') return
    const { notify, log } = this.#options
    try {
      notify(this.#socket, state)
      this.#isLost = false
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      if (!this.#isLost) log.warn(`Service manager not notified: ${state}`, { err: error })
      this.#isLost = true
    }
  }
}

/** undefined: the service manager has no watchdog for this process. */
function watchdogMs({ environment, pid }: ServiceManagerOptions): number | undefined {
  const { WATCHDOG_USEC: microseconds, WATCHDOG_PID: of = String(pid) } = environment
  const periodMs = Number(microseconds) / 1000
  return of === String(pid) && periodMs > 0 ? periodMs : undefined
}

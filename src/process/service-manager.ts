// Notifications to a service manager: sd_notify(3), sd_watchdog_enabled(3).
import type { Clock } from '../clock.js'
import { asRefusal } from '../errors.js'
import type { Log } from '../log.js'

export interface ServiceManagerOptions {
  /** The process environment: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly pid: number
  /** Throws KernelError. */
  readonly notify: (socket: string, state: string) => void
  readonly clock: Pick<Clock, 'every'>
  readonly log: Log
}

/** Sends nothing without NOTIFY_SOCKET. A failed notification is logged once and does not stop the agent. */
export class ServiceManager {
  readonly #options: ServiceManagerOptions
  readonly #socket: string | undefined
  #isLost = false

  /** Starts the watchdog notifications: twice per watchdog period, from the event loop. */
  constructor(options: ServiceManagerOptions) {
    const { environment, clock } = options
    this.#options = options
    this.#socket = environment['NOTIFY_SOCKET']
    const periodMs = watchdogMs(options)
    if (periodMs !== undefined) clock.every(periodMs / 2, () => this.#notify('WATCHDOG=1'))
  }

  /** Reports that the first sync has programmed all objects, and that the servers have tried to listen. */
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
      const refusal = asRefusal(error)
      if (!this.#isLost) log.warn(`Service manager notification failed: ${state}`, { err: refusal })
      this.#isLost = true
    }
  }
}

/** The period of the watchdog; undefined: this process has none. */
function watchdogMs({ environment, pid }: ServiceManagerOptions): number | undefined {
  const { WATCHDOG_USEC: microseconds, WATCHDOG_PID: of = String(pid) } = environment
  const periodMs = Number(microseconds) / 1000
  return of === String(pid) && periodMs > 0 ? periodMs : undefined
}

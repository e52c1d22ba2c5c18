// What a service manager is told: sd_notify(3), sd_watchdog_enabled(3).
import type { Clock } from '../clock.js'
import { KernelError } from '../errors.js'
import type { Log } from '../log.js'

export interface ServiceManagerOptions {
  /** Of the process: NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly pid: number
  /** Throws KernelError. */
  readonly notify: (socket: string, state: string) => void
  readonly clock: Pick<Clock, 'every'>
  readonly log: Log
}

/** Says nothing where no service manager wants to know. One that does not answer is told to the log once, and stops nothing. */
export class ServiceManager {
  readonly #options: ServiceManagerOptions
  readonly #socket: string | undefined
  #isLost = false

  /** From now on the event loop itself says that it turns, twice in each period of the watchdog. */
  constructor(options: ServiceManagerOptions) {
    const { environment, clock } = options
    this.#options = options
    this.#socket = environment['NOTIFY_SOCKET']
    const periodMs = watchdogMs(options)
    if (periodMs !== undefined) clock.every(periodMs / 2, () => this.#tell('WATCHDOG=1'))
  }

  /** The whole world is in the kernel for the first time. */
  ready(): void {
    this.#tell('READY=1')
  }

  stopping(): void {
    this.#tell('STOPPING=1')
  }

  #tell(state: string): void {
    if (this.#socket === undefined || this.#socket === '') return
    const { notify, log } = this.#options
    try {
      notify(this.#socket, state)
      this.#isLost = false
    } catch (error) {
      if (!(error instanceof KernelError)) throw error
      if (!this.#isLost) log.warn(`The service manager cannot be told ${state}`, { err: error })
      this.#isLost = true
    }
  }
}

/** undefined: nobody waits for us. */
function watchdogMs({ environment, pid }: ServiceManagerOptions): number | undefined {
  const { WATCHDOG_USEC: microseconds, WATCHDOG_PID: of = String(pid) } = environment
  const periodMs = Number(microseconds) / 1000
  return of === String(pid) && periodMs > 0 ? periodMs : undefined
}

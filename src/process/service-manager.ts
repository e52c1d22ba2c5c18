// The service manager: notifications to it (sd_notify(3), sd_watchdog_enabled(3)), and sockets that it has kept (sd_listen_fds_with_names(3)).
import type { Clock } from '../clock.js'
import { asRefusal } from '../errors.js'
import type { Log } from '../log.js'

interface ServiceManagerOptions {
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

/** The first passed descriptor, and the names of native/ports/socket_store.cc. */
const firstDescriptor = 3
const nameOfPorts = /^viaduct-ports-([1-9]\d{0,8})$/

/**
 * The stored sockets of held ports, of an earlier process of this service. Empty if the variables are for another process, or absent.
 * Descriptors with other names are left alone.
 */
export function inheritedPortSockets(
  environment: Readonly<Record<string, string | undefined>>,
  pid: number,
): readonly { readonly fd: number; readonly number: number }[] {
  const { LISTEN_PID: of, LISTEN_FDS: count, LISTEN_FDNAMES: names = '' } = environment
  if (of !== String(pid) || count === undefined || !/^\d{1,7}$/.test(count)) return []
  return names
    .split(':')
    .slice(0, Number(count))
    .flatMap((name, index) => {
      const number = nameOfPorts.exec(name)?.[1]
      return number === undefined ? [] : [{ fd: firstDescriptor + index, number: Number(number) }]
    })
}

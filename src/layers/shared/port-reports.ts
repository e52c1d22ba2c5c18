import type { IpFamily } from '../../address.js'
import { logFamily } from '../../engine/index.js'
import { KernelError } from '../../errors.js'
import { type EventRecorder, serviceReference } from '../../event.js'
import { describePlace, type Listener, type PortPlace, type Ports } from '../../kernel/index.js'
import { type Log, StateReporter } from '../../log.js'
import type { ServicePortKey } from '../../model/index.js'

export interface PortReportsOptions {
  readonly family: IpFamily
  readonly log: Log
  readonly events: EventRecorder
}

/** Causes of errors that concern many ports alike. */
const causes: Readonly<Record<string, string>> = {
  EACCES: 'a port below 1024 needs CAP_NET_BIND_SERVICE',
  EMFILE: 'the limit of file descriptors is reached (LimitNOFILE=, ulimit -n)',
  EPROTONOSUPPORT: 'the kernel has no SCTP sockets',
  ESOCKTNOSUPPORT: 'the kernel has no SCTP sockets',
}

/** Reports the state of the ports of Services, of one family: other programs that have them, and requests that the kernel refuses. */
export class PortReports {
  readonly #family: IpFamily
  readonly #inUse: StateReporter
  readonly #refusals: StateReporter

  constructor({ family, log, events }: PortReportsOptions) {
    this.#family = family
    this.#inUse = new StateReporter({
      log,
      level: 'warn',
      problemLine: 'Service port is in use by another program',
      recovery: 'Service port is no longer in use by another program',
      events,
    })
    this.#refusals = new StateReporter({
      log,
      level: 'warn',
      problemLine: 'Node ports are not all held or checked',
      recovery: 'Node ports are held or checked again',
    })
  }

  /** Another program has the port of the service port. `listener` undefined: the kernel does not show its socket. */
  inUse(key: ServicePortKey, place: PortPlace, listener: Listener | undefined): void {
    const [namespace = '', name = ''] = key.split(/[/:]/)
    const port = describePlace(place)
    const text = `${key}: ${port} belongs to ${describeProgram(listener)}`
    const note = `${text}; the Service is served all the same`
    const regarding = serviceReference(namespace, name)
    this.#inUse.report(nameOf(key, port), {
      text,
      fields: { service: key, port, ipFamily: logFamily(this.#family) },
      event: { type: 'Warning', reason: 'ServicePortInUse', action: 'Sync', regarding, note },
    })
  }

  /** No other program has the port. */
  free(key: ServicePortKey, place: PortPlace): void {
    this.#inUse.report(nameOf(key, describePlace(place)), undefined)
  }

  /** The service port does not have the port any more. */
  forget(key: ServicePortKey, place: PortPlace): void {
    this.#inUse.forget(nameOf(key, describePlace(place)))
  }

  /** Reports a refusal of the kernel, once for all ports that it concerns. undefined: the kernel does not refuse this `kind`. */
  refusal(kind: string, error: KernelError | undefined): void {
    const ipFamily = logFamily(this.#family)
    if (error === undefined) return this.#refusals.report(kind, undefined)
    const cause = causes[error.code]
    // Without the object of the error: the text stays the same when another port fails first.
    const text = `${ipFamily} ${kind}: ${error.operation}: ${error.code}${cause === undefined ? '' : `: ${cause}`}`
    this.#refusals.report(kind, { text, fields: { ipFamily, code: error.code } })
  }
}

/**
 * Asks the kernel. Resolves with undefined when it refuses, which is reported until it answers again. Rejects with an error other than
 * KernelError.
 */
export async function askPorts<T>(
  reports: PortReports,
  kind: string,
  ask: () => Promise<T>,
): Promise<T | undefined> {
  try {
    const answer = await ask()
    reports.refusal(kind, undefined)
    return answer
  } catch (error) {
    if (!(error instanceof KernelError)) throw error
    reports.refusal(kind, error)
    return undefined
  }
}

/**
 * Releases the ports of this family that an earlier agent stored, and that are not in `wanted`, by their descriptions. Resolves with
 * false when the kernel refuses.
 */
export async function releaseStored(
  {
    ports,
    family,
    reports,
  }: { readonly ports: Ports; readonly family: IpFamily; readonly reports: PortReports },
  wanted: { has(description: string): boolean },
): Promise<boolean> {
  const released = await askPorts(reports, 'ports of an earlier agent', async () => {
    await releaseUnwanted({ ports, family }, wanted)
    return true
  })
  return released === true
}

/** Releases the held ports of this family that are not in `wanted`, by their descriptions. Throws KernelError. */
export async function releaseUnwanted(
  { ports, family }: { readonly ports: Ports; readonly family: IpFamily },
  wanted: { has(description: string): boolean },
): Promise<void> {
  const held = await ports.list()
  const unwanted = held.filter((place) => place.family === family && !wanted.has(describePlace(place)))
  if (unwanted.length > 0) await ports.apply(unwanted.map((place) => ({ op: 'release', place })))
}

function nameOf(key: ServicePortKey, port: string): string {
  return `${key} ${port}`
}

function describeProgram(listener: Listener | undefined): string {
  if (listener === undefined) return 'a program whose socket the kernel does not list'
  const { process, uid } = listener
  const owner =
    process === undefined
      ? `a process of user ${uid} that /proc does not show`
      : `${process.name}, process ${process.pid}`
  return `${owner}, with the socket ${describePlace(listener)}`
}

import { constants } from 'node:os'
import { KernelError, type KernelErrorFields } from '../errors.js'
import type { RawError } from './addon.js'

function isRawError(error: unknown): error is RawError {
  return error instanceof Error && 'errno' in error && 'operation' in error && 'text' in error
}

/** The object of a call, for its errors. */
export type Subject = Pick<KernelErrorFields, 'family' | 'object'>

/** The addon's error as a KernelError; other errors unchanged. */
export function toKernelError(
  error: unknown,
  subsystem: KernelErrorFields['subsystem'],
  subject: Subject = {},
): unknown {
  return isRawError(error) ? rawToKernelError(error, subsystem, subject) : error
}

/** The addon's error as a KernelError. */
export function rawToKernelError(
  error: RawError,
  subsystem: KernelErrorFields['subsystem'],
  subject: Subject = {},
): KernelError {
  return new KernelError({
    errno: error.errno,
    subsystem,
    operation: error.operation,
    ...subject,
    ...(error.text === '' ? {} : { extack: error.text }),
  })
}

/** EBADF: the call came after close(). */
export function closedError(subsystem: KernelErrorFields['subsystem'], subject: Subject = {}): KernelError {
  return new KernelError({
    errno: constants.errno.EBADF,
    subsystem,
    operation: 'use a closed socket',
    ...subject,
  })
}

type Subsystem = KernelErrorFields['subsystem']

/** Counts calls. */
export class CallCounts {
  readonly bySubsystem = new Map<Subsystem, number>()

  count(subsystem: Subsystem): void {
    this.bySubsystem.set(subsystem, (this.bySubsystem.get(subsystem) ?? 0) + 1)
  }
}

/** A socket of the addon. */
export interface Closable {
  close(): Promise<void>
}

/** Calls on one socket of the addon, one after the other. The first call opens the socket. */
export class RequestQueue<Socket extends Closable> {
  readonly #open: () => Socket
  readonly #subsystem: Subsystem
  readonly #calls: CallCounts | undefined
  #socket: Socket | undefined
  /** Settles when the last requested call is done. Never rejects. */
  #tail: Promise<unknown> = Promise.resolve()
  #isClosed = false

  /** `calls` absent: calls that only wait are not counted. */
  constructor(open: () => Socket, subsystem: Subsystem, calls?: CallCounts) {
    this.#open = open
    this.#subsystem = subsystem
    this.#calls = calls
  }

  /** Throws KernelError with `subject`; EBADF after close(). */
  async run<T>(request: (socket: Socket) => Promise<T>, subject: Subject = {}): Promise<T> {
    if (this.#isClosed) throw closedError(this.#subsystem, subject)
    this.#calls?.count(this.#subsystem)
    const answer = this.#tail.then(() => request((this.#socket ??= this.#open())))
    this.#tail = answer.catch(() => {})
    try {
      return await answer
    } catch (error) {
      throw toKernelError(error, this.#subsystem, subject)
    }
  }

  /** Calls `act` with the socket at once, even during a call. Does nothing if the socket is not open. */
  touch(act: (socket: Socket) => void): void {
    if (this.#socket !== undefined && !this.#isClosed) act(this.#socket)
  }

  /** Waits for the requested calls. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#tail
    await this.#socket?.close()
  }
}

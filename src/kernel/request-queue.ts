import { constants } from 'node:os'
import { KernelError, type KernelErrorFields } from '../errors.js'
import type { RawError } from './addon.js'

function isRawError(error: unknown): error is RawError {
  return error instanceof Error && 'errno' in error && 'operation' in error && 'text' in error
}

/** What a call is about, for its errors. */
export type Subject = Pick<KernelErrorFields, 'family' | 'object'>

/** The addon's error as a KernelError; anything else as it is. */
export function toKernelError(
  error: unknown,
  subsystem: KernelErrorFields['subsystem'],
  subject: Subject = {},
): unknown {
  return isRawError(error) ? rawToKernelError(error, subsystem, subject) : error
}

/** An error that the addon made, as a KernelError. */
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

/** Calls so far. */
export class CallCounts {
  readonly bySubsystem = new Map<Subsystem, number>()

  count(subsystem: Subsystem): void {
    this.bySubsystem.set(subsystem, (this.bySubsystem.get(subsystem) ?? 0) + 1)
  }
}

interface Closable {
  close(): Promise<void>
}

/** Calls on one socket of the addon, one after the other; opens it for the first. */
export class RequestQueue<Socket extends Closable> {
  readonly #open: () => Socket
  readonly #subsystem: Subsystem
  readonly #calls: CallCounts | undefined
  #socket: Socket | undefined
  /** Settles when the last call that was asked for is done; never rejects. */
  #tail: Promise<unknown> = Promise.resolve()
  #isClosed = false

  /** `calls` absent: of calls that wait, and do nothing else. */
  constructor(open: () => Socket, subsystem: Subsystem, calls?: CallCounts) {
    this.#open = open
    this.#subsystem = subsystem
    this.#calls = calls
  }

  /** Throws KernelError; EBADF after close(). `subject` says in it what the call is about. */
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

  /** Touches the socket at once, beside the call in flight; nothing where it is not open. */
  touch(act: (socket: Socket) => void): void {
    if (this.#socket !== undefined && !this.#isClosed) act(this.#socket)
  }

  /** Waits for the calls that were asked for. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#tail
    await this.#socket?.close()
  }
}

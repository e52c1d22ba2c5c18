// Sockets of the addon on which a call waits for the kernel.
import { isMainThread } from 'node:worker_threads'
import type { KernelErrorFields } from '../errors.js'
import { type Closable, closedError, RequestQueue, toKernelError } from './request-queue.js'

type Subsystem = KernelErrorFields['subsystem']

/** The open watches of an interface of `kernel/`, which end with it. */
export class Watches {
  readonly #subsystem: Subsystem
  readonly #open = new Set<{ close(): Promise<void> }>()
  #isClosed = false

  constructor(subsystem: Subsystem) {
    this.#subsystem = subsystem
  }

  /** Opens the socket at once: the kernel queues events from now on. Throws KernelError; EBADF after close(). */
  open<Raw extends Closable>(openRaw: () => Raw): WaitingSocket<Raw> {
    if (this.#isClosed) throw closedError(this.#subsystem)
    try {
      const forget = (): void => void this.#open.delete(socket)
      const socket = new WaitingSocket(openRaw(), this.#subsystem, forget)
      this.#open.add(socket)
      return socket
    } catch (error) {
      throw toKernelError(error, this.#subsystem)
    }
  }

  /** Ends every watch. Idempotent. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all([...this.#open].map((socket) => socket.close()))
  }
}

/** One call at a time waits, and ends when the socket closes. The calls are not counted. */
export class WaitingSocket<Raw extends Closable> {
  readonly #raw: Raw
  readonly #queue: RequestQueue<Raw>
  readonly #forget: () => void
  readonly #endWake: () => void
  #isClosed = false

  constructor(raw: Raw, subsystem: Subsystem, forget: () => void) {
    this.#raw = raw
    this.#queue = new RequestQueue(() => raw, subsystem)
    this.#forget = forget
    this.#endWake = wakeAtExit(raw)
  }

  /** Resolves with the answer; with undefined after close(). Throws KernelError. */
  async wait<T>(request: (raw: Raw) => Promise<T>): Promise<T | undefined> {
    if (this.#isClosed) return undefined
    try {
      const answer = await this.#queue.run(request)
      return this.#isClosed ? undefined : answer
    } catch (error) {
      if (this.#isClosed) return undefined
      throw error
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#raw.close() // ends the wait in flight; idempotent
    this.#endWake()
    this.#forget()
  }
}

interface RawEvents extends Closable {
  next(longestMs: number): Promise<Uint8Array>
}

/**
 * Milliseconds of one wait for events. Each end of a wait costs CPU. Node waits for its thread pool before it runs cleanup hooks
 * (Environment::CleanupHandles), so no hook can end a wait when a worker thread is terminated: there waits are short. At the end of a
 * process `wakeAtExit` ends them.
 */
const longestWaitMs = isMainThread ? 3_600_000 : 5000

/** Waits for the events of a socket, in batches. */
export class EventWatch<Event> {
  readonly #socket: WaitingSocket<RawEvents>
  readonly #decode: (bytes: Uint8Array) => readonly Event[]

  constructor(socket: WaitingSocket<RawEvents>, decode: (bytes: Uint8Array) => readonly Event[]) {
    this.#socket = socket
    this.#decode = decode
  }

  /** Resolves with the next events; with undefined after close(). Throws KernelError. */
  async next(): Promise<readonly Event[] | undefined> {
    for (;;) {
      const bytes = await this.#socket.wait((events) => events.next(longestWaitMs))
      if (bytes === undefined) return undefined
      // The wait ended without events.
      if (bytes.length > 0) return this.#decode(bytes)
    }
  }

  close(): Promise<void> {
    return this.#socket.close()
  }
}

/**
 * Ends the wait of `waiting` when the process exits. Node waits for its thread pool before it runs cleanup hooks, so no hook could
 * end the wait. The returned function cancels this.
 */
function wakeAtExit(waiting: { close(): Promise<void> }): () => void {
  const wake = (): void => void waiting.close()
  process.once('exit', wake)
  return () => process.off('exit', wake)
}

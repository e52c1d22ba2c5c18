// The file that the log goes to. A service proxy outlives its log: a line that cannot be written is dropped and counted.
import { constants, fstatSync, openSync, writeSync } from 'node:fs'

/** Receives complete lines, in order. `write` throws if the line cannot be written. */
export interface LogDestination {
  write(line: string): void
}

/** Time between two attempts to write to a full pipe. */
const stepMs = 10

/** A file descriptor as a synchronous destination: `write` returns after the write, and throws the system's error. */
export class FileOutput implements LogDestination {
  readonly #fd: number
  readonly #longestWaitMs: number
  /** The system accepted only a part of the last line. */
  #isInLine = false
  /** The last write failed, so the next one does not wait for the reader. */
  #hasFailed = false

  /** `longestWaitMs`: how long a write waits for the reader of a full pipe that does not block. */
  constructor(fd: number, longestWaitMs = 1000) {
    this.#fd = fd
    this.#longestWaitMs = longestWaitMs
  }

  write(line: string): void {
    // A full disk may have cut a line. The next line must not continue it.
    const bytes = Buffer.from(this.#isInLine ? `\n${line}` : line)
    let written = 0
    try {
      while (written < bytes.length) written += this.#writeSome(bytes.subarray(written))
      this.#isInLine = false
      this.#hasFailed = false
    } catch (error) {
      if (written > 0) this.#isInLine = true
      this.#hasFailed = true
      throw error
    }
  }

  /** Returns the number of written bytes. Waits for the reader of a full pipe if the last write succeeded. */
  #writeSome(bytes: Buffer): number {
    for (let waitedMs = 0; ; waitedMs += stepMs) {
      try {
        return writeSync(this.#fd, bytes)
      } catch (error) {
        if (!isFullPipe(error) || this.#hasFailed || waitedMs >= this.#longestWaitMs) throw error
        pause(stepMs)
      }
    }
  }
}

/**
 * Opens the pipe of `fd` a second time, so that a reader that stands still does not block the process. Other processes keep a pipe that
 * blocks. Returns `fd` itself for files, terminals and sockets, and where /proc does not allow it.
 */
export function withoutBlocking(fd: number): number {
  try {
    if (!fstatSync(fd).isFIFO()) return fd
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch {
    return fd
  }
}

function isFullPipe(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EAGAIN'
}

function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

interface LossReports {
  /** A line was dropped: the first one after a written line. */
  readonly begins: (cause: string) => void
  /** A line is written again. `lines` is the number of dropped lines. */
  readonly ends: (lines: number, cause: string) => void
}

/** Passes lines on, and drops those that the next destination cannot write. `write` never throws. */
export class LossyOutput implements LogDestination {
  readonly #next: LogDestination
  readonly #reports: LossReports
  #lost = 0
  /** Lines lost since the last written line. */
  #lostNow = 0
  #cause = ''

  /** `reports` may write lines to this destination. */
  constructor(next: LogDestination, reports: LossReports) {
    this.#next = next
    this.#reports = reports
  }

  /** The number of dropped lines. */
  get lost(): number {
    return this.#lost
  }

  write(line: string): void {
    try {
      this.#next.write(line)
    } catch (error) {
      this.#lost++
      this.#cause = error instanceof Error ? error.message : String(error)
      if (this.#lostNow++ === 0) this.#reports.begins(this.#cause)
      return
    }
    const lines = this.#lostNow
    if (lines === 0) return
    this.#lostNow = 0
    this.#reports.ends(lines, this.#cause)
    // The report itself may be lost. The next one has the whole number.
    if (this.#lostNow > 0) this.#lostNow += lines
  }
}

/** Writes text for people to standard error. If that fails, the text is lost: the process must not end for it. */
export function writeError(text: string): void {
  try {
    new FileOutput(2).write(text)
  } catch {
    // There is no other place for the text.
  }
}

// Logging: JSON lines (pino) on a synchronous destination, or the same lines for people. No transport, no thread.
import { pino, type DestinationStream, type Logger } from 'pino'
import { systemClock, type Clock } from './clock.js'
import type { EventRecorder, EventReport } from './event.js'

/** Keys that kube-proxy's users search for, spelled as kube-proxy spells them; others may be added. */
export interface LogFields {
  /** namespace/name, with `:port` when a port is meant. */
  readonly service?: string
  readonly endpoint?: string
  readonly node?: string
  readonly ipFamily?: 'IPv4' | 'IPv6'
  readonly file?: string
  /** Of an Error, only the message is written. */
  readonly err?: unknown
  readonly [key: string]: unknown
}

export interface Log {
  error(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  /** Sync runs, ignored objects, reload sizes: kube-proxy's V(2) and V(3). */
  debug(message: string, fields?: LogFields): void
  /** One line per service port that changed: kube-proxy's V(4) and above. */
  trace(message: string, fields?: LogFields): void
  /** For lines whose fields cost something to make. */
  writes(level: 'debug' | 'trace'): boolean
}

export interface AdjustableLog extends Log {
  /** The number of `-v`, or what it was set to since. */
  readonly verbosity: number
  /** As if `-v` had been that number. */
  setVerbosity(verbosity: number): void
}

export interface LogOptions {
  readonly format: 'json' | 'text'
  /** The number of `-v`. */
  readonly verbosity: number
  /** Whole lines, in order. The agent passes a synchronous one, so that nothing is lost at exit. */
  readonly destination: DestinationStream
  readonly clock: Pick<Clock, 'unixMs'>
}

type Level = 'error' | 'warn' | 'info' | 'debug' | 'trace'

/** 0 and 1 show info, 2 and 3 also debug, 4 and more everything: kube-proxy's V levels, folded (spec section 8.1). */
export function levelOfVerbosity(verbosity: number): 'info' | 'debug' | 'trace' {
  if (verbosity >= 4) return 'trace'
  return verbosity >= 2 ? 'debug' : 'info'
}

/** The only maker of logs. Line shape: level, ts (Unix milliseconds, as kube-proxy's JSON log), fields, msg. */
export function openLog(options: LogOptions): AdjustableLog {
  const destination =
    options.format === 'json' ? options.destination : new TextDestination(options.destination)
  const logger = pino(
    {
      level: levelOfVerbosity(options.verbosity),
      base: null,
      timestamp: () => `,"ts":${options.clock.unixMs()}`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: describeError },
    },
    destination,
  )
  return new PinoLog(logger, options.verbosity)
}

/** standard output of the process as a destination that has written when a call returns. */
export function openStandardOutput(): DestinationStream {
  return pino.destination({ fd: 1, sync: true })
}

class PinoLog implements AdjustableLog {
  readonly #logger: Logger
  #verbosity: number

  constructor(logger: Logger, verbosity: number) {
    this.#logger = logger
    this.#verbosity = verbosity
  }

  error(message: string, fields: LogFields = {}): void {
    this.#logger.error(fields, message)
  }

  warn(message: string, fields: LogFields = {}): void {
    this.#logger.warn(fields, message)
  }

  info(message: string, fields: LogFields = {}): void {
    this.#logger.info(fields, message)
  }

  debug(message: string, fields: LogFields = {}): void {
    this.#logger.debug(fields, message)
  }

  trace(message: string, fields: LogFields = {}): void {
    this.#logger.trace(fields, message)
  }

  writes(level: 'debug' | 'trace'): boolean {
    return this.#logger.isLevelEnabled(level)
  }

  get verbosity(): number {
    return this.#verbosity
  }

  setVerbosity(verbosity: number): void {
    this.#verbosity = verbosity
    this.#logger.level = levelOfVerbosity(verbosity)
  }
}

function describeError(error: unknown): unknown {
  return error instanceof Error ? error.message : error
}

/** Turns pino's JSON lines into `2026-01-31T12:00:00.000Z INFO  message key="value"`. */
class TextDestination implements DestinationStream {
  readonly #next: DestinationStream

  constructor(next: DestinationStream) {
    this.#next = next
  }

  write(line: string): void {
    const record: { level: Level; ts: number; msg: string } = JSON.parse(line)
    const { level, ts, msg, ...fields } = record
    const pairs = Object.entries(fields).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`)
    const time = new Date(ts).toISOString()
    const text = `${time} ${level.toUpperCase().padEnd(5)} ${msg}${pairs.join('')}`
    this.#next.write(`${text.replaceAll(unprintable, escaped)}\n`)
  }
}

/** What ends a line, moves a terminal's cursor, or changes the order of the text around it: Cc, Zl, Zp and bidi controls. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** As JSON may write it: `\n`, `\u001b`. */
function escaped(character: string): string {
  const short = JSON.stringify(character).slice(1, -1)
  if (short !== character) return short
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** One thing that is wrong now. Equal `text` means: the same state. */
export interface Problem {
  readonly text: string
  /** Of the line, and of the one that says that it has gone. */
  readonly fields?: LogFields
  /** What is told of the object beside the log. */
  readonly event?: EventReport
}

export interface StateReporterOptions {
  readonly log: Log
  readonly level: 'error' | 'warn'
  /** Start of each line, such as `manifest ignored`. */
  readonly trouble: string
  /** Line written when a problem has gone. */
  readonly recovery: string
  /** Told what problems have as their `event`, as often as a line is written. */
  readonly events?: EventRecorder
  /** Told how many keys have a problem, whenever that number changes. */
  readonly count: (problems: number) => void
  /** Default: the clock of this machine. */
  readonly clock?: Pick<Clock, 'every'>
}

/**
 * Reports a problem once per change of its state. Of the lines that begin alike, 20 in 10 s are written; the others become
 * one line with their number at the end of the 10 s, and lines of level debug at once.
 */
export class StateReporter {
  readonly #options: StateReporterOptions
  readonly #problems = new Map<string, Problem>()
  readonly #troubles: LineLimit
  readonly #recoveries: LineLimit

  constructor(options: StateReporterOptions) {
    const { log, level, trouble, recovery, clock = systemClock } = options
    this.#options = options
    this.#troubles = new LineLimit(clock, (count) => log[level](`${trouble}: ${moreLines}`, { count }))
    this.#recoveries = new LineLimit(clock, (count) => log.info(`${recovery}: ${moreLines}`, { count }))
  }

  /** undefined: `key` is well. Writes a line only when that is news. */
  report(key: string, problem: Problem | undefined): void {
    const before = this.#problems.get(key)
    if (before?.text === problem?.text) return
    const { log, level, trouble, recovery, events, count } = this.#options
    if (problem === undefined) {
      this.#problems.delete(key)
      log[this.#recoveries.take() ? 'info' : 'debug'](recovery, before?.fields)
    } else {
      this.#problems.set(key, problem)
      log[this.#troubles.take() ? level : 'debug'](`${trouble}: ${problem.text}`, problem.fields)
      if (problem.event !== undefined) events?.record(problem.event)
    }
    if ((before === undefined) !== (problem === undefined)) count(this.#problems.size)
  }

  /** Forgets `key` without a word: the object itself has gone. */
  forget(key: string): void {
    if (this.#problems.delete(key)) this.#options.count(this.#problems.size)
  }

  get size(): number {
    return this.#problems.size
  }
}

/** More names than that at once are for a program to read. */
const linesPerPeriod = 20
const periodMs = 10_000
const moreLines = `more within ${periodMs / 1000} s than the ${linesPerPeriod} written; -v=2 writes each`

/** Counts lines of one kind; a period begins with its first line. */
class LineLimit {
  readonly #clock: Pick<Clock, 'every'>
  readonly #summarize: (count: number) => void
  #lines = 0
  #endPeriod: () => void = () => {}

  /** `summarize` gets the number of lines over the limit, if there are any, at the end of each period. */
  constructor(clock: Pick<Clock, 'every'>, summarize: (count: number) => void) {
    this.#clock = clock
    this.#summarize = summarize
  }

  /** Counts a line, and says whether it is to be written. */
  take(): boolean {
    if (this.#lines++ === 0) this.#endPeriod = this.#clock.every(periodMs, () => this.#end())
    return this.#lines <= linesPerPeriod
  }

  #end(): void {
    this.#endPeriod()
    const count = this.#lines - linesPerPeriod
    this.#lines = 0
    if (count > 0) this.#summarize(count)
  }
}

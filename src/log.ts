// Logging: JSON lines (pino) on a synchronous destination, or the same lines for people. No transport, no thread.
import { pino, type Logger } from 'pino'
import { systemClock, type Clock } from './clock.js'
import type { EventRecorder, EventReport } from './event.js'
import { FileOutput, type LogDestination, LossyOutput, withoutBlocking } from './log-output.js'

/** Keys of log fields, spelled as in kube-proxy; other keys are allowed. */
export interface LogFields {
  /** namespace/name, with `:port` for a port. */
  readonly service?: string
  readonly endpoint?: string
  readonly node?: string
  readonly ipFamily?: 'IPv4' | 'IPv6'
  readonly file?: string
  /** The log has only the message of an Error. */
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
  /** Whether a line of this level is written, for fields that are expensive to compute. */
  writes(level: 'debug' | 'trace'): boolean
  /** The last lines, as they were written, oldest first. Absent: the log keeps none. */
  readonly recentLines?: () => readonly string[]
  /** Number of lines that the destination could not write. Absent: the log does not count them. */
  readonly lostLines?: number
  /** The reporters that write to this log. Absent: the log does not list them. */
  readonly reporters?: Set<StateReporter>
}

export interface AdjustableLog extends Log {
  /** The current verbosity: that of `-v`, or a later one. */
  readonly verbosity: number
  /** Sets the verbosity, as `-v` does. */
  setVerbosity(verbosity: number): void
}

interface LogOptions {
  readonly format: 'json' | 'text'
  /** The number of `-v`. */
  readonly verbosity: number
  /** Receives complete lines, in order. The agent passes a synchronous destination, so that no line is lost at exit. */
  readonly destination: LogDestination
  readonly clock: Pick<Clock, 'unixMs'>
}

type Level = 'error' | 'warn' | 'info' | 'debug' | 'trace'

/**
 * 0 and 1 show info, 2 and 3 also debug, 4 and more everything: the V levels of Kubernetes, folded (kubernetes/community,
 * contributors/devel/sig-instrumentation/logging.md).
 */
export function levelOfVerbosity(verbosity: number): 'info' | 'debug' | 'trace' {
  if (verbosity >= 4) return 'trace'
  return verbosity >= 2 ? 'debug' : 'info'
}

/** Opens the log of the process. Fields of a line: level, ts (Unix milliseconds, as kube-proxy's JSON log), fields, msg. */
export function openLog(options: LogOptions): AdjustableLog {
  const output = new LossyOutput(options.destination, {
    begins: (cause) => losses.report('', { text: cause }),
    ends: (lines, cause) => {
      losses.forget('')
      log.warn(`Log is written again: ${lines} lines were dropped`, { err: cause })
    },
  })
  const ring = new RingDestination(output)
  const destination = options.format === 'json' ? ring : new TextDestination(ring)
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
  const log = new PinoLog(logger, { verbosity: options.verbosity, ring, output })
  const losses = new StateReporter({
    log,
    level: 'error',
    problemLine: 'Log lines are dropped',
    recovery: 'Log is written again',
  })
  return log
}

/** Standard output as a synchronous destination: a call returns after the write. */
export function openStandardOutput(): LogDestination {
  return new FileOutput(withoutBlocking(1))
}

class PinoLog implements AdjustableLog {
  readonly reporters = new Set<StateReporter>()
  readonly recentLines: () => readonly string[]
  readonly #logger: Logger
  readonly #output: LossyOutput
  #verbosity: number

  constructor(
    logger: Logger,
    {
      verbosity,
      ring,
      output,
    }: { readonly verbosity: number; readonly ring: RingDestination; readonly output: LossyOutput },
  ) {
    this.#logger = logger
    this.#verbosity = verbosity
    this.#output = output
    this.recentLines = () => ring.lines
  }

  get lostLines(): number {
    return this.#output.lost
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

/** The most lines and characters that the process keeps for a bug report. */
const [keptLines, keptLength] = [2000, 512 * 1024]

/** Passes lines on, and keeps the last ones. */
class RingDestination implements LogDestination {
  readonly #next: LogDestination
  #lines: string[] = []
  /** Lines before this index are dropped. */
  #first = 0
  #length = 0

  constructor(next: LogDestination) {
    this.#next = next
  }

  get lines(): readonly string[] {
    return this.#lines.slice(this.#first)
  }

  write(line: string): void {
    this.#next.write(line)
    this.#lines.push(line)
    this.#length += line.length
    while (this.#lines.length - this.#first > keptLines || this.#length > keptLength)
      this.#length -= this.#lines[this.#first++]?.length ?? 0
    if (this.#first < keptLines) return
    this.#lines = this.#lines.slice(this.#first)
    this.#first = 0
  }
}

/** Turns pino's JSON lines into `2026-01-31T12:00:00.000Z INFO  message key="value"`. */
class TextDestination implements LogDestination {
  readonly #next: LogDestination

  constructor(next: LogDestination) {
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

/** Characters that end a line, move a terminal's cursor, or reorder text: Cc, Zl, Zp and bidi controls. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** The escape sequence of JSON: `\n`, `\u001b`. */
function escaped(character: string): string {
  const short = JSON.stringify(character).slice(1, -1)
  if (short !== character) return short
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** A problem as it is listed while it is present. */
export interface PresentProblem {
  readonly level: 'error' | 'warn'
  /** The text of the problem line. */
  readonly line: string
  /** Fields of the problem line. */
  readonly fields: LogFields
}

/** A problem that is present now. Two problems with equal `text` are the same state. */
export interface Problem {
  readonly text: string
  /** Fields of the problem line, and of the recovery line. */
  readonly fields?: LogFields
  /** An Event about the object. */
  readonly event?: EventReport
}

interface StateReporterOptions {
  readonly log: Log
  /** `info`: the state is no problem, and is not among those that the log lists. */
  readonly level: 'error' | 'warn' | 'info'
  /** Start of each problem line: a sentence such as `Server cannot listen`. */
  readonly problemLine: string
  /** The line at the end of a problem: a sentence such as `Server listens now`. */
  readonly recovery: string
  /** Records the `event` of each reported problem. */
  readonly events?: EventRecorder
  /** Receives the number of keys with a problem, at each change of that number. */
  readonly count?: (problems: number) => void
  /** Default: the clock of this machine. */
  readonly clock?: Pick<Clock, 'every'>
}

/**
 * Reports a problem once per change of its state. It writes up to 20 problem lines and 20 recovery lines in 10 s. Further lines
 * have level debug, and one line with their number follows at the end of the 10 s.
 */
export class StateReporter {
  readonly #options: StateReporterOptions
  readonly #problems = new Map<string, Problem>()
  readonly #problemLines: LineLimit
  readonly #recoveryLines: LineLimit

  constructor(options: StateReporterOptions) {
    const { log, level, problemLine, recovery, clock = systemClock } = options
    this.#options = options
    if (level !== 'info') log.reporters?.add(this)
    this.#problemLines = new LineLimit(clock, (count) =>
      log[level](`${problemLine}: ${moreLines}`, { count }),
    )
    this.#recoveryLines = new LineLimit(clock, (count) => log.info(`${recovery}: ${moreLines}`, { count }))
  }

  /** Takes the current problem of `key`, or undefined for none. Writes a line only for a change. */
  report(key: string, problem: Problem | undefined): void {
    const before = this.#problems.get(key)
    if (before?.text === problem?.text) return
    const { log, level, problemLine, recovery, events, count } = this.#options
    if (problem === undefined) {
      this.#problems.delete(key)
      log[this.#recoveryLines.take() ? 'info' : 'debug'](recovery, before?.fields)
    } else {
      this.#problems.set(key, problem)
      log[this.#problemLines.take() ? level : 'debug'](`${problemLine}: ${problem.text}`, problem.fields)
      if (problem.event !== undefined) events?.record(problem.event)
    }
    if ((before === undefined) !== (problem === undefined)) count?.(this.#problems.size)
  }

  /** Forgets `key` without a line, because the object is deleted. */
  forget(key: string): void {
    if (this.#problems.delete(key)) this.#options.count?.(this.#problems.size)
  }

  get size(): number {
    return this.#problems.size
  }

  /** The present problems, oldest first. */
  get present(): readonly PresentProblem[] {
    const { level, problemLine } = this.#options
    if (level === 'info') return []
    return [...this.#problems.values()].map(({ text, fields = {} }) => ({
      level,
      line: `${problemLine}: ${text}`,
      fields,
    }))
  }
}

/** More lines at once are too many for people to read. */
const linesPerPeriod = 20
const periodMs = 10_000
const moreLines = `more within ${periodMs / 1000} s than the ${linesPerPeriod} written; -v=2 writes each`

/** Counts lines of one kind; a period begins with its first line. */
class LineLimit {
  readonly #clock: Pick<Clock, 'every'>
  readonly #summarize: (count: number) => void
  #lines = 0
  #endPeriod: () => void = () => {}

  /** `summarize` gets the number of lines over the limit at the end of each period with such lines. */
  constructor(clock: Pick<Clock, 'every'>, summarize: (count: number) => void) {
    this.#clock = clock
    this.#summarize = summarize
  }

  /** Counts a line. Returns whether it is within the limit. */
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

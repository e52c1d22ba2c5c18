// The end of the agent: the signal or the error that causes it, and the shutdown of its parts. Other signals change the log only.
import type { AdjustableLog, Log } from '../log.js'
import type { Clock } from '../clock.js'

/** Resolves with the first signal that asks the process to end. */
export async function stopSignal(): Promise<NodeJS.Signals> {
  return await new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, resolve)
  })
}

/** The verbosity (klog's V) at which the log shows all lines. */
const traceVerbosity = 4

/**
 * SIGUSR2 toggles trace logging: the second one restores the former verbosity, unless it was changed by other means in between.
 * SIGUSR1 is ignored: by default Node would accept debugger connections, which get all privileges of the agent.
 */
export function followLogSignals(log: AdjustableLog): void {
  let change: { readonly from: number; readonly to: number } | undefined
  process.on('SIGUSR2', () => {
    const from = log.verbosity
    const isSwitched = change?.to === from
    const now = isSwitched && change !== undefined ? change.from : Math.max(traceVerbosity, from)
    change = isSwitched ? undefined : { from, to: now }
    log.setVerbosity(now)
    log.info('Log verbosity changed', { signal: 'SIGUSR2', v: now })
  })
  process.on('SIGUSR1', () => undefined)
}

/** The part of Node's `process` that this file uses. */
interface EndingProcess {
  once(event: 'uncaughtException', listener: (error: Error) => void): unknown
  exitCode?: NodeJS.Process['exitCode']
  exit(code: number): void
}

/** Limit for an orderly shutdown after an uncaught error. */
const longestEndMs = 10_000

/**
 * Rejects with the first uncaught exception or promise rejection, so that the process can shut down in order. Logs the error at once,
 * since a shutdown may already be in progress. If the shutdown takes longer than 10 s, or a second error comes, the process exits.
 * The promise may stay unhandled.
 */
export function uncaughtError({
  log,
  process,
  clock,
}: {
  readonly log: Pick<Log, 'error'>
  readonly process: EndingProcess
  readonly clock: Pick<Clock, 'schedule'>
}): Promise<never> {
  const uncaught = new Promise<never>((_resolve, reject) => {
    process.once('uncaughtException', (error) => {
      log.error('Uncaught error: the agent ends', { err: error })
      process.exitCode = 1
      clock.schedule(longestEndMs, () => process.exit(1))
      reject(error)
    })
  })
  uncaught.catch(() => undefined)
  return uncaught
}

/** The first event that ends the agent: a signal or an error. */
export class FirstEnd {
  /** Resolves with the signal, or rejects with the error, that ends the agent. */
  readonly happened: Promise<NodeJS.Signals>
  #resolve: (signal: NodeJS.Signals) => void = () => {}
  #reject: (error: unknown) => void = () => {}

  constructor() {
    this.happened = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    // The error may come before a caller waits for it.
    this.happened.catch(() => undefined)
  }

  /** Ends the agent with this error. */
  readonly fail = (error: unknown): void => this.#reject(error)

  /** Ends the agent when `signal` resolves, or with its error. */
  onSignal(signal: Promise<NodeJS.Signals>): void {
    signal.then(this.#resolve, this.#reject)
  }

  /** Ends the agent if `work` fails. Its success ends nothing. */
  onFailureOf(work: Promise<unknown>): void {
    work.catch(this.#reject)
  }

  /** Resolves with the result of `work`, or with the signal if that comes first. Rejects with the first error. */
  async before<T>(work: Promise<T>): Promise<T | NodeJS.Signals> {
    return await Promise.race([this.happened, work])
  }
}

interface Part {
  /** For the log. */
  readonly part: string
  readonly stop: () => Promise<void> | undefined
}

/** Stops the parts one after the other. Logs a part that fails, and continues. Returns false if one failed; never rejects. */
export async function endInOrder(parts: readonly Part[], log: Pick<Log, 'error'>): Promise<boolean> {
  let hasSucceeded = true
  for (const { part, stop } of parts) {
    try {
      await stop()
    } catch (error) {
      hasSucceeded = false
      log.error('Part of the agent failed to stop', { part, err: error })
    }
  }
  return hasSucceeded
}

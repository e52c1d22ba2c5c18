// A KubernetesSource on a fake API server, with a clock that tests move.
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../../src/clock.js'
import { openLog, StateReporter } from '../../src/log.js'
import type { ObjectEvent } from '../../src/source/index.js'
import type { FollowedNodes } from '../../src/source/testing.js'
import { masterOptions, type ClientOptions, type RequestReport } from '../../src/api/client-options.js'
import { KubernetesSource } from '../../src/source/kubernetes/kubernetes-source.js'
import { apiNode, apiService, apiSlice } from './api-documents.js'
import { FakeApiServer, type FakeApiOptions } from './fake-api-server.js'
import { describeEvent } from './manifest-folder.js'

interface ArmedTimer {
  readonly delayMs: number
  readonly dueMs: number
  readonly run: () => void
}

/** Timers run only when a test fires them. Timers without a delay run in the next turn of the event loop. */
export class HandClock implements Clock {
  #nowMs = 0
  readonly #armed = new Set<ArmedTimer>()
  readonly #onArmed: () => void

  constructor(onArmed: () => void) {
    this.#onArmed = onArmed
  }

  now(): number {
    return this.#nowMs
  }

  unixMs(): number {
    return Date.UTC(2026, 0, 31, 12) + this.#nowMs
  }

  every(): () => void {
    throw new Error('no source has a timer that repeats')
  }

  async pause(): Promise<void> {
    await nextTurn()
  }

  schedule(delayMs: number, run: () => void): () => void {
    if (delayMs === 0) {
      const immediate = setImmediate(run)
      return () => clearImmediate(immediate)
    }
    const timer = { delayMs, dueMs: this.#nowMs + delayMs, run }
    this.#armed.add(timer)
    this.#onArmed()
    return () => this.#armed.delete(timer)
  }

  /** Lets time pass without running timers. */
  pass(ms: number): void {
    this.#nowMs += ms
  }

  count(delayMs: number): number {
    return this.countOf((armed) => armed === delayMs)
  }

  /** Timers with such a delay. */
  countOf(fits: (delayMs: number) => boolean): number {
    return [...this.#armed].filter(({ delayMs }) => fits(delayMs)).length
  }

  get armed(): number {
    return this.#armed.size
  }

  /** Time of the next timer; undefined: no timer is set. */
  get nextMs(): number | undefined {
    return this.#next?.dueMs
  }

  /** Lets time pass until the next timer is due, and runs it. */
  fireNext(): void {
    const next = this.#next
    if (next === undefined) throw new Error('no timer is armed')
    this.#armed.delete(next)
    this.#nowMs = Math.max(this.#nowMs, next.dueMs)
    next.run()
  }

  get #next(): ArmedTimer | undefined {
    return [...this.#armed].toSorted((a, b) => a.dueMs - b.dueMs)[0]
  }

  /** Runs every timer with this delay, at the time when the last of them is due. */
  fire(delayMs: number): void {
    const due = [...this.#armed].filter((timer) => timer.delayMs === delayMs)
    if (due.length === 0) throw new Error(`no timer of ${delayMs} ms is armed`)
    for (const { dueMs } of due) this.#nowMs = Math.max(this.#nowMs, dueMs)
    for (const timer of due) {
      this.#armed.delete(timer)
      timer.run()
    }
  }
}

/** The delays of a source whose random number is 0. */
export const delays = {
  turn: 1000,
  relist: 400,
  first: 800,
  second: 1600,
  third: 3200,
  longest: 30_000,
  answer: 10_000,
  /** The shortest silence that ends an answer of a server on this machine, over HTTP/1.1. */
  silence: 32_000,
  /** Time until the next PING on a connection of HTTP/2. */
  ping: 20_000,
  /** Time in which a PING must be answered. */
  pong: 15_000,
  steady: 5000,
}

const longestSilence = 38_000

/** Whether this is the delay of a silent answer. NB: delays between attempts have fractions, or are none of these. */
function isSilence(delayMs: number): boolean {
  return Number.isInteger(delayMs) && delayMs >= delays.silence && delayMs < longestSilence
}

/** Whether a quiet watch over HTTP/2 waits so long for its end by the server. NB: so does an optional link after a refusal. */
function isWatchEnd(delayMs: number): boolean {
  return delayMs >= 250_000
}

export class KubernetesLab {
  readonly server: FakeApiServer
  readonly clock = new HandClock(() => this.#wake())
  /** One line per event, in order: see describeEvent(). */
  readonly events: string[] = []
  /** Where the connections lead, and how many events came before. */
  readonly connections: { readonly address: string; readonly port: number; readonly after: number }[] = []
  readonly log: string[] = []
  /** The level of each line of the log. */
  readonly levels: string[] = []
  /** The error that ended the source. */
  readonly crashes: unknown[] = []
  /** Receives the events after they were recorded. */
  deliver: (events: readonly ObjectEvent[]) => void = () => undefined
  /** The requests that the source reported. */
  readonly requests: RequestReport[] = []
  /** The source's random number, from 0 to below 1. */
  random: () => number = () => 0
  #wake: () => void = () => undefined
  /** The Nodes that the source is to follow. */
  nodes: FollowedNodes = 'own'
  #source: KubernetesSource | undefined

  constructor(options: FakeApiOptions = {}) {
    this.server = new FakeApiServer(options)
    this.server.onChange = () => this.#wake()
    this.server.store.put('Node', apiNode('node-a'))
    this.server.store.put('Node', apiNode('node-b'))
    this.server.store.put('Service', apiService('web', '10.96.0.1'))
    this.server.store.put('EndpointSlice', apiSlice('web-1', 'web', ['10.0.0.1']))
  }

  /** Starts the source without waiting for it. `client` replaces options for a client without credentials. */
  open(client: Partial<ClientOptions> = {}): Promise<void> {
    const destination = { write: (line: string) => this.#note(line) }
    const log = openLog({ format: 'json', verbosity: 2, destination, clock: { unixMs: () => 0 } })
    const reporter = (problemLine: string): StateReporter =>
      new StateReporter({
        log,
        level: 'error',
        problemLine,
        recovery: `${problemLine}: over`,
      })
    const source = new KubernetesSource({
      client: {
        ...masterOptions(this.server.url.href),
        observe: (report) => {
          this.requests.push(report)
          this.#wake()
        },
        ...client,
      },
      nodeName: 'node-a',
      clock: this.clock,
      random: () => this.random(),
      log,
      problems: reporter('object'),
      links: reporter('link'),
      onCrash: (error) => this.#noteCrash(error),
    })
    this.#source = source
    source.followNodes(this.nodes)
    return source.start((events) => this.#take(events))
  }

  /** As the agent does in nftables mode. */
  followServiceCidrs(): void {
    this.#source?.followServiceCidrs()
  }

  /** Starts server and source, and waits until all objects are known. */
  async start(): Promise<void> {
    await this.server.listen()
    await this.open()
  }

  /** Waits for events, log lines, requests and timers until the condition holds. */
  async until(isThere: () => boolean): Promise<void> {
    while (!isThere()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Waits for an event with this text. Returns all events since the last call, in order. */
  async untilEvent(event: string): Promise<readonly string[]> {
    await this.until(() => this.events.includes(event))
    return this.events.splice(0)
  }

  /** Waits until `count` timers with this delay are set, and fires them. */
  async fire(delayMs: number, count = 1): Promise<void> {
    await this.until(() => this.clock.count(delayMs) >= count)
    this.clock.fire(delayMs)
  }

  /** Answers that the source is reading. */
  get following(): number {
    const { server, clock } = this
    const isQuiet = server.openSessions > 0 && clock.count(delays.answer) === 0
    return clock.countOf(isSilence) + (isQuiet ? server.openWatches : 0)
  }

  /** Waits until a watch of each kind is open at the server and at the source. */
  async untilFollowing(): Promise<void> {
    await this.until(() => this.server.openWatches === 3 && this.following === 3)
  }

  /** Waits until each link follows its watch or waits for its next attempt. Then nothing happens until time passes. */
  async untilResting(): Promise<void> {
    await this.until(() => {
      const { clock, server } = this
      const follows = this.following
      const ofAnswers = clock.countOf(isSilence) + clock.countOf(isWatchEnd) + clock.count(delays.steady)
      const ownTimers = ofAnswers + server.openSessions
      const waits = clock.armed - ownTimers
      const isAnswered = clock.count(delays.answer) + clock.count(delays.pong) === 0
      const hasAnswers = isAnswered && follows === server.openWatches
      return hasAnswers && follows + waits === 3
    })
  }

  /** Lets time pass up to this time, timer by timer, and waits for the effects of each. */
  async passUntil(endMs: number): Promise<void> {
    await this.untilResting()
    while ((this.clock.nextMs ?? endMs) < endMs) {
      this.clock.fireNext()
      await this.untilResting()
    }
    this.clock.pass(endMs - this.clock.now())
  }

  /** Lets time pass until each link follows its watch. */
  async passUntilFollowing(): Promise<void> {
    await this.untilResting()
    while (this.following < 3) {
      this.clock.fireNext()
      await this.untilResting()
    }
  }

  /** Breaks all links with `how`, and waits until each has noticed. */
  async breakLinks(how: () => Promise<void> | void): Promise<void> {
    await how()
    await this.until(() => this.following === 0)
    await this.untilResting()
  }

  async untilRequest(request: string): Promise<void> {
    await this.until(() => this.server.requests.includes(request))
  }

  async untilLogged(text: RegExp): Promise<void> {
    await this.until(() => this.log.some((line) => text.test(line)))
  }

  async stop(): Promise<void> {
    await this.#source?.stop()
  }

  async close(): Promise<void> {
    await this.stop()
    await this.server.close()
  }

  #take(events: readonly ObjectEvent[]): void {
    for (const event of events) {
      if (event.type === 'connected') this.connections.push({ ...event, after: this.events.length })
      else this.events.push(describeEvent(event))
    }
    this.#wake()
    this.deliver(events)
  }

  #noteCrash(error: unknown): void {
    this.crashes.push(error)
    this.#wake()
  }

  #note(line: string): void {
    const { level, msg, err = '' }: { level: string; msg: string; err?: string } = JSON.parse(line)
    this.levels.push(level)
    this.log.push(err === '' ? msg : `${msg} (${err})`)
    this.#wake()
  }
}

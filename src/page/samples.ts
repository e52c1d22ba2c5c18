// The last hour: how long passes took, and how much drift there was; and its bar plots as inline SVG. Classes give colours, as the page
// has no inline style.
import type { Clock } from '../clock.js'
import type { Inspected } from '../inspect/index.js'
import { type Content, html, type Html } from './html.js'

/** One period. */
export interface Sample {
  readonly passCount: number
  /** 0: no pass ended in the period. */
  readonly slowestMs: number
  /** Differences that other programs made in the kernel. */
  readonly drift: number
}

const samplePeriodMs = 30_000
const keptSamples = 120
type Read = Pick<Inspected, 'synchronizer' | 'metric' | 'clock'>

/** A ring of samples. A sample takes some 50 bytes. */
export class Samples {
  readonly #inspected: Read
  readonly #samples: Sample[] = []
  /** Passes that ended before this time are counted. */
  #countedToMs = 0
  /** Number of passes that ended in the current period. */
  #passCount = 0
  /** Time of the slowest of them. */
  #slowestMs = 0
  #driftBefore = 0
  #taken = 0

  constructor(inspected: Read) {
    this.#inspected = inspected
  }

  /** Number of periods that have ended. */
  get taken(): number {
    return this.#taken
  }

  /** Keeps samples until the returned function is called. */
  start(clock: Pick<Clock, 'every'>): () => void {
    // A family keeps some 60 passes, and changes that follow each other make up to 20 passes per second.
    const cancelLooks = this.#inspected.synchronizer.onRunEnd(() => this.#look())
    const cancelSamples = clock.every(samplePeriodMs, () => void this.#take())
    return () => {
      cancelLooks()
      cancelSamples()
    }
  }

  /** At most one hour, oldest first. The last one is the period that has not ended. */
  async lastHour(): Promise<readonly Sample[]> {
    this.#look()
    return [...this.#samples, this.#sample(await this.#driftTotal())].slice(-keptSamples)
  }

  /** Counts the passes that ended since the last look. */
  #look(): void {
    const { synchronizer, clock } = this.#inspected
    const nowMs = clock.unixMs()
    for (const { passes } of synchronizer.views)
      for (const { startSeconds, durationMs } of passes) {
        const endMs = startSeconds * 1000 + durationMs
        if (endMs < this.#countedToMs || endMs >= nowMs) continue
        this.#passCount++
        this.#slowestMs = Math.max(this.#slowestMs, durationMs)
      }
    this.#countedToMs = nowMs
  }

  /** Ends the current period. */
  async #take(): Promise<void> {
    const driftTotal = await this.#driftTotal()
    this.#look()
    this.#samples.push(this.#sample(driftTotal))
    if (this.#samples.length > keptSamples) this.#samples.shift()
    this.#driftBefore = driftTotal
    this.#passCount = 0
    this.#slowestMs = 0
    this.#taken++
  }

  #sample(driftTotal: number): Sample {
    return {
      passCount: this.#passCount,
      slowestMs: this.#slowestMs,
      drift: driftTotal - this.#driftBefore,
    }
  }

  async #driftTotal(): Promise<number> {
    const series = await this.#inspected.metric('viaduct_drift_total')
    return series.reduce((sum, { value }) => sum + value, 0)
  }
}

/** The bars of one plot, oldest first. */
interface Plot {
  readonly title: string
  /** The plot in words. */
  readonly summary: string
  /** 0 to 1. */
  readonly heights: readonly number[]
  readonly ticks: readonly Tick[]
  readonly topLabel: string
  readonly className: string
}

/** A line of the vertical axis. `share`: 0 to 1. */
interface Tick {
  readonly share: number
  readonly label: string
}

const barCount = 120
/** Fewer samples leave room for the words that say why. */
const mostSamplesWithNote = barCount / 2

/** The vertical axis ends at the power of ten above the slowest pass. */
export function latencyPlot(samples: readonly Sample[]): Html {
  const slowest = Math.max(...samples.map(({ slowestMs }) => slowestMs))
  const passes = samples.reduce((sum, { passCount }) => sum + passCount, 0)
  const decades = Math.max(1, Math.ceil(Math.log10(Math.max(slowest, 1))))
  const share = (ms: number): number => Math.log10(1 + ms) / Math.log10(1 + 10 ** decades)
  return plot({
    title: 'Sync latency',
    summary: `Slowest pass per ${samplePeriodMs / 1000} s, logarithmic scale. ${passes === 0 ? 'Last hour: no pass' : `Last hour: ${passes} passes, the slowest took ${milliseconds(slowest)}`}.`,
    heights: samples.map(({ slowestMs }) => share(slowestMs)),
    ticks: Array.from({ length: decades + 1 }, (_, power) => ({
      share: share(10 ** power),
      label: power < 3 ? `${10 ** power} ms` : `${10 ** (power - 3)} s`,
    })),
    topLabel: milliseconds(slowest),
    className: 'latency',
  })
}

export function driftPlot(samples: readonly Sample[]): Html {
  const most = Math.max(...samples.map(({ drift }) => drift))
  const total = samples.reduce((sum, { drift }) => sum + drift, 0)
  const top = roundedUp(most)
  return plot({
    title: 'Drift',
    summary: `Differences that other programs made in the kernel, per ${samplePeriodMs / 1000} s. Last hour: ${total}.`,
    heights: samples.map(({ drift }) => drift / top),
    ticks: [0, top / 2, top].map((count) => ({ share: count / top, label: String(count) })),
    topLabel: String(most),
    className: 'drift',
  })
}

/** The next of 2, 4, 10, 20, 40, 100 and so on: an axis with whole numbers at its middle and end. */
function roundedUp(count: number): number {
  const unit = 10 ** Math.floor(Math.log10(Math.max(count, 1)))
  return [2, 4, 10].map((factor) => factor * unit).find((top) => top >= count) ?? count
}

/** All lengths are shares of the plot, so its text keeps its size while the plot follows the width of the page. */
function plot({ title, summary, heights, ticks, topLabel, className }: Plot): Html {
  const first = barCount - heights.length
  const bars = heights.map((share, index) => (share <= 0 ? '' : bar(first + index, Math.max(0.02, share))))
  return html`<figure>
    <figcaption>
      <h3>${title}</h3>
      <span class="top">max ${topLabel}</span>
    </figcaption>
    <svg class="${className}" role="img" aria-label="${title}" aria-describedby="${className}-summary">
      ${[25, 50, 75].map((x) => html`<line x1="${x}%" x2="${x}%" y1="0" y2="100%" />`)} ${ticks.map(tickLine)}
      ${heights.length > mostSamplesWithNote ? '' : beforeStart(first)} ${bars}
    </svg>
    <p class="axis"><span>1 hour ago</span><span>30 min</span><span>now</span></p>
    <p class="note" id="${className}-summary">${summary}</p>
  </figure>`
}

function bar(index: number, share: number): Html {
  const x = percent(index / barCount)
  return html`<rect
    class="bar"
    x="${x}"
    y="${percent(1 - share)}"
    width="${percent(0.8 / barCount)}"
    height="${percent(share)}"
  />`
}

function tickLine({ share, label }: Tick): Html {
  const y = percent(1 - share)
  return html`<line x1="0" x2="100%" y1="${y}" y2="${y}" />
    <text x="-6" y="${y}" dy=".35em" text-anchor="end">${label}</text>`
}

/** The part of the hour before the first sample. */
function beforeStart(count: number): Content {
  const share = count / barCount
  return html`<rect class="unknown" width="${percent(share)}" height="100%" />
    <text x="${percent(share / 2)}" y="50%" dy=".35em" text-anchor="middle">before the start</text>`
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)}%`
}

export function milliseconds(value: number): string {
  return value < 10 ? `${value.toFixed(1)} ms` : `${Math.round(value)} ms`
}

// Bar plots of the samples as inline SVG. Classes give colours, as the page has no inline style.
import { type Content, html, type Html } from './html.js'
import { type Sample, samplePeriodMs } from './samples.js'

/** The bars of one plot, oldest first. */
interface Plot {
  readonly title: string
  /** The plot in words. */
  readonly summary: string
  /** 0 to 1. */
  readonly heights: readonly number[]
  readonly topLabel: string
  readonly className: string
}

const [width, height, barCount] = [600, 90, 120]
const barWidth = width / barCount

export function latencyPlot(samples: readonly Sample[]): Html {
  const slowest = Math.max(...samples.map(({ slowestMs }) => slowestMs))
  const passes = samples.reduce((sum, { passCount }) => sum + passCount, 0)
  const scale = Math.log10(1 + Math.max(slowest, 1))
  return plot({
    title: 'Sync latency',
    summary: `Slowest pass per ${samplePeriodMs / 1000} s, logarithmic scale. Last hour: ${passes} passes, the slowest took ${milliseconds(slowest)}.`,
    heights: samples.map(({ slowestMs }) => Math.log10(1 + slowestMs) / scale),
    topLabel: milliseconds(slowest),
    className: 'latency',
  })
}

export function driftPlot(samples: readonly Sample[]): Html {
  const most = Math.max(...samples.map(({ drift }) => drift))
  const total = samples.reduce((sum, { drift }) => sum + drift, 0)
  return plot({
    title: 'Drift',
    summary: `Differences that other programs made in the kernel, per ${samplePeriodMs / 1000} s. Last hour: ${total}.`,
    heights: samples.map(({ drift }) => drift / Math.max(most, 1)),
    topLabel: String(most),
    className: 'drift',
  })
}

function plot({ title, summary, heights, topLabel, className }: Plot): Html {
  const first = barCount - heights.length
  const bars: Content = heights.map((share, index) => {
    if (share <= 0) return ''
    const size = Math.max(2, share * height)
    return html`<rect
      x="${(first + index) * barWidth}"
      y="${(height - size).toFixed(1)}"
      width="${barWidth - 1}"
      height="${size.toFixed(1)}"
    />`
  })
  return html`<figure>
    <figcaption>
      <h3>${title}</h3>
      <span class="top">max ${topLabel}</span>
    </figcaption>
    <svg
      class="${className}"
      viewBox="0 0 ${width} ${height}"
      preserveAspectRatio="none"
      role="img"
      aria-label="${title}: ${summary}"
    >
      <line x1="0" x2="${width}" y1="${height}" y2="${height}" />
      ${bars}
    </svg>
    <p class="axis"><span>1 hour ago</span><span>now</span></p>
    <p class="note">${summary}</p>
  </figure>`
}

export function milliseconds(value: number): string {
  return value < 10 ? `${value.toFixed(1)} ms` : `${Math.round(value)} ms`
}

import { ConfigError } from '../errors.js'

// Units of time.ParseDuration of Go, which kube-proxy's flags and files use.
const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3, // U+00B5, micro sign
  μs: 1e-3, // U+03BC, Greek mu
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
}
const onePart = /(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)/gu
const example = 'a duration such as 30s, 1m30s or 500ms'
const unlimited = 'infinity'
const wholeText = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/u

/**
 * Milliseconds of a Go duration such as `1m30s`, to the nanosecond; `0` needs no unit. Throws ConfigError with `path` for
 * anything else.
 */
export function parseDuration(path: string, text: string): number {
  return requireDuration(path, text, example)
}

/** As `parseDuration`. Also accepts `infinity` for no limit, as systemd does. */
export function parseLimit(path: string, text: string): number {
  return text === unlimited ? Infinity : requireDuration(path, text, `${example}, or ${unlimited}`)
}

function requireDuration(path: string, text: string, expected: string): number {
  if (/^[+-]?0$/u.test(text)) return 0
  if (!wholeText.test(text)) throw new ConfigError(path, `must be ${expected}, not "${text}"`)
  let ms = 0
  for (const [, number, unit] of text.matchAll(onePart)) ms += Number(number) * (unitMs[unit ?? ''] ?? 0)
  const rounded = Math.round(ms * 1e6) / 1e6
  return text.startsWith('-') ? -rounded : rounded
}

/** The text that `parseLimit` reads as `durationMs`. */
export function formatLimit(durationMs: number): string {
  return durationMs === Infinity ? unlimited : formatDuration(durationMs)
}

/** As time.Duration of Go prints it: `24h0m0s`, `1m30s`, `1.5s`, `500ms`, `0s`. */
export function formatDuration(durationMs: number): string {
  if (durationMs < 0) return `-${formatDuration(-durationMs)}`
  if (durationMs === 0) return '0s'
  if (durationMs < 1e-3) return `${Math.round(durationMs * 1e6)}ns`
  if (durationMs < 1) return `${decimals(durationMs * 1e3, 3)}µs`
  if (durationMs < 1000) return `${decimals(durationMs, 6)}ms`
  const minutes = Math.floor(durationMs / 60_000)
  const seconds = `${decimals((durationMs % 60_000) / 1000, 9)}s`
  if (minutes === 0) return seconds
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`
}

function decimals(value: number, most: number): string {
  return value.toFixed(most).replace(/\.?0+$/u, '')
}

import { ConfigError } from '../errors.js'

// time.ParseDuration of Go, which is what kube-proxy's flags and files are written for.
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
const wholeText = /^[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/u

/** Milliseconds of a Go duration such as `1m30s`; `0` needs no unit. Throws ConfigError with `path` for anything else. */
export function parseDuration(path: string, text: string): number {
  if (/^[+-]?0$/u.test(text)) return 0
  if (!wholeText.test(text)) {
    throw new ConfigError(path, `must be a duration such as 30s, 1m30s or 500ms, not "${text}"`)
  }
  let ms = 0
  for (const [, number, unit] of text.matchAll(onePart)) ms += Number(number) * (unitMs[unit ?? ''] ?? 0)
  return text.startsWith('-') ? -ms : ms
}

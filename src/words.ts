// Texts for people that both the agent and the commands write.

/** Characters that end a line, move a terminal's cursor, or reorder text: Cc, Zl, Zp and bidi controls. */
const unprintable = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu

/** Most texts: no character needs a look in the tables of Unicode. */
const printableAscii = /^[ -~]*$/u

/** The text without characters that change the place of others on a terminal. */
export function printable(text: string): string {
  return printableAscii.test(text) ? text : text.replaceAll(unprintable, '\u{FFFD}')
}

/** `45s`, `12m`, `3h7m`, `4d2h`. */
export function duration(seconds: number): string {
  const [minutes, hours, days] = [seconds / 60, seconds / 3600, seconds / 86_400].map(Math.floor)
  if (days !== undefined && days > 0) return `${days}d${(hours ?? 0) % 24}h`
  if (hours !== undefined && hours > 0) return `${hours}h${(minutes ?? 0) % 60}m`
  return seconds >= 60 ? `${minutes}m` : `${seconds}s`
}

/** One port of one Service. */
interface PortWords {
  /** `namespace/name`. */
  readonly service: string
  /** Blank: the port has no name. */
  readonly port: string
  readonly protocol: string
}

/** `default/web:http/TCP`. */
export function portText({ service, port, protocol }: PortWords): string {
  return `${service}:${port === '' ? '' : `${port}/`}${protocol}`
}

// Texts for people that both the agent and the commands write, and tables with aligned columns.

/** Blank or undefined: not known, or there is none. */
export type Cell = string | number | undefined

interface Column {
  width: number
  /** The newest cell, and its text with the spaces after it. Many rows repeat the cell of the row before. */
  cell: Cell
  text: string
}

/** Blanks between two columns, as in kubectl. */
const gap = 3

/** Aligns the columns of rows. A blank cell is `-`. A character that moves a terminal's cursor is replaced (`printable`). */
export class Columns {
  readonly #columns: Column[]

  /** Columns that are as wide as their headings. */
  constructor(headings: readonly string[]) {
    this.#columns = headings.map((heading) => ({ width: heading.length, cell: undefined, text: '' }))
  }

  /** Makes each column as wide as its cell. NB: one cell per heading, here and in `line`. */
  widen(cells: readonly Cell[]): void {
    for (const [at, column] of this.#columns.entries()) {
      column.width = Math.max(column.width, shown(cells[at]).length)
      column.cell = undefined
    }
  }

  /** The row with a newline. A cell that is wider than its column widens the column from there on. */
  line(cells: readonly Cell[]): string {
    const all = this.#columns
    let line = ''
    for (let at = 0; at < all.length; at++) {
      const column = all[at]
      if (column === undefined) break
      const cell = cells[at]
      if (cell !== column.cell || cell === undefined) {
        const text = shown(cell)
        column.width = Math.max(column.width, text.length)
        column.text = at === all.length - 1 ? `${text}\n` : text.padEnd(column.width + gap)
        column.cell = cell
      }
      line += column.text
    }
    return line
  }
}

/** The text of a cell; `-` for a blank one. */
function shown(cell: Cell): string {
  return cell === undefined || cell === '' ? '-' : printable(String(cell))
}

/** A table of all its rows. No row: the headings alone. */
export function columns(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const aligned = new Columns(headings)
  for (const row of rows) aligned.widen(row)
  return [headings, ...rows].map((row) => aligned.line(row)).join('')
}

/** Pairs as lines `Name:   value`, with aligned values. */
export function pairs(entries: readonly (readonly [string, Cell])[]): string {
  const width = Math.max(0, ...entries.map(([name]) => name.length))
  return entries.map(([name, value]) => `${`${name}:`.padEnd(width + gap)}${shown(value)}\n`).join('')
}

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
